// SPDX-License-Identifier: Apache-2.0

package scanview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

func because(kind string, status metav1.ConditionStatus, reason string, seconds int) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "says " + reason, LastTransitionTime: at(seconds)}
}

func TestPhases(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	scanned, parsed, hooked := executionv1.ConditionScanned, executionv1.ConditionParsed, executionv1.ConditionHooksCompleted
	for name, tc := range map[string]struct {
		state      executionv1.ScanState
		started    bool
		conditions []metav1.Condition
		want       string
	}{
		"New":            {want: "scanner pending, parser pending, hooks pending"},
		"Scanning":       {executionv1.ScanStateScanning, true, []metav1.Condition{because(scanned, unknown, "Running", 0)}, "scanner running 30s, parser pending, hooks pending"},
		"Waiting":        {executionv1.ScanStateScanning, true, []metav1.Condition{because(scanned, unknown, "ImagePullFailed", 0)}, "scanner waiting 30s, parser pending, hooks pending"},
		"Parsing":        {executionv1.ScanStateParsing, true, []metav1.Condition{because(scanned, yes, "Completed", 10), because(parsed, unknown, "Running", 10)}, "scanner done 10s, parser running 20s, hooks pending"},
		"Done":           {executionv1.ScanStateDone, true, []metav1.Condition{because(scanned, yes, "Completed", 10), because(parsed, yes, "Completed", 12), because(hooked, yes, "Completed", 15)}, "scanner done 10s, parser done 2s, hooks done 3s"},
		"ScannerFailed":  {executionv1.ScanStateErrored, true, []metav1.Condition{because(scanned, no, "ScannerFailed", 4)}, "scanner failed 4s, parser skipped, hooks skipped"},
		"OtherOperator":  {state: executionv1.ScanStateDone, want: "scanner done, parser done, hooks done"},
		"OtherOperators": {state: executionv1.ScanStateErrored, want: "scanner skipped, parser skipped, hooks skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &executionv1.Scan{Status: executionv1.ScanStatus{State: tc.state, Conditions: tc.conditions}}
			if tc.started {
				s.Status.StartedAt = new(at(0))
			}
			var got []string
			for _, p := range Phases(s) {
				text := fmt.Sprintf("%s %s", p.Name, p.Progress)
				if d := p.Duration(noon.Add(30 * time.Second)); d > 0 {
					text += " " + d.String()
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func job(name, kind string, created, ended int, end batchv1.JobConditionType) batchv1.Job {
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(created), Labels: map[string]string{executionv1.LabelJobType: kind}}}
	if end != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue, LastTransitionTime: at(ended)}}
	}
	return j
}

// TestDetailed: Jobs know the times better than conditions do, and each hook is a phase of its own.
func TestDetailed(t *testing.T) {
	s := &executionv1.Scan{Status: executionv1.ScanStatus{
		State: executionv1.ScanStateHookProcessing, StartedAt: new(at(0)),
		Conditions: []metav1.Condition{
			because(executionv1.ConditionScanned, metav1.ConditionTrue, "Completed", 50),
			because(executionv1.ConditionParsed, metav1.ConditionTrue, "Completed", 60),
		},
		OrderedHookStatuses: [][]executionv1.HookStatus{
			{{HookName: "update", State: executionv1.HookStateCompleted, JobName: "update-1", Attempt: 2}},
			{{HookName: "tell", State: executionv1.HookStateFailed, JobName: "gone", Message: "connection refused"}, {HookName: "store", State: executionv1.HookStateInProgress, JobName: "store-1"}},
		},
	}}
	jobs := []batchv1.Job{
		job("scan-1", executionv1.JobTypeScanner, 1, 9, batchv1.JobFailed), job("scan-2", executionv1.JobTypeScanner, 11, 41, batchv1.JobComplete),
		job("parse-1", executionv1.JobTypeParser, 42, 44, batchv1.JobComplete), job("update-1", "", 45, 48, batchv1.JobComplete), job("store-1", "", 49, 0, ""),
	}
	var got []string
	for _, p := range Detailed(s, jobs) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s×%d %s %s", p.Name, p.Progress, p.Job, p.Attempts, p.Duration(at(59).Time), p.Message)))
	}
	want := []string{
		"scanner done scan-2×2 30s says Completed", "parser done parse-1×1 2s says Completed",
		"hook/update done update-1×2 3s", "hook/tell failed gone×1 0s connection refused", "hook/store running store-1×1 10s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.Status.OrderedHookStatuses = nil
	if phases := Detailed(s, jobs); len(phases) != 3 || phases[2].Name != PhaseHooks {
		t.Errorf("without hooks: %v", phases)
	}
}

// TestDetailedFused: one Job runs scanner and parser, and the conditions know when which of them ended.
func TestDetailedFused(t *testing.T) {
	both := job("scan-1", executionv1.JobTypeScanner, 1, 9, batchv1.JobComplete)
	both.Annotations = map[string]string{executionv1.AnnotationPhases: string(executionv1.PhasesFused)}
	s := &executionv1.Scan{Status: executionv1.ScanStatus{
		State: executionv1.ScanStateDone, StartedAt: new(at(0)),
		Conditions: []metav1.Condition{
			because(executionv1.ConditionScanned, metav1.ConditionTrue, "Completed", 6), because(executionv1.ConditionParsed, metav1.ConditionTrue, "Completed", 9),
		},
	}}
	var got []string
	for _, p := range Detailed(s, []batchv1.Job{both})[:2] {
		got = append(got, fmt.Sprintf("%s %s×%d %s", p.Name, p.Job, p.Attempts, p.Duration(at(59).Time)))
	}
	if diff := cmp.Diff([]string{"scanner scan-1×1 5s", "parser scan-1×1 3s"}, got); diff != "" {
		t.Error(diff)
	}
	s.Status = executionv1.ScanStatus{State: executionv1.ScanStateScanning}
	if p := Detailed(s, []batchv1.Job{both})[1]; p.Job != "" || p.Attempts != 0 {
		t.Errorf("while the scanner runs: %+v", p)
	}
}

