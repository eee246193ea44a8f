// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func diffStatus(want, got *executionv1.ScanStatus) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// TestReplacedStatusComesBack plays what secureCodeBox's DefectDojo hook does: it
// replaces the status by the fields that it knows.
func TestReplacedStatusComesBack(t *testing.T) {
	jobs := []func(*Observation){withJob(ScannerRole, Complete), withJob(ParserRole, Complete), withJob(hookRole("a"), Running)}
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(hooksOf("a")))
	whole := Decide(observationOf(scan, jobs...)).Status

	replaced := scan.DeepCopy()
	replaced.Status = *whole.DeepCopy()
	replaced.Status.Conditions, replaced.Status.StartedAt, replaced.Status.ObservedGeneration = nil, nil, 0
	again := Decide(observationOf(replaced, jobs...))
	if diff := diffStatus(whole, again.Status); diff != "" {
		t.Errorf("the status did not come back (-before +after):\n%s", diff)
	}
	if len(again.Create) > 0 {
		t.Errorf("something was started again: %v", again.Create)
	}
}

func TestPhasesEndWhenTheirJobsDid(t *testing.T) {
	d := Decide(observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), withJob(ScannerRole, Complete), withJob(ParserRole, Complete)))
	for _, kind := range []string{executionv1.ConditionScanned, executionv1.ConditionParsed} {
		c := FindCondition(d.Status.Conditions, kind)
		if c.Status != metav1.ConditionTrue || !c.LastTransitionTime.Time.Equal(testobjects.Epoch.Add(time.Minute)) {
			t.Errorf("%s is %s since %s, want True since its Job ended", kind, c.Status, c.LastTransitionTime)
		}
	}
}

func TestZeroCounts(t *testing.T) {
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing))
	scan.Status.Findings = executionv1.FindingStats{
		Count:             ptr.To[int64](0),
		FindingSeverities: executionv1.FindingSeverities{High: ptr.To[int64](0), Low: ptr.To[int64](2), Medium: ptr.To[int64](0)},
	}
	d := Decide(observationOf(scan, withJob(ParserRole, Complete)))
	want := executionv1.FindingStats{Count: ptr.To[int64](0), FindingSeverities: executionv1.FindingSeverities{Low: ptr.To[int64](2)}}
	if diff := cmp.Diff(want, d.Status.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestSettledScanWithoutItsStatus: what a late writer has removed comes back, and a
// Scan that lacks nothing is left alone.
func TestSettledScanWithoutItsStatus(t *testing.T) {
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))
	scan.Status.FinishedAt = nil
	d := Decide(observationOf(scan, withJob(ScannerRole, Complete), withJob(ParserRole, Complete)))
	if !d.Status.FinishedAt.Time.Equal(testobjects.Epoch.Add(time.Minute)) || len(d.Status.Conditions) != 4 {
		t.Errorf("status %+v, want the end of the last Job and four conditions", d.Status)
	}
	scan.Status = *d.Status
	if again := Decide(observationOf(scan)); again.Status != nil {
		t.Errorf("a Scan that lacks nothing is written: %+v", again.Status)
	}
}
