// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Health is what people see of a lane.
type Health string

// The states of section 12.
const (
	Healthy      Health = "Healthy"
	Retrying     Health = "Retrying"
	AuthFailed   Health = "AuthFailed"
	Incompatible Health = "Incompatible"
	Overloaded   Health = "Overloaded"
	Unknown      Health = "Unknown"
)

const (
	growthShare  = 10 // a batch grows by a tenth per success
	shrinkFactor = 2
)

// State is how it goes with one lane.
type State struct {
	Health   Health
	Class    sink.Class
	Reason   sink.Reason
	Message  string
	Failures int // in a row
	NextTry  time.Time
	// Share of the configured batch that is sent, above 0 and up to 1.
	Share float64
}

// Probing is true where the sink is only probed.
func (s State) Probing() bool { return s.Class == sink.Auth || s.Class == sink.Incompatible }

// delivered is the state after a success.
func (s State) delivered() State {
	return State{Health: Healthy, Share: min(1, s.Share+s.Share/growthShare)}
}

// failed is the state after a failure. random is from 0 to 1.
func (s State) failed(e *sink.Error, bounds retry.Bounds, now time.Time, random float64) State {
	next := State{Class: e.Class, Reason: e.Reason, Message: e.Message, Failures: s.Failures + 1, Share: s.Share}
	switch e.Class {
	case sink.Auth:
		next.Health = AuthFailed
	case sink.Incompatible:
		next.Health = Incompatible
	case sink.Overload:
		next.Health, next.Share = Overloaded, s.Share/shrinkFactor
	default:
		next.Health = Retrying
	}
	next.NextTry = now.Add(bounds.After(e, s.Failures, random))
	return next
}
