// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"testing"
)

func TestStops(t *testing.T) {
	for name, c := range map[string]struct {
		outcome Outcome
		want    map[Stopped]int
	}{
		"AllStarted":    {Outcome{Matched: 2, Started: 2}, nil},
		"NothingMatchd": {Outcome{Reason: "it matches none of 3 findings"}, nil},
		"Held":          {Outcome{Matched: 3, Started: 1, Held: 2}, map[Stopped]int{StoppedBudget: 2}},
		"Several":       {Outcome{Held: 1, Duplicates: 2, Refused: 3, Failed: 4}, map[Stopped]int{StoppedBudget: 1, StoppedDuplicate: 2, StoppedRule: 7}},
		"Mistake":       {Outcome{Error: "no template"}, map[Stopped]int{StoppedRule: 1}},
		"Failed":        {Outcome{Error: "forbidden", Failed: 2}, map[Stopped]int{StoppedRule: 2}},
		"TooDeep":       {Outcome{Skipped: StoppedDepth}, map[Stopped]int{StoppedDepth: 1}},
		"InTheChain":    {Outcome{Skipped: StoppedDuplicate}, map[Stopped]int{StoppedDuplicate: 1}},
	} {
		if got := c.outcome.Stops(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
