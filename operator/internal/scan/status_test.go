// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

func diffStatus(want, got *executionv1.ScanStatus) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// TestReplacedStatusComesBack plays what secureCodeBox's DefectDojo hook does: it
// replaces the status by the fields that it knows.
func TestReplacedStatusComesBack(t *testing.T) {
	jobs := []func(*observed){withJob(scannerRole, complete), withJob(parserRole, complete), withJob(hookRole("a"), running)}
	scan := gen.Scan("s", gen.WithState(executionv1.ScanStateHookProcessing), gen.WithHooks(hooksOf("a")))
	whole := decide(observation(scan, jobs...)).status

	replaced := scan.DeepCopy()
	replaced.Status = *whole.DeepCopy()
	replaced.Status.Conditions, replaced.Status.StartedAt, replaced.Status.ObservedGeneration = nil, nil, 0
	again := decide(observation(replaced, jobs...))
	if diff := diffStatus(whole, again.status); diff != "" {
		t.Errorf("the status did not come back (-before +after):\n%s", diff)
	}
	if len(again.launch) > 0 {
		t.Errorf("something was started again: %v", again.launch)
	}
}

func TestPhasesEndWhenTheirJobsDid(t *testing.T) {
	d := decide(observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), withJob(scannerRole, complete), withJob(parserRole, complete)))
	for _, kind := range []string{executionv1.ConditionScanned, executionv1.ConditionParsed} {
		c := findCondition(d.status.Conditions, kind)
		if c.Status != metav1.ConditionTrue || !c.LastTransitionTime.Time.Equal(gen.Epoch.Add(time.Minute)) {
			t.Errorf("%s is %s since %s, want True since its Job ended", kind, c.Status, c.LastTransitionTime)
		}
	}
}

func TestZeroCounts(t *testing.T) {
	scan := gen.Scan("s", gen.WithState(executionv1.ScanStateParsing))
	scan.Status.Findings = executionv1.FindingStats{
		Count:             ptr.To[int64](0),
		FindingSeverities: executionv1.FindingSeverities{High: ptr.To[int64](0), Low: ptr.To[int64](2), Medium: ptr.To[int64](0)},
	}
	d := decide(observation(scan, withJob(parserRole, complete)))
	want := executionv1.FindingStats{Count: ptr.To[int64](0), FindingSeverities: executionv1.FindingSeverities{Low: ptr.To[int64](2)}}
	if diff := cmp.Diff(want, d.status.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
