// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

// cancelled sets spec.cancel, as "tester".
func cancelled(o *observed) {
	o.scan.Spec.Cancel, o.canceller = new(true), "tester"
}

// conditionOf is "Status/Reason" of a condition, or "".
func conditionOf(s *executionv1.ScanStatus, kind string) string {
	c := findCondition(s.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// TestCancelEveryStateAndObservation cancels a Scan in every state on the wire, whatever
// its Jobs show: it ends, what runs is deleted, nothing is started, and further passes
// change nothing.
func TestCancelEveryStateAndObservation(t *testing.T) {
	scanning, parsing := executionv1.ConditionScanned, executionv1.ConditionParsed
	hooks := executionv1.ConditionHooksCompleted
	states := []executionv1.ScanState{
		executionv1.ScanStateNew, executionv1.ScanStateScanning, executionv1.ScanStateScanCompleted, executionv1.ScanStateParsing,
		executionv1.ScanStateParseCompleted, executionv1.ScanStateHookProcessing, executionv1.ScanStateLegacyReadOnlyHookProcessing,
	}
	rows := []struct {
		see  string
		with []func(*observed)
		// phase is the condition of the phase that the end is blamed on, by state.
		phase   [7]string
		deleted []string
	}{
		{"NoJob", nil, [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"NoScanType", list(withMissing("ScanType")), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"Suspended", list(func(o *observed) { gen.Suspended(o.scan) }), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"InvalidSpec", list(func(o *observed) { o.scan.Spec.ScanType = "" }), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ScannerRuns", list(withJob(scannerRole, running)), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, []string{"job-scanner"}},
		{"ScannerWaitsInQueue", list(withJob(scannerRole, running, noPod, func(j *job) { j.suspended = true })), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, []string{"job-scanner"}},
		{"ScannerComplete", list(withJob(scannerRole, complete)), [7]string{parsing, parsing, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ScannerFailed", list(withJob(scannerRole, failed)), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ParserRuns", list(withJob(scannerRole, complete), withJob(parserRole, running)), [7]string{parsing, parsing, parsing, parsing, hooks, hooks, hooks}, []string{"job-parser"}},
		{"ParserComplete", list(withJob(scannerRole, complete), withJob(parserRole, complete)), [7]string{hooks, hooks, hooks, hooks, hooks, hooks, hooks}, nil},
		{
			"HookRuns", list(withJob(scannerRole, complete), withJob(parserRole, complete), withJob(hookRole("a"), running), withJob(hookRole("b"), complete)),
			[7]string{hooks, hooks, hooks, hooks, hooks, hooks, hooks},
			[]string{"job-read-only-hooka"},
		},
	}
	for _, r := range rows {
		for i, state := range states {
			t.Run(fmt.Sprintf("%s/%s", r.see, orNew(state)), func(t *testing.T) {
				o := observation(gen.Scan("s", gen.WithState(state)), append(r.with, cancelled, catalogHooks(hookOn("told", executionv1.RunOnFailure, "")))...)
				d := decide(o)
				checkInvariants(t, o, d)
				if d.step != "Cancel" || d.status.State != executionv1.ScanStateErrored || len(d.launch) > 0 {
					t.Fatalf("step %q, state %q, launches %v", d.step, d.status.State, d.launch)
				}
				for _, c := range []string{executionv1.ConditionReady, r.phase[i]} {
					if got := conditionOf(d.status, c); got != "False/CancelledByUser" {
						t.Errorf("condition %s is %s", c, got)
					}
				}
				if got := conditionOf(d.status, executionv1.ConditionCancelled); got != "True/CancelledByUser" {
					t.Errorf("condition Cancelled is %s", got)
				}
				if !strings.Contains(d.status.ErrorDescription, `"tester"`) || d.notice == nil {
					t.Errorf("errorDescription %q, Event %v", d.status.ErrorDescription, d.notice)
				}
				if got := jobNames(d.deleteJobs); got != strings.Join(r.deleted, " ") {
					t.Errorf("deletes %q, want %q", got, r.deleted)
				}
				if hasOpenFailureHook(d.status.OrderedHookStatuses) {
					t.Error("hooks for failures are to run")
				}
				wantNothingAfter(t, o, d)
			})
		}
	}
}

// wantNothingAfter plays that the deleted Jobs are on their way, then gone, then that the
// raw result of the scanner arrives after all.
func wantNothingAfter(t *testing.T, o *observed, d decision) {
	t.Helper()
	o.scan.Status = *d.status.DeepCopy()
	o.now = o.now.Add(time.Second)
	for i := range o.jobs {
		if o.jobs[i].outcome == running {
			o.jobs[i].deleted = o.now
		}
	}
	wantSettled := func(when string) {
		t.Helper()
		d := decide(o)
		if d.step != "Settled" || len(d.deleteJobs)+len(d.launch) > 0 || d.status != nil {
			t.Errorf("%s: step %q, decision %+v", when, d.step, d)
		}
	}
	wantSettled("Jobs end")
	o.jobs = nil
	o.hasRawResult, o.hasFindings = true, true
	wantSettled("a late upload")
}

func jobNames(jobs []job) string {
	var names []string
	for _, j := range jobs {
		names = append(names, j.name)
	}
	return strings.Join(names, " ")
}

// TestCancelOfWhatHasEnded changes nothing but says so.
func TestCancelOfWhatHasEnded(t *testing.T) {
	for _, state := range []executionv1.ScanState{executionv1.ScanStateDone, executionv1.ScanStateErrored} {
		t.Run(string(state), func(t *testing.T) {
			before := decide(observation(gen.Scan("s", gen.WithState(state)))).status
			o := observation(gen.Scan("s", gen.WithState(state)), cancelled)
			o.scan.Status = *before.DeepCopy()
			d := decide(o)
			if d.step != "CancelTooLate" || d.notice == nil || !strings.Contains(d.notice.message, "had ended "+string(state)) {
				t.Fatalf("step %q, Event %v", d.step, d.notice)
			}
			if got := conditionOf(d.status, executionv1.ConditionCancelled); got != "False/AlreadyEnded" {
				t.Errorf("condition Cancelled is %s", got)
			}
			after := &status{d.status.DeepCopy()}
			after.forget(executionv1.ConditionCancelled)
			if diff := diffStatus(before, after.ScanStatus); diff != "" {
				t.Errorf("something else has changed (-before +after):\n%s", diff)
			}
			wantNothingAfter(t, o, d)
		})
	}
}

// TestCancelOfWhatIsDeleted: deletion comes first.
func TestCancelOfWhatIsDeleted(t *testing.T) {
	o := observation(gen.Scan("s", gen.Deleted, gen.WithState(executionv1.ScanStateScanning)), withJob(scannerRole, running), cancelled)
	if d := decide(o); d.step != "Deleted" || d.status != nil {
		t.Errorf("step %q, status %v", d.step, d.status)
	}
}

// TestCancelLeftOver: a Job that was being made when the Scan was cancelled shows up later.
func TestCancelLeftOver(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), cancelled)
	o.scan.Status = *decide(o).status.DeepCopy()
	withJob(scannerRole, running)(o)
	d := decide(o)
	if d.step != "CancelledLeftOver" || jobNames(d.deleteJobs) != "job-scanner" || d.status != nil {
		t.Errorf("step %q deletes %q, status %v", d.step, jobNames(d.deleteJobs), d.status)
	}
	// Nobody cancelled this one: its overdue Job stays to be looked at.
	o = observation(gen.Scan("s", gen.WithState(executionv1.ScanStateErrored)), withJob(scannerRole, running, func(j *job) { j.suspended = true }))
	if d := decide(o); len(d.deleteJobs) > 0 {
		t.Errorf("step %q deletes %q", d.step, jobNames(d.deleteJobs))
	}
}

// TestCancelSaysHowHooksEnded: those that have run, those that ran and those that never will.
func TestCancelSaysHowHooksEnded(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateHookProcessing), gen.WithHooks(hooksOf("a", "b", "c"), hooksOf("d"))),
		withJob(hookRole("a"), complete), withJob(hookRole("b"), running), withJob(hookRole("c"), failed), cancelled)
	d := decide(o)
	if got, want := shape(d.status.OrderedHookStatuses), "a/Completed b/Cancelled c/Failed | d/Cancelled"; got != want {
		t.Errorf("hooks %q, want %q", got, want)
	}
	if got := jobNames(d.deleteJobs); got != "job-read-only-hookb" {
		t.Errorf("deletes %q", got)
	}
}

