// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestEndThatWasNotWritten: an operator was killed that had recorded the end of a Scan and not yet written its status. The next one believes the
// state, and has the conditions of the time before.
func TestEndThatWasNotWritten(t *testing.T) {
	of := func(kinds ...string) (all []metav1.Condition) {
		for _, kind := range kinds {
			all = append(all, metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: executionv1.ReasonRunning, Message: "It runs."})
		}
		return all
	}
	const ready, hooks = executionv1.ConditionReady, executionv1.ConditionHooksCompleted
	for name, tc := range map[string]struct {
		state executionv1.ScanState
		has   []metav1.Condition
		want  map[string]metav1.ConditionStatus
	}{
		"HooksRan":  {executionv1.ScanStateDone, of(ready, hooks), map[string]metav1.ConditionStatus{ready: "True", executionv1.ConditionParsed: "True", hooks: "True"}},
		"ParserRan": {executionv1.ScanStateDone, of(ready, executionv1.ConditionParsed), map[string]metav1.ConditionStatus{ready: "True", executionv1.ConditionParsed: "True", hooks: "True"}},
		"Failed":    {executionv1.ScanStateErrored, of(ready), map[string]metav1.ConditionStatus{ready: "False"}},
	} {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s", testobjects.WithState(tc.state))
			scan.Status.Conditions = tc.has
			if !NeedsMending(scan) {
				t.Fatal("the status is taken for whole")
			}
			d := Decide(observationOf(scan))
			if d.Status == nil {
				t.Fatalf("step %s writes no status", d.Step)
			}
			for kind, want := range tc.want {
				if c := FindCondition(d.Status.Conditions, kind); c == nil || c.Status != want || c.Reason == executionv1.ReasonRunning {
					t.Errorf("%s is %+v, want %s", kind, c, want)
				}
			}
			scan.Status = *d.Status
			if NeedsMending(scan) || Decide(observationOf(scan)).Status != nil {
				t.Error("the status is mended again")
			}
		})
	}
}
