// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func withRecord(text string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Annotations = map[string]string{executionv1.AnnotationRecord: text} }
}

// listing is a parser's Job that has ended well and names hooks.
func listing(hooks ...string) Job {
	return Job{Role: ParserRole, Outcome: Complete, ListsHooks: true, Hooks: hooks}
}

// TestBelieveWithRecord: a Scan with a record stands where its Jobs and the record show.
func TestBelieveWithRecord(t *testing.T) {
	scanned, hook := Job{Role: ScannerRole, Outcome: Complete}, Job{Role: hookRole("webhook"), Outcome: Complete}
	passing := Job{Role: ScannerRole, Outcome: Complete, HasTTL: true}
	cases := map[string]struct {
		reason      string
		record      string
		state, want executionv1.ScanState
		jobs        []Job
		stored      bool
	}{
		"NeverBegan":      {reason: "it has no Job", record: "{}", state: "Scanning", want: ""},
		"NeverEnded":      {reason: "it has no Job", record: "{}", state: "Done", want: ""},
		"NeverFailed":     {reason: "it has no Job", record: "{}", state: "Errored", want: ""},
		"JobsDeleted":     {reason: "its results are there", record: "{}", state: "Done", want: "Done", stored: true},
		"ScannerEnded":    {reason: "there is no parser's Job", record: "{}", state: "HookProcessing", want: "ScanCompleted", jobs: []Job{scanned}},
		"ScannedNotDone":  {reason: "there is no parser's Job", record: "{}", state: "Done", want: "", jobs: []Job{scanned}},
		"Done":            {reason: "all have ended well", record: "{}", state: "Done", want: "Done", jobs: []Job{scanned, listing("webhook"), hook}},
		"HookIsMissing":   {reason: "it is on the list", record: "{}", state: "Done", want: "", jobs: []Job{scanned, listing("webhook")}},
		"NoList":          {reason: "an older operator has made the Job", record: "{}", state: "Done", want: "", jobs: []Job{scanned, {Role: ParserRole, Outcome: Complete}}},
		"Failed":          {reason: "its Job shows it", record: "{}", state: "Errored", want: "Errored", jobs: []Job{{Role: ScannerRole, Outcome: Failed}}},
		"EndIsRecorded":   {reason: "its spec is not valid", record: `{"end":"Errored"}`, state: "", want: "Errored"},
		"RecordedWins":    {reason: "a Job shows something else", record: `{"end":"Done"}`, state: "Errored", want: "Done", jobs: []Job{{Role: ScannerRole, Outcome: Failed}}},
		"ScannerIsGone":   {reason: "its TTL has removed it; storage tells", record: `{"began":"Scanning"}`, state: "Scanning", want: "Scanning"},
		"ScannerGoes":     {reason: "it is there yet", record: `{"began":"Scanning"}`, state: "Parsing", want: "ScanCompleted", jobs: []Job{passing}},
		"ParserIsGone":    {reason: "storage has to have the findings", record: `{"began":"Parsing"}`, state: "HookProcessing", want: "Parsing"},
		"NotARecord":      {reason: "somebody has edited it", record: `-`, state: "Done", want: "Done"},
		"HooksAreReached": {reason: "the parser has ended", record: "{}", state: "HookProcessing", want: "HookProcessing", jobs: []Job{scanned, listing()}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.WithState(tc.state), withRecord(tc.record))
			got, _ := Believe(Belief{Scan: s, Jobs: inNamespace(tc.jobs...), Now: testobjects.Epoch.Add(time.Hour), Stored: tc.stored})
			if got.State != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got.State, tc.want)
			}
		})
	}
}