// TestCancelEndsFailureHooks: the Scan stays as it ended, the hooks do not go on.
func TestCancelEndsFailureHooks(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)),
		catalogHooks(hookOn("a", executionv1.RunOnFailure, ""), hookOn("b", executionv1.RunOnFailure, "")), withJob(parserRole, failed))
	o.afterPass(decide(o), nil)
	o.afterPass(decide(o), map[string]outcome{"a": complete})
	why := o.scan.Status.ErrorDescription
	cancelled(o)
	d := decide(o)
	if d.step != "CancelFailureHooks" || d.status.State != executionv1.ScanStateErrored || d.status.ErrorDescription != why {
		t.Fatalf("step %q, state %s: %s", d.step, d.status.State, d.status.ErrorDescription)
	}
	if got := shape(d.status.OrderedHookStatuses); got != "a/Completed b/Cancelled" {
		t.Errorf("hooks %q", got)
	}
	if got := jobNames(d.deleteJobs); got != "job-read-only-hookb" {
		t.Errorf("deletes %q", got)
	}
	wantNothingAfter(t, o, d)
}

// TestCancelAfterWipedStatus: another client removes the status of a cancelled Scan.
func TestCancelAfterWipedStatus(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), cancelled)
	o.scan.Status = *decide(o).status.DeepCopy()
	o.scan.Status = executionv1.ScanStatus{}
	if d := decide(o); d.step != "Cancel" || d.status.State != executionv1.ScanStateErrored || len(d.launch) > 0 {
		t.Errorf("step %q, state %q, launches %v", d.step, d.status.State, d.launch)
	}
}

func TestCancellers(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		f := metav1.NewFieldsV1(fields)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: f}
	}
	cancel := `{"f:spec":{"f:cancel":{}}}`
	cases := map[string]struct {
		reason string
		have   []metav1.ManagedFieldsEntry
		want   string
	}{
		"None":   {"an API server that keeps no record", nil, ""},
		"One":    {"who has set this field, not others", []metav1.ManagedFieldsEntry{entry("helm", `{"f:spec":{".":{},"f:scanType":{}}}`), entry("kubectl-patch", cancel)}, "kubectl-patch"},
		"Shared": {"several may have applied the same", []metav1.ManagedFieldsEntry{entry("b", cancel), entry("a", cancel), entry("b", cancel)}, "a, b"},
		"Broken": {"what cannot be read names nobody", []metav1.ManagedFieldsEntry{entry("a", `{`), {Manager: "b"}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cancellers(tc.have); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
