// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func inNamespace(jobs ...Job) []Job {
	for i := range jobs {
		jobs[i].Namespace = testobjects.Namespace
		jobs[i].Attempt = max(jobs[i].Attempt, 1)
	}
	return jobs
}

// TestBelieveState: a restarted operator believes of a state what the Jobs do not contradict.
func TestBelieveState(t *testing.T) {
	scanner, parser := Job{Role: ScannerRole}, Job{Role: ParserRole}
	scanned, parsed := Job{Role: ScannerRole, Outcome: Complete}, Job{Role: ParserRole, Outcome: Complete}
	hook := Job{Role: hookRole("webhook")}
	afterFailure := func(s *executionv1.Scan) {
		s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{HookName: "webhook", State: executionv1.HookStateInProgress, AfterFailure: true}}}
	}
	cases := map[string]struct {
		reason      string
		state, want executionv1.ScanState
		jobs        []Job
		change      func(*executionv1.Scan)
		lowered     bool
	}{
		"New":             {reason: "nothing is claimed", state: "", want: ""},
		"Scanning":        {reason: "as its Job shows", state: "Scanning", want: "Scanning", jobs: []Job{scanner}},
		"ScanningNoJob":   {reason: "its Job may be gone: storage tells", state: "Scanning", want: "Scanning"},
		"Done":            {reason: "all has ended", state: "Done", want: "Done", jobs: []Job{scanned, parsed}},
		"DoneNoJobs":      {reason: "Jobs go by their TTL", state: "Done", want: "Done"},
		"DoneRuns":        {reason: "its scanner runs", state: "Done", want: "", jobs: []Job{scanner}},
		"ErroredRuns":     {reason: "its parser runs", state: "Errored", want: "", jobs: []Job{scanned, parser}},
		"DoneHookRuns":    {reason: "a hook runs", state: "Done", want: "", jobs: []Job{scanned, parsed, hook}},
		"ForItsFailure":   {reason: "a hook runs because the Scan is Errored", state: "Errored", want: "Errored", jobs: []Job{scanner, hook}[1:], change: afterFailure},
		"Overdue":         {reason: "what has passed its deadline is held", state: "Errored", want: "Errored", jobs: []Job{{Role: ScannerRole, Suspended: true}}},
		"Deleted":         {reason: "what is being deleted ends", state: "Errored", want: "Errored", jobs: []Job{{Role: ScannerRole, Deleted: testobjects.Epoch}}},
		"Cancelled":       {reason: "what is left over is deleted", state: "Errored", want: "Errored", jobs: []Job{scanner}, change: func(s *executionv1.Scan) { s.Spec.Cancel = new(true) }},
		"ParsedTooEarly":  {reason: "its scanner still runs", state: "HookProcessing", want: "Scanning", jobs: []Job{scanner}},
		"HooksTooEarly":   {reason: "its parser still runs", state: "HookProcessing", want: "Parsing", jobs: []Job{scanned, parser}},
		"ParsedFailed":    {reason: "its parser has failed", state: "ParseCompleted", want: "Parsing", jobs: []Job{scanned, {Role: ParserRole, Outcome: Failed}}},
		"ScannedTooEarly": {reason: "its scanner still runs", state: "ScanCompleted", want: "Scanning", jobs: []Job{scanner}},
		"Hooks":           {reason: "the parser is done", state: "HookProcessing", want: "HookProcessing", jobs: []Job{scanned, parsed}},
		"ScannedNoJobs":   {reason: "storage has to have the raw result", state: "ScanCompleted", want: "Scanning", lowered: true},
		"ParsedNoJobs":    {reason: "storage has to have the findings", state: "ParseCompleted", want: "Parsing", lowered: true},
		"HooksNoJobs":     {reason: "storage has to have the findings", state: "HookProcessing", want: "Parsing", lowered: true},
		"HooksByJob":      {reason: "a hook's Job shows it", state: "HookProcessing", want: "HookProcessing", jobs: []Job{{Role: hookRole("webhook"), Outcome: Complete}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.WithState(tc.state))
			if tc.change != nil {
				tc.change(s)
			}
			got, lowered := Believe(Belief{Scan: s, Jobs: inNamespace(tc.jobs...), Now: testobjects.Epoch.Add(time.Hour), Selected: []Hook{{Name: "webhook", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0)}}})
			if got.State != tc.want || lowered != tc.lowered {
				t.Errorf("%s: %q (lowered %t), want %q", tc.reason, got.State, lowered, tc.want)
			}
		})
	}
}

