// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"
)

// TestNext walks through everything that can be found of a group.
func TestNext(t *testing.T) {
	there := []source{{resource: groups[0].resources[0], version: "v1alpha2"}}
	old := []source{{resource: groups[0].resources[0]}}
	for name, c := range map[string]struct {
		owner   owner
		sources []source
		phase   phase
		want    [2]step // without and with --keep-crds
		says    string
	}{
		"NothingThere":      {ownerNone, nil, phaseNew, [2]step{stepNothing, stepNothing}, ""},
		"OursWithoutCRD":    {ownerOurs, nil, phaseNew, [2]step{stepNothing, stepNothing}, ""},
		"Cleaned":           {ownerOurs, nil, phaseCompared, [2]step{stepNothing, stepNothing}, ""},
		"Local":             {ownerLocal, there, phaseNew, [2]step{stepCopy, stepCopy}, ""},
		"OnlyOldVersions":   {ownerNone, there, phaseNew, [2]step{stepCopy, stepCopy}, ""},
		"BeforeTheSwitch":   {ownerLocal, there, phaseSwitching, [2]step{stepCopy, stepCopy}, ""},
		"SetBackToTheCRD":   {ownerLocal, there, phaseDone, [2]step{stepCopy, stepCopy}, ""},
		"Switched":          {ownerOurs, there, phaseSwitching, [2]step{stepSettle, stepSettle}, ""},
		"SwitchedUnserved":  {ownerOurs, old, phaseSwitching, [2]step{stepSettle, stepSettle}, ""},
		"Settled":           {ownerOurs, old, phaseSettled, [2]step{stepCompare, stepCompare}, ""},
		"Compared":          {ownerOurs, old, phaseCompared, [2]step{stepClean, stepClean}, ""},
		"Done":              {ownerOurs, old, phaseDone, [2]step{stepClean, stepNothing}, ""},
		"BroughtBack":       {ownerOurs, there, phaseDone, [2]step{stepClean, stepNothing}, ""},
		"Foreign":           {ownerForeign, there, phaseNew, [2]step{stepForeign, stepForeign}, "another server has wgpolicyk8s.io"},
		"ForeignWithoutCRD": {ownerForeign, nil, phaseDone, [2]step{stepForeign, stepForeign}, "names the Service kyverno/reports-server"},
		"TakenWithoutCopy":  {ownerOurs, there, phaseNew, [2]step{stepHidden, stepHidden}, "kubectl patch apiservice v1alpha2.wgpolicyk8s.io"},
		"Unreadable":        {ownerLocal, old, phaseNew, [2]step{stepUnreadable, stepUnreadable}, "set served: true"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &groupSeen{group: groups[0], owner: c.owner, foreign: "kyverno/reports-server", sources: c.sources, state: state{Phase: c.phase}}
			for i, keep := range []bool{false, true} {
				got := next(g, keep)
				if got != c.want[i] {
					t.Errorf("keep CRDs %v: step %d, want %d", keep, got, c.want[i])
				}
				err := refusal(g, got, "scanyard")
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("keep CRDs %v: %v, want %q", keep, err, c.says)
				}
			}
		})
	}
}
