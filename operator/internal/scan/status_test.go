// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// TestSettledScanWithoutItsStatus: what a late writer has removed comes back, and a
// Scan that lacks nothing is left alone.
func TestSettledScanWithoutItsStatus(t *testing.T) {
	scan := gen.Scan("s", gen.WithState(executionv1.ScanStateDone))
	scan.Status.FinishedAt = nil
	d := decide(observation(scan, withJob(scannerRole, complete), withJob(parserRole, complete)))
	if !d.status.FinishedAt.Time.Equal(gen.Epoch.Add(time.Minute)) || len(d.status.Conditions) != 4 {
		t.Errorf("status %+v, want the end of the last Job and four conditions", d.status)
	}
	scan.Status = *d.status
	if again := decide(observation(scan)); again.status != nil {
		t.Errorf("a Scan that lacks nothing is written: %+v", again.status)
	}
	small, err := stripScan(scan.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	stripped, ok := small.(*executionv1.Scan)
	if !ok || len(stripped.Spec.Parameters) > 0 {
		t.Errorf("the cache keeps %+v of a Scan that has ended", small)
	}
	if again := decide(observation(stripped)); again.status != nil || again.step != "Settled" {
		t.Errorf("step %s would write over what the cache does not keep", again.step)
	}
}

// TestStripKeepsWhatIsRead holds the small forms in the cache against the whole ones.
func TestStripKeepsWhatIsRead(t *testing.T) {
	now := metav1.NewTime(gen.Epoch)
	whole := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j", Namespace: "ns", UID: "u", CreationTimestamp: now, Labels: map[string]string{executionv1.LabelJobType: "scanner", "x": "y"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(gen.Scan("s"), executionv1.SchemeGroupVersion.WithKind("Scan"))},
		},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}},
	}
	with := func(kind batchv1.JobConditionType, reason string) *batchv1.Job {
		j := whole.DeepCopy()
		j.Status = batchv1.JobStatus{StartTime: &now, Conditions: []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "m", LastTransitionTime: now}}}
		if kind == batchv1.JobComplete {
			j.Spec.Suspend = nil
		}
		return j
	}
	for name, j := range map[string]*batchv1.Job{"Running": whole, "Complete": with(batchv1.JobComplete, ""), "Failed": with(batchv1.JobFailed, "BackoffLimitExceeded")} {
		t.Run(name, func(t *testing.T) {
			small, err := stripJob(j.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			stripped, ok := small.(*batchv1.Job)
			if !ok {
				t.Fatalf("got %T", small)
			}
			if diff := cmp.Diff(newJob(j), newJob(stripped), cmp.AllowUnexported(job{}, role{})); diff != "" || scanUID(j) != scanUID(stripped) {
				t.Errorf("what is read differs (-whole +small):\n%s", diff)
			}
			if stripped.Spec.Template.Spec.NodeName != "" || stripped.Labels["x"] != "" {
				t.Error("what nobody reads is kept")
			}
		})
	}
}