// TestBelieveHooksWithRecord: a hook has ended where its Job or the record says so.
func TestBelieveHooksWithRecord(t *testing.T) {
	spec, passing := testobjects.HookSpec(executionv1.ReadOnly, 0), testobjects.HookSpec(executionv1.ReadOnly, 0)
	passing.TTLSecondsAfterFinished = new(int32(0))
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), withRecord(`{"began":"Scanning","hooks":{"gone":"Completed"}}`))
	named := func(name string, state executionv1.HookState) executionv1.HookStatus {
		return executionv1.HookStatus{HookName: name, State: state, Type: executionv1.ReadOnly}
	}
	s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{
		named("claimed", executionv1.HookStateCompleted), named("shown", executionv1.HookStateCompleted), named("gone", executionv1.HookStatePending),
		named("lost", executionv1.HookStateInProgress), named("started", executionv1.HookStateInProgress),
	}}
	got, _ := Believe(Belief{
		Scan: s, Now: testobjects.Epoch,
		Jobs: inNamespace(Job{Role: ScannerRole, Outcome: Complete}, listing("claimed", "left-out", "uninstalled"), Job{Role: hookRole("shown"), Outcome: Complete}),
		Selected: []Hook{
			{Name: "claimed", Spec: spec},
			{Name: "gone", Spec: passing},
			{Name: "installed-later", Spec: spec},
			{Name: "left-out", Spec: spec},
			{Name: "lost", Spec: passing},
			{Name: "shown", Spec: spec},
			{Name: "started", Spec: spec},
		},
	})
	want := [][]executionv1.HookStatus{{
		named("claimed", executionv1.HookStatePending), named("shown", executionv1.HookStateCompleted), named("gone", executionv1.HookStateCompleted),
		named("lost", executionv1.HookStateInProgress), named("started", executionv1.HookStatePending),
	}, {named("left-out", executionv1.HookStatePending)}}
	if diff := cmp.Diff(want, got.OrderedHookStatuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNextRecord: the record says what Jobs do not show, and nothing else.
func TestNextRecord(t *testing.T) {
	completed := [][]executionv1.HookStatus{{{HookName: "webhook", State: executionv1.HookStateCompleted}}}
	onFailure := [][]executionv1.HookStatus{{{HookName: "mail", State: executionv1.HookStatePending, AfterFailure: true}}}
	hook := Job{Role: hookRole("webhook"), Outcome: Complete}
	passing := func(j Job) Job { j.HasTTL = true; return j }
	scanned := Job{Role: ScannerRole, Outcome: Complete}
	cases := map[string]struct {
		reason    string
		was, want string
		state     executionv1.ScanState
		hooks     [][]executionv1.HookStatus
		jobs      []Job
	}{
		"Scanning":      {reason: "its Job shows it", was: "{}", want: "{}", state: "Scanning", jobs: []Job{scanned}},
		"Passing":       {reason: "its Job goes by its TTL", was: "{}", want: `{"began":"Scanning"}`, state: "Scanning", jobs: []Job{passing(scanned)}},
		"Passed":        {reason: "it stays said", was: `{"began":"Scanning"}`, want: `{"began":"Scanning"}`, state: "Parsing"},
		"Again":         {reason: "the scanner runs again", was: `{"began":"Parsing"}`, want: "{}", state: ""},
		"PassingHook":   {reason: "its Job goes by its TTL", was: "{}", want: `{"hooks":{"webhook":"Completed"}}`, state: "HookProcessing", hooks: completed, jobs: []Job{passing(hook)}},
		"PassedHook":    {reason: "it stays said", was: `{"hooks":{"webhook":"Completed"}}`, want: `{"hooks":{"webhook":"Completed"}}`, state: "HookProcessing", hooks: completed},
		"Done":          {reason: "the Jobs show it", was: "{}", want: "{}", state: "Done", hooks: completed, jobs: []Job{scanned, listing("webhook"), hook}},
		"DonePassing":   {reason: "the parser's Job goes", was: "{}", want: `{"began":"Parsing","end":"Done"}`, state: "Done", jobs: []Job{scanned, passing(listing())}},
		"Reopened":      {reason: "hooks run again", was: `{"end":"Done"}`, want: "{}", state: "HookProcessing", jobs: []Job{scanned, listing()}},
		"Errored":       {reason: "its Job shows it", was: "{}", want: "{}", state: "Errored", jobs: []Job{{Role: ScannerRole, Outcome: Failed}}},
		"NoJob":         {reason: "nothing shows it", was: "{}", want: `{"end":"Errored"}`, state: "Errored"},
		"FailureHooks":  {reason: "nothing shows which run", was: "{}", want: `{"afterFailure":["mail"],"end":"Errored"}`, state: "Errored", hooks: onFailure, jobs: []Job{{Role: ScannerRole, Outcome: Failed}}},
		"WithoutRecord": {reason: "an older operator has taken it up", state: "Errored"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.WithState(tc.state))
			if tc.was != "" {
				withRecord(tc.was)(s)
			}
			s.Status.OrderedHookStatuses = tc.hooks
			next, changed := NextRecord(&Observation{Scan: s, Jobs: inNamespace(tc.jobs...)}, &s.Status, false)
			if changed != (tc.was != tc.want) || tc.was != "" && next.Text() != tc.want {
				t.Errorf("%s: %s (changed %t), want %s", tc.reason, next.Text(), changed, tc.want)
			}
		})
	}
}
