// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestMonitorReportsOutages once each, and soon enough for Scans to say so within 15 s.
func TestMonitorReportsOutages(t *testing.T) {
	const bound = 15 * time.Second
	if checkEvery+checkTimeout >= bound {
		t.Errorf("an outage is seen after %s at the latest, want less than %s", checkEvery+checkTimeout, bound)
	}
	away := errors.New("connection refused")
	var result error
	calls := 0
	m := &Monitor{check: func(context.Context) error { return result }, clock: clocktesting.NewFakeClock(time.Unix(0, 0)), err: errUnchecked}
	m.OnChange(func() { calls++ })
	for i, step := range []struct {
		reason string
		result error
		calls  int
	}{
		{"it was not known to be away", nil, 0},
		{"it is away", away, 1},
		{"that is known", away, 1},
		{"it is back", nil, 2},
		{"that is known, too", nil, 2},
	} {
		result = step.result
		m.look(t.Context())
		if calls != step.calls || !errors.Is(m.Outage(), step.result) {
			t.Errorf("step %d, %s: called %d times, outage %v", i, step.reason, calls, m.Outage())
		}
	}
	if unchecked := NewMonitor(&Store{}, m.clock); unchecked.Outage() != nil {
		t.Error("what was not checked is not an outage")
	}
}