func TestState(t *testing.T) {
	deleted, done, suspended := at(0), executionv1.ScanStateDone, executionv1.ScanSpec{Suspend: new(true)}
	queued := executionv1.ScanStatus{Queue: &executionv1.QueuePlace{Position: 3, Of: 12}}
	for name, tc := range map[string]struct {
		scan        executionv1.Scan
		want, place string
	}{
		"New":           {executionv1.Scan{}, "Waiting", ""},
		"Queued":        {executionv1.Scan{Status: queued}, "Queued", "3 of 12"},
		"Scanning":      {executionv1.Scan{Status: executionv1.ScanStatus{State: executionv1.ScanStateScanning}}, "Scanning", ""},
		"StalePlace":    {executionv1.Scan{Status: executionv1.ScanStatus{State: executionv1.ScanStateScanning, Queue: queued.Queue}}, "Scanning", ""},
		"Suspended":     {executionv1.Scan{Spec: suspended, Status: queued}, "Suspended", "3 of 12"},
		"SuspendedDone": {executionv1.Scan{Spec: suspended, Status: executionv1.ScanStatus{State: done}}, "Done", ""},
		"Deleting":      {executionv1.Scan{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}, Status: executionv1.ScanStatus{State: done}}, "Deleting", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, place := State(&tc.scan), Place(&tc.scan); got != tc.want || place != tc.place {
				t.Errorf("got %s %q, want %s %q", got, place, tc.want, tc.place)
			}
		})
	}
}

func TestSays(t *testing.T) {
	ready := []metav1.Condition{because(executionv1.ConditionReady, metav1.ConditionFalse, "ScannerFailed", 1)}
	for name, tc := range map[string]struct {
		status executionv1.ScanStatus
		want   string
	}{
		"New":     {executionv1.ScanStatus{}, "It waits for the operator."},
		"Ready":   {executionv1.ScanStatus{Conditions: ready}, "says ScannerFailed"},
		"Errored": {executionv1.ScanStatus{State: executionv1.ScanStateErrored, ErrorDescription: "why", Conditions: ready}, "why"},
		"Other":   {executionv1.ScanStatus{State: executionv1.ScanStateErrored}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Says(&executionv1.Scan{Status: tc.status}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReach(t *testing.T) {
	for name, tc := range map[string]struct {
		status           metav1.ConditionStatus
		unreached, doubt string
	}{
		"NotSaid": {"", "", ""},
		"Yes":     {metav1.ConditionTrue, "", ""},
		"No":      {metav1.ConditionFalse, "nothing was reached: says x", ""},
		"Unknown": {metav1.ConditionUnknown, "", "whether anything was reached is not known: says x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &executionv1.Scan{}
			if tc.status != "" {
				s.Status.Conditions = []metav1.Condition{because(executionv1.ConditionTargetReached, tc.status, "x", 0)}
			}
			if got, doubt := Unreached(s), ReachDoubt(s); got != tc.unreached || doubt != tc.doubt {
				t.Errorf("got %q and %q, want %q and %q", got, doubt, tc.unreached, tc.doubt)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	s := &executionv1.Scan{}
	check := func(want time.Duration) {
		t.Helper()
		if got := Lifetime(s, at(30).Time); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check(0)
	s.Status.StartedAt = new(at(10))
	check(20 * time.Second)
	s.Status.FinishedAt = new(at(12))
	check(2 * time.Second)
	s.Status.FinishedAt = new(at(9)) // clocks differ
	check(0)
}

// TestLatest keeps the newest Done run of each series.
func TestLatest(t *testing.T) {
	scan := func(name, schedule string, state executionv1.ScanState, parameters ...string) *executionv1.Scan {
		s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: parameters}}
		s.Status.State = state
		if schedule != "" {
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "ScheduledScan", Name: schedule, Controller: new(true),
			}}
		}
		return s
	}
	const done = executionv1.ScanStateDone
	newestFirst := []*executionv1.Scan{
		scan("running", "nightly", executionv1.ScanStateScanning, "h"), scan("night-2", "nightly", done, "h"), scan("night-1", "nightly", done, "old"),
		scan("by-hand", "", done, "h"), scan("joined", "", done, "a b"), scan("apart", "", done, "a", "b"), scan("by-hand-before", "", done, "h"),
	}
	var got []string
	for _, s := range Latest(newestFirst) {
		got = append(got, s.Name)
	}
	if diff := cmp.Diff([]string{"night-2", "by-hand", "joined", "apart"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTarget(t *testing.T) {
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "name"}}
	var got []string
	add := func() { got = append(got, Target(s)) }
	s.Spec.Parameters = []string{"-sV", ""}
	add()
	s.Spec.Parameters = []string{"-p", "80", "shop.example.com", "-v"}
	add()
	s.Labels = map[string]string{executionv1.LabelTarget: "shop"}
	add()
	if want := []string{"name", "shop.example.com", "shop"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCounts(t *testing.T) {
	f := executionv1.FindingStats{FindingSeverities: executionv1.FindingSeverities{High: new(int64(2)), Low: new(int64(5))}}
	if got := Counts(f); !slices.Equal(got, []int64{2, 0, 5, 0}) {
		t.Errorf("got %v", got)
	}
	if _, counted := Total(f); counted {
		t.Error("nothing was counted yet")
	}
	f.Count = new(int64(7))
	if n, counted := Total(f); n != 7 || !counted {
		t.Errorf("got %d, %v", n, counted)
	}
}
