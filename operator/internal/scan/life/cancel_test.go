// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// cancelled sets spec.cancel, as "tester".
func cancelled(o *Observation) {
	o.Scan.Spec.Cancel, o.Canceller = new(true), "tester"
}

// conditionOf is "Status/Reason" of a condition, or "".
func conditionOf(s *executionv1.ScanStatus, kind string) string {
	c := FindCondition(s.Conditions, kind)
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
		with []func(*Observation)
		// phase is the condition of the phase that the end is blamed on, by state.
		phase   [7]string
		deleted []string
	}{
		{"NoJob", nil, [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"NoScanType", list(withMissing("ScanType")), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"Suspended", list(func(o *Observation) { testobjects.Suspended(o.Scan) }), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"InvalidSpec", list(func(o *Observation) { o.Scan.Spec.ScanType = "" }), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ScannerRuns", list(withJob(ScannerRole, Running)), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, []string{"job-scanner"}},
		{"ScannerWaitsInQueue", list(withJob(ScannerRole, Running, noPod, func(j *Job) { j.Suspended = true })), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, []string{"job-scanner"}},
		{"ScannerComplete", list(withJob(ScannerRole, Complete)), [7]string{parsing, parsing, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ScannerFailed", list(withJob(ScannerRole, Failed)), [7]string{scanning, scanning, parsing, parsing, hooks, hooks, hooks}, nil},
		{"ParserRuns", list(withJob(ScannerRole, Complete), withJob(ParserRole, Running)), [7]string{parsing, parsing, parsing, parsing, hooks, hooks, hooks}, []string{"job-parser"}},
		{"ParserComplete", list(withJob(ScannerRole, Complete), withJob(ParserRole, Complete)), [7]string{hooks, hooks, hooks, hooks, hooks, hooks, hooks}, nil},
		{
			"HookRuns", list(withJob(ScannerRole, Complete), withJob(ParserRole, Complete), withJob(hookRole("a"), Running), withJob(hookRole("b"), Complete)),
			[7]string{hooks, hooks, hooks, hooks, hooks, hooks, hooks},
			[]string{"job-read-only-hooka"},
		},
	}
	for _, r := range rows {
		for i, state := range states {
			t.Run(fmt.Sprintf("%s/%s", r.see, orNew(state)), func(t *testing.T) {
				o := observationOf(testobjects.Scan("s", testobjects.WithState(state)), append(r.with, cancelled, catalogHooks(hookOn("told", executionv1.RunOnFailure, "")))...)
				d := Decide(o)
				checkInvariants(t, o, d)
				if d.Step != "Cancel" || d.Status.State != executionv1.ScanStateErrored || len(d.Create) > 0 {
					t.Fatalf("step %q, state %q, launches %v", d.Step, d.Status.State, d.Create)
				}
				for _, c := range []string{executionv1.ConditionReady, r.phase[i]} {
					if got := conditionOf(d.Status, c); got != "False/CancelledByUser" {
						t.Errorf("condition %s is %s", c, got)
					}
				}
				if got := conditionOf(d.Status, executionv1.ConditionCancelled); got != "True/CancelledByUser" {
					t.Errorf("condition Cancelled is %s", got)
				}
				if !strings.Contains(d.Status.ErrorDescription, `"tester"`) || d.Event == nil {
					t.Errorf("errorDescription %q, Event %v", d.Status.ErrorDescription, d.Event)
				}
				if got := jobNames(d.DeleteJobs); got != strings.Join(r.deleted, " ") {
					t.Errorf("deletes %q, want %q", got, r.deleted)
				}
				if hasOpenFailureHook(d.Status.OrderedHookStatuses) {
					t.Error("hooks for failures are to run")
				}
				wantNothingAfter(t, o, d)
			})
		}
	}
}

// wantNothingAfter plays that the deleted Jobs are on their way, then gone, then that the
// raw result of the scanner arrives after all.
func wantNothingAfter(t *testing.T, o *Observation, d Decision) {
	t.Helper()
	o.Scan.Status = *d.Status.DeepCopy()
	o.Now = o.Now.Add(time.Second)
	for i := range o.Jobs {
		if o.Jobs[i].Outcome == Running {
			o.Jobs[i].Deleted = o.Now
		}
	}
	wantSettled := func(when string) {
		t.Helper()
		d := Decide(o)
		if d.Step != "Settled" || len(d.DeleteJobs)+len(d.Create) > 0 || d.Status != nil {
			t.Errorf("%s: step %q, decision %+v", when, d.Step, d)
		}
	}
	wantSettled("Jobs end")
	o.Jobs = nil
	o.HasRawResult, o.HasFindings = true, true
	wantSettled("a late upload")
}

func jobNames(jobs []Job) string {
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return strings.Join(names, " ")
}

// TestCancelOfWhatHasEnded changes nothing but says so.
func TestCancelOfWhatHasEnded(t *testing.T) {
	for _, state := range []executionv1.ScanState{executionv1.ScanStateDone, executionv1.ScanStateErrored} {
		t.Run(string(state), func(t *testing.T) {
			before := Decide(observationOf(testobjects.Scan("s", testobjects.WithState(state)))).Status
			o := observationOf(testobjects.Scan("s", testobjects.WithState(state)), cancelled)
			o.Scan.Status = *before.DeepCopy()
			d := Decide(o)
			if d.Step != "CancelTooLate" || d.Event == nil || !strings.Contains(d.Event.Message, "had ended "+string(state)) {
				t.Fatalf("step %q, Event %v", d.Step, d.Event)
			}
			if got := conditionOf(d.Status, executionv1.ConditionCancelled); got != "False/AlreadyEnded" {
				t.Errorf("condition Cancelled is %s", got)
			}
			after := &Status{d.Status.DeepCopy()}
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
	o := observationOf(testobjects.Scan("s", testobjects.Deleted, testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Running), cancelled)
	if d := Decide(o); d.Step != "Deleted" || d.Status != nil {
		t.Errorf("step %q, status %v", d.Step, d.Status)
	}
}

// TestCancelLeftOver: a Job that was being made when the Scan was cancelled shows up later.
func TestCancelLeftOver(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), cancelled)
	o.Scan.Status = *Decide(o).Status.DeepCopy()
	withJob(ScannerRole, Running)(o)
	d := Decide(o)
	if d.Step != "CancelledLeftOver" || jobNames(d.DeleteJobs) != "job-scanner" || d.Status != nil {
		t.Errorf("step %q deletes %q, status %v", d.Step, jobNames(d.DeleteJobs), d.Status)
	}
	// Nobody cancelled this one: its overdue Job stays to be looked at.
	o = observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateErrored)), withJob(ScannerRole, Running, func(j *Job) { j.Suspended = true }))
	if d := Decide(o); len(d.DeleteJobs) > 0 {
		t.Errorf("step %q deletes %q", d.Step, jobNames(d.DeleteJobs))
	}
}

// TestCancelSaysHowHooksEnded: those that have run, those that ran and those that never will.
func TestCancelSaysHowHooksEnded(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(hooksOf("a", "b", "c"), hooksOf("d"))),
		withJob(hookRole("a"), Complete), withJob(hookRole("b"), Running), withJob(hookRole("c"), Failed), cancelled)
	d := Decide(o)
	if got, want := shape(d.Status.OrderedHookStatuses), "a/Completed b/Cancelled c/Failed | d/Cancelled"; got != want {
		t.Errorf("hooks %q, want %q", got, want)
	}
	if got := jobNames(d.DeleteJobs); got != "job-read-only-hookb" {
		t.Errorf("deletes %q", got)
	}
}

