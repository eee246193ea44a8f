// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func TestWaits(t *testing.T) {
	set := retry.Bounds{Initial: time.Second, Max: 8 * time.Second}
	for name, test := range map[string]struct {
		bounds   retry.Bounds
		failure  sink.Error
		failures int
		random   float64
		want     time.Duration
	}{
		"First":               {set, sink.Error{Class: sink.Transport}, 0, 1, time.Second},
		"FullJitter":          {set, sink.Error{Class: sink.Transport}, 0, 0, 0},
		"Half":                {set, sink.Error{Class: sink.Transport}, 2, 0.5, 2 * time.Second},
		"Bound":               {set, sink.Error{Class: sink.Refused}, 3, 1, 8 * time.Second},
		"NoOverflow":          {set, sink.Error{Class: sink.Transport}, 1 << 40, 1, 8 * time.Second},
		"Defaults":            {retry.Bounds{}, sink.Error{Class: sink.Transport}, 0, 1, 500 * time.Millisecond},
		"DefaultBound":        {retry.Bounds{}, sink.Error{Class: sink.Transport}, 20, 1, 5 * time.Minute},
		"AskedFor":            {set, sink.Error{Class: sink.Overload, RetryAfter: 20 * time.Second}, 0, 0, 20 * time.Second},
		"AskedForTooMuch":     {set, sink.Error{Class: sink.Overload, RetryAfter: time.Hour}, 0, 0, 10 * time.Minute},
		"OverloadWithoutWord": {set, sink.Error{Class: sink.Overload}, 1, 1, 2 * time.Second},
		"Probe":               {retry.Bounds{}, sink.Error{Class: sink.Auth}, 0, 0, 5 * time.Second},
		"LaterProbe":          {retry.Bounds{}, sink.Error{Class: sink.Auth}, 9, 0, time.Minute},
		"ProbeWithinTheBound": {retry.Bounds{Max: time.Second}, sink.Error{Class: sink.Auth}, 9, 0, time.Second},
		"Incompatible":        {retry.Bounds{}, sink.Error{Class: sink.Incompatible}, 0, 0, time.Minute},
	} {
		if got := test.bounds.After(&test.failure, test.failures, test.random); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
