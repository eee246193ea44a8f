// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"slices"
	"testing"
	"time"
)

// TestSoakRounds: a soak ends in its time, and its second half lets the operator live.
func TestSoakRounds(t *testing.T) {
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		rounds  int
		longest time.Duration
		at      time.Duration
		want    bool
		spared  bool
		reason  string
	}{
		"First":     {at: time.Hour, want: true, spared: true, reason: "a cluster that starts slowly must not leave a soak without any round"},
		"Fits":      {1, time.Minute, 8 * time.Minute, true, true, "the round ends in time"},
		"TooLong":   {9, time.Minute, 9 * time.Minute, false, true, "the round would end later than the soak"},
		"FirstHalf": {2, time.Minute, 5 * time.Minute, true, false, "the operator is killed as well"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &soak{began: began, length: 10 * time.Minute, rounds: tc.rounds, longest: tc.longest}
			now := began.Add(tc.at)
			if got := s.hasTime(now); got != tc.want {
				t.Errorf("has time: %t; %s", got, tc.reason)
			}
			if spared := !slices.Contains(s.turns(now), theOperator); spared != tc.spared {
				t.Errorf("spared: %t; %s", spared, tc.reason)
			}
		})
	}
}

// TestGrowth: what a process holds is compared with what the same process held.
func TestGrowth(t *testing.T) {
	var g growth
	for _, step := range []struct {
		pid        int
		held, want int64
	}{{1, 100, 0}, {1, 130, 30}, {2, 300, 30}, {2, 310, 30}, {2, 290, 30}, {2, 340, 40}, {3, 10, 40}} {
		if g.add(step.pid, step.held); g.most != step.want {
			t.Errorf("%+v: grown by %d", step, g.most)
		}
	}
	if g.rounds != 1 || g.last != 10 {
		t.Errorf("%+v", g)
	}
}