// TestCancelEndsFailureHooks: the Scan stays as it ended, the hooks do not go on.
func TestCancelEndsFailureHooks(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)),
		catalogHooks(hookOn("a", executionv1.RunOnFailure, ""), hookOn("b", executionv1.RunOnFailure, "")), withJob(ParserRole, Failed))
	o.afterPass(Decide(o), nil)
	o.afterPass(Decide(o), map[string]Outcome{"a": Complete})
	why := o.Scan.Status.ErrorDescription
	cancelled(o)
	d := Decide(o)
	if d.Step != "CancelFailureHooks" || d.Status.State != executionv1.ScanStateErrored || d.Status.ErrorDescription != why {
		t.Fatalf("step %q, state %s: %s", d.Step, d.Status.State, d.Status.ErrorDescription)
	}
	if got := shape(d.Status.OrderedHookStatuses); got != "a/Completed b/Cancelled" {
		t.Errorf("hooks %q", got)
	}
	if got := jobNames(d.DeleteJobs); got != "job-read-only-hookb" {
		t.Errorf("deletes %q", got)
	}
	wantNothingAfter(t, o, d)
}

// TestCancelAfterWipedStatus: another client removes the status of a cancelled Scan.
func TestCancelAfterWipedStatus(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), cancelled)
	o.Scan.Status = *Decide(o).Status.DeepCopy()
	o.Scan.Status = executionv1.ScanStatus{}
	if d := Decide(o); d.Step != "Cancel" || d.Status.State != executionv1.ScanStateErrored || len(d.Create) > 0 {
		t.Errorf("step %q, state %q, launches %v", d.Step, d.Status.State, d.Create)
	}
}
