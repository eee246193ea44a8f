// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Phase is where a sink stands.
type Phase int

// The phases.
const (
	// Unknown: nothing was sent yet.
	Unknown Phase = iota
	// Healthy: the last thing that came was an acknowledgement.
	Healthy
	// Failing: nothing is sent before the next probe is answered.
	Failing
	// Trial: a probe was answered, and one stream is tried, where somebody waits.
	Trial
)

// Health is how a sink is doing. The zero value is a sink that nothing is known of.
type Health struct {
	Phase   Phase
	Class   sink.Class
	Reason  sink.Reason
	Message string
	// Since is when the sink began to fail for this reason, or to be healthy.
	Since time.Time
	// Failures counts those in a row.
	Failures int
	// NextTry is when a sink that fails is probed.
	NextTry time.Time
	// Acknowledged is when the far end last acknowledged records, and Heard when it last did that or answered a probe.
	Acknowledged, Heard time.Time
	// Share of the configured batch that is sent, from above 0 to 1; 0 is 1.
	Share float64
}

const (
	shrinkFactor = 2
	growthShare  = 10
	minShare     = 0.001
)

// Delivered is the health after an acknowledgement.
func (h Health) Delivered(now time.Time) Health {
	next := Health{Phase: Healthy, Since: h.Since, Acknowledged: now, Heard: now, Share: 1}
	if h.Phase != Healthy {
		next.Since = now
	}
	if h.Share > 0 {
		next.Share = min(1, h.Share+h.Share/growthShare)
	}
	return next
}

// Answered is the health after a probe that was answered.
func (h Health) Answered(now time.Time) Health {
	h.Heard = now
	if h.Phase == Failing {
		h.Phase = Trial
	}
	return h
}

// Idle is the health of a sink that nobody waits for: where a probe was answered, nothing is left to try.
func (h Health) Idle(now time.Time) Health {
	if h.Phase != Trial {
		return h
	}
	return Health{Phase: Healthy, Since: now, Acknowledged: h.Acknowledged, Heard: h.Heard, Share: h.Share}
}

// Failed is the health after a failure. random is from 0 to 1.
func (h Health) Failed(failure *sink.Error, bounds retry.Bounds, now time.Time, random float64) Health {
	next := Health{
		Phase: Failing, Class: failure.Class, Reason: failure.Reason, Message: failure.Message, Since: h.Since,
		Failures: h.Failures + 1, Acknowledged: h.Acknowledged, Heard: h.Heard, Share: h.Share,
	}
	if h.Reason != failure.Reason {
		next.Since = now
	}
	if failure.Class == sink.Overload {
		share := h.Share
		if share == 0 {
			share = 1
		}
		next.Share = max(share/shrinkFactor, minShare)
	}
	next.NextTry = now.Add(bounds.After(failure, h.Failures, random))
	return next
}

// Streams is how many streams the sink may have.
func (h Health) Streams() int {
	switch h.Phase {
	case Failing:
		return 0
	case Trial:
		return 1
	case Unknown, Healthy:
	}
	return turns.DefaultPerSink
}

// IsHealthy tells whether nothing speaks against the sink.
func (h Health) IsHealthy() bool { return h.Phase == Healthy }

// Fails tells whether the sink fails, or was probed after a failure and has not yet taken anything.
func (h Health) Fails() bool { return h.Phase == Failing || h.Phase == Trial }