// TestBelieveIsNoForgery: what this operator has written it believes, in whole.
func TestBelieveIsNoForgery(t *testing.T) {
	for _, state := range []executionv1.ScanState{"", "Scanning", "Done", "Errored"} {
		s := testobjects.Scan("s", testobjects.WithState(state))
		want := s.Status.DeepCopy()
		got, _ := Believe(Belief{Scan: s, Now: testobjects.Epoch.Add(time.Hour)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", state, diff)
		}
	}
}

// TestBelieveHooks: hooks are of the selection or have a Job, and each is there once.
func TestBelieveHooks(t *testing.T) {
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing))
	group := []executionv1.HookStatus{
		{HookName: "webhook", State: executionv1.HookStateCompleted, Type: executionv1.ReadAndWrite, FailurePolicy: executionv1.HookIgnore, Priority: 9},
		{HookName: "gone", State: executionv1.HookStateFailed, JobName: "gone"},
		{HookName: "failures", State: executionv1.HookStatePending},
		{HookName: "failures", State: executionv1.HookStatePending, AfterFailure: true},
	}
	for i := range 1500 {
		group = append(group, executionv1.HookStatus{HookName: "webhook", State: executionv1.HookStatePending, Attempt: i})
		group = append(group, executionv1.HookStatus{HookName: fmt.Sprintf("unknown-%d", i), State: executionv1.HookStatePending})
	}
	s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{group, {{HookName: "unknown", State: executionv1.HookStateFailed}}}
	failures := testobjects.HookSpec(executionv1.ReadOnly, 0)
	failures.RunOn = executionv1.RunOnFailure
	got, _ := Believe(Belief{
		Scan: s, Now: testobjects.Epoch, Jobs: inNamespace(Job{Role: ParserRole, Outcome: Complete}, Job{Role: hookRole("gone"), Outcome: Failed}),
		Selected: []Hook{{Name: "webhook", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0)}, {Name: "failures", Spec: failures}},
	})
	want := [][]executionv1.HookStatus{{
		{HookName: "webhook", State: executionv1.HookStateCompleted, Type: executionv1.ReadOnly},
		{HookName: "gone", State: executionv1.HookStateFailed, JobName: "gone"},
	}}
	if diff := cmp.Diff(want, got.OrderedHookStatuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBelieveNumbers: a run that no Job shows is believed where it was asked for.
func TestBelieveNumbers(t *testing.T) {
	asked := func(s *executionv1.Scan) {
		s.Annotations, s.Status.LastRerun = map[string]string{executionv1.AnnotationRerun: "scanner@1"}, "scanner@1"
	}
	cases := map[string]struct {
		reason string
		said   int
		want   int
		jobs   []Job
		change func(*executionv1.Scan)
	}{
		"Shown":       {reason: "a Job has the number", said: 2, want: 2, jobs: []Job{{Role: ScannerRole, Attempt: 2}}},
		"Asked":       {reason: "the next Job is still to be made", said: 2, want: 2, jobs: []Job{{Role: ScannerRole, Outcome: Complete}}, change: asked},
		"TooHigh":     {reason: "one run follows the other", said: 7, want: 2, jobs: []Job{{Role: ScannerRole, Outcome: Complete}}, change: asked},
		"NotAsked":    {reason: "nobody has asked for it", said: 2, want: 0, jobs: []Job{{Role: ScannerRole, Outcome: Complete}}},
		"StillRuns":   {reason: "no run begins before the last one has ended", said: 2, want: 0, jobs: []Job{{Role: ScannerRole}}, change: asked},
		"Negative":    {reason: "no number", said: -2, want: 0},
		"JobsAreGone": {reason: "they go by their TTL", said: 3, want: 3},
		"Huge":        {reason: "numbers are bounded", said: 1 << 40, want: MaxRun},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning))
			s.Status.Attempts = &executionv1.PhaseAttempts{Scanner: tc.said, Parser: tc.said}
			if tc.change != nil {
				tc.change(s)
			}
			got, _ := Believe(Belief{Scan: s, Jobs: inNamespace(tc.jobs...), Now: testobjects.Epoch})
			have := 0
			if got.Attempts != nil {
				have = got.Attempts.Scanner
			}
			if have != tc.want {
				t.Errorf("%s: %d, want %d", tc.reason, have, tc.want)
			}
		})
	}
}

// TestBelieveTimes: what runs out by a time does not last for ever, and does not go at once.
func TestBelieveTimes(t *testing.T) {
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))
	ended := testobjects.Epoch.Add(time.Hour)
	s.Status.FinishedAt = &metav1.Time{Time: time.Unix(0, 0)}
	s.Status.Conditions = []metav1.Condition{{Type: executionv1.ConditionReady, LastTransitionTime: metav1.Time{Time: ended.AddDate(9, 0, 0)}}}
	got, _ := Believe(Belief{Scan: s, Jobs: inNamespace(Job{Role: ParserRole, Outcome: Complete, Finished: ended}), Now: ended})
	if !got.FinishedAt.Time.Equal(ended) || !got.Conditions[0].LastTransitionTime.Time.Equal(ended) {
		t.Errorf("%v %v", got.FinishedAt, got.Conditions)
	}
}

// TestRecalled: of what is in the status, findings and what is not ours is kept.
func TestRecalled(t *testing.T) {
	known := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)).Status
	known.Conditions = []metav1.Condition{{Type: executionv1.ConditionReady, Status: metav1.ConditionUnknown}}
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))
	s.Status.Findings.Count = new(int64(3))
	s.Status.Conditions = []metav1.Condition{
		{Type: executionv1.ConditionReady, Status: metav1.ConditionTrue},
		{Type: executionv1.ConditionCancelled, Status: metav1.ConditionTrue},
		{Type: "CascadingRulesMatched", Status: metav1.ConditionTrue},
	}
	want := known.DeepCopy()
	want.Findings.Count = new(int64(3))
	want.Conditions = append(want.Conditions, s.Status.Conditions[2])
	got := Recalled(s, &known)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !IsForged(&s.Status, got) || IsForged(got, Recalled(&executionv1.Scan{Status: *got}, &known)) {
		t.Error("what differs is forged, and nothing else")
	}
}
