// SPDX-License-Identifier: Apache-2.0

package item

import (
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Outcome is how a try ended.
type Outcome int

// How a try may end.
const (
	// Done: what was wanted is made.
	Done Outcome = iota
	// Transient: connection, 5xx, the adapter killed by us for time, a conflict.
	Transient
	// Crashed: the adapter died over the item.
	Crashed
	// Unscannable: adapter or registry say that the item is nothing to be looked at, and never will be.
	Unscannable
	// Broken: adapter or registry say that it will never work.
	Broken
	// Refused: 401 or 403 of the registry.
	Refused
	// Throttled: the registry wants fewer requests.
	Throttled
	// GivenBack: the worker ends, or the job was cancelled.
	GivenBack
)

const (
	firstWait   = 30 * time.Second
	longestWait = time.Hour
	jitter      = 0.2
)

// Tried is a try that has ended.
type Tried struct {
	Step    Step
	Now     time.Time
	Outcome Outcome
	Reason  string
	// Attempt, Crashes and Lost are those of the claim.
	Attempt, Crashes, Lost int32
	// Scanned: the image had a report before.
	Scanned bool
	// RetryAfter is what the other side asks for; 0: nothing.
	RetryAfter time.Duration
	// Chance is a number from 0 to 1.
	Chance float64
}

// Next is what becomes of an item after a try.
type Next struct {
	State, Reason          string
	NotBefore              time.Time
	Attempt, Crashes, Lost int32
}

// After says what becomes of an item after a try.
func After(t Tried) Next {
	s := statesOf[t.Step]
	n := Next{State: s.waiting, Reason: t.Reason, Attempt: t.Attempt, Crashes: t.Crashes, Lost: t.Lost}
	if t.Step == Match && t.Scanned {
		n.State = s.done
	}
	switch t.Outcome {
	case Done:
		return Next{State: s.done}
	case Transient:
		n.NotBefore = t.Now.Add(wait(t))
	case Crashed:
		n.Crashes++
		n.NotBefore = t.Now.Add(wait(t))
	case Unscannable:
		n.State = reportsv1.ImageSkipped
		if t.Step == Discover {
			n.State = s.failed
		}
	case Broken:
		n.State = s.failed
	case Refused, GivenBack:
		n.Attempt = max(t.Attempt-1, 0)
	case Throttled:
		n.Attempt = max(t.Attempt-1, 0)
		n.NotBefore = t.Now.Add(wait(t))
	}
	return n
}

// wait is how long an item waits after a try: what the other side asks for, else twice as long each time.
func wait(t Tried) time.Duration {
	if t.RetryAfter > 0 {
		return min(t.RetryAfter, longestWait)
	}
	const doublings = 7 // 30 s · 2^7 is more than an hour
	base := firstWait << min(max(t.Attempt-1, 0), doublings)
	return min(time.Duration(float64(base)*(1-jitter+2*jitter*t.Chance)), longestWait)
}
