// SPDX-License-Identifier: Apache-2.0

// Package retry says how long to wait after a sink has failed. It is pure: clock and chance are the caller's.
package retry

import (
	"time"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// Bounds are the waits of a sink. Zeros take the defaults.
type Bounds struct{ Initial, Max time.Duration }

const (
	defaultInitial = 500 * time.Millisecond
	defaultMax     = 5 * time.Minute
	// A sink that is only probed has waits of its own, which a lower bound shortens.
	firstProbe = 5 * time.Second
	maxProbe   = time.Minute
	// maxPause bounds what a far end may ask for.
	maxPause = 10 * time.Minute
	// maxDoubled keeps the count of doublings small; a bound is reached long before.
	maxDoubled = 30
)

// After is the wait after a failure; failures counts those in a row before, random is from 0 to 1. Where the far end says how long,
// that is the wait; where a sink is only probed, the wait has no chance in it. All others are from 0 to initial·2ⁿ, at most Max:
// full jitter keeps senders apart that failed together.
func (b Bounds) After(failure *sink.Error, failures int, random float64) time.Duration {
	if b.Initial <= 0 {
		b.Initial = defaultInitial
	}
	if b.Max <= 0 {
		b.Max = defaultMax
	}
	switch failure.Class {
	case sink.Auth:
		return min(doubled(firstProbe, maxProbe, failures), b.Max)
	case sink.Incompatible:
		return min(maxProbe, b.Max)
	case sink.Overload:
		if failure.RetryAfter > 0 {
			return min(failure.RetryAfter, maxPause)
		}
	case sink.Transport, sink.Refused:
	}
	return time.Duration(random * float64(doubled(b.Initial, b.Max, failures)))
}

func doubled(first, limit time.Duration, times int) time.Duration {
	d := first
	for range min(times, maxDoubled) {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return min(d, limit)
}
