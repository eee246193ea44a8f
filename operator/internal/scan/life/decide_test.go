// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

var testSettings = Settings{
	StartDeadline: time.Hour, ScannerDeadline: 24 * time.Hour, ParserDeadline: 6 * time.Hour, HookDeadline: 2 * time.Hour,
	MissingKindGrace: 30 * time.Second, CleanupDeadline: 10 * time.Minute, StatusLinks: true,
}

// observationOf starts from a Scan two minutes old, whose ScanType and ParseDefinition exist.
func observationOf(scan *executionv1.Scan, changes ...func(*Observation)) *Observation {
	o := &Observation{
		Now: testobjects.Epoch.Add(2 * time.Minute), Settings: testSettings, Scan: scan,
		ScanType: testobjects.ScanTypeSpec(), Definition: &executionv1.ParseDefinitionSpec{Image: "parser"},
	}
	for _, c := range changes {
		c(o)
	}
	return o
}

func withJob(r Role, out Outcome, changes ...func(*Job)) func(*Observation) {
	return func(o *Observation) {
		j := Job{Name: "job-" + r.JobType + r.Hook, Namespace: testobjects.Namespace, Role: r, Attempt: 1, Created: testobjects.Epoch, Started: testobjects.Epoch, Outcome: out}
		if out != Running {
			j.Finished = testobjects.Epoch.Add(time.Minute)
		}
		if out == Failed {
			j.Failure = "BackoffLimitExceeded: it failed"
		}
		for _, c := range changes {
			c(&j)
		}
		o.Jobs = append(o.Jobs, j)
	}
}

func withMissing(kind string) func(*Observation) {
	return func(o *Observation) {
		o.Missing = kind + ` "x" not found; install it`
	}
}

func withRawResult(o *Observation) { o.HasRawResult = true }

func withFindings(o *Observation) { o.HasFindings = true }

func withoutTurn(o *Observation) { o.Turn = Turn{Wait: true, Limited: true} }

// TestDecideEveryStateAndObservation walks through every state on the wire and
// everything that the Jobs can show. The step says what decide made of it; "Hooks"
// with no hooks ends the Scan.
func TestDecideEveryStateAndObservation(t *testing.T) {
	type row struct {
		see  string
		with []func(*Observation)
		// want is the step by state, in the order of states below.
		want [8]string
	}
	states := []executionv1.ScanState{
		executionv1.ScanStateNew, executionv1.ScanStateScanning, executionv1.ScanStateScanCompleted, executionv1.ScanStateParsing,
		executionv1.ScanStateParseCompleted, executionv1.ScanStateHookProcessing, executionv1.ScanStateDone, executionv1.ScanStateErrored,
	}
	h, s := "Hooks", "Settled"
	rows := []row{
		{"NoJob", nil, [8]string{"Start", "ScannerLost", "Scanned", "ParserLost", h, h, s, s}},
		{"NoJobNoTurn", list(withoutTurn), [8]string{"Queued", "ScannerLost", "Scanned", "ParserLost", h, h, s, s}},
		{"NoJobButRawResult", list(withRawResult), [8]string{"Scanned", "Scanned", "Scanned", "ParserLost", h, h, s, s}},
		{"NoJobButFindings", list(withFindings), [8]string{"Start", "ScannerLost", "Scanned", "Parsed", h, h, s, s}},
		{"NoScanType", list(withMissing("ScanType")), [8]string{"NoScanType", "ScannerLost", "ScannedButNoParser", "ParserLost", h, h, s, s}},
		{"ScannerRuns", list(withJob(ScannerRole, Running)), [8]string{"ScannerRuns", "ScannerRuns", "ScannerRuns", "ParserLost", h, h, s, s}},
		{"ScannerComplete", list(withJob(ScannerRole, Complete)), [8]string{"Scanned", "Scanned", "Scanned", "ParserLost", h, h, s, s}},
		{
			"ScannerCompleteNoParser", list(withJob(ScannerRole, Complete), withMissing("ParseDefinition")),
			[8]string{"ScannedButNoParser", "ScannedButNoParser", "ScannedButNoParser", "ParserLost", h, h, s, s},
		},
		{"ScannerFailed", list(withJob(ScannerRole, Failed)), [8]string{"ScannerFailed", "ScannerFailed", "ScannerFailed", "ParserLost", h, h, s, s}},
		{
			"ScannerOverdue", list(withJob(ScannerRole, Running, startedAgo(25*time.Hour))),
			[8]string{"ScannerOverdue", "ScannerOverdue", "ScannerOverdue", "ParserLost", h, h, s, s},
		},
		{
			"ParserRuns", list(withJob(ScannerRole, Complete), withJob(ParserRole, Running)),
			[8]string{"ParserRuns", "ParserRuns", "ParserRuns", "ParserRuns", h, h, s, s},
		},
		{
			"ParserComplete", list(withJob(ScannerRole, Complete), withJob(ParserRole, Complete)),
			[8]string{"Parsed", "Parsed", "Parsed", "Parsed", h, h, s, s},
		},
		{
			"ParserFailed", list(withJob(ScannerRole, Complete), withJob(ParserRole, Failed)),
			[8]string{"ParserFailed", "ParserFailed", "ParserFailed", "ParserFailed", h, h, s, s},
		},
		{
			"ParserOverdue", list(withJob(ScannerRole, Complete), withJob(ParserRole, Running, startedAgo(7*time.Hour))),
			[8]string{"ParserOverdue", "ParserOverdue", "ParserOverdue", "ParserOverdue", h, h, s, s},
		},
		{"ParserCompleteScannerGone", list(withJob(ParserRole, Complete)), [8]string{"Parsed", "Parsed", "Parsed", "Parsed", h, h, s, s}},
		{
			"FusedRuns", list(withJob(ScannerRole, Running, fused)),
			[8]string{"ScannerRuns", "ScannerRuns", "ScannerRuns", "ScannerRuns", h, h, s, s},
		},
		{
			"FusedParserRuns", list(withJob(ScannerRole, Complete, fused), withJob(ParserRole, Running)),
			[8]string{"ParserRuns", "ParserRuns", "ParserRuns", "ParserRuns", h, h, s, s},
		},
		{
			"FusedParserToldNothing", list(withJob(ScannerRole, Complete, fused)),
			[8]string{"Scanned", "Scanned", "Scanned", "Scanned", h, h, s, s},
		},
		{
			"FusedParserToldNothingAndFailsAlone", list(withJob(ScannerRole, Complete, fused), withJob(ParserRole, Failed)),
			[8]string{"ParserFailed", "ParserFailed", "ParserFailed", "ParserFailed", h, h, s, s},
		},
		{
			"FusedFailed", list(withJob(ScannerRole, Failed, fused)),
			[8]string{"ScannerFailed", "ScannerFailed", "ScannerFailed", "ScannerFailed", h, h, s, s},
		},
		{
			"FusedFailedAfterTheScanner", list(withJob(ScannerRole, Failed, fused), withRawResult),
			[8]string{"Scanned", "Scanned", "Scanned", "Scanned", h, h, s, s},
		},
		{
			"FusedFailedParserRunsAlone", list(withJob(ScannerRole, Failed, fused), withJob(ParserRole, Running), withRawResult),
			[8]string{"ParserRuns", "ParserRuns", "ParserRuns", "ParserRuns", h, h, s, s},
		},
		{
			"HookRuns", list(withJob(ScannerRole, Complete), withJob(ParserRole, Complete), withJob(hookRole("a"), Running)),
			[8]string{h, h, h, h, h, h, s, s},
		},
	}
	for _, r := range rows {
		for i, state := range states {
			t.Run(fmt.Sprintf("%s/%s", r.see, orNew(state)), func(t *testing.T) {
				o := observationOf(testobjects.Scan("s", testobjects.WithState(state)), r.with...)
				got := Decide(o)
				if got.Step != r.want[i] {
					t.Errorf("step %q, want %q", got.Step, r.want[i])
				}
				checkInvariants(t, o, got)
			})
		}
	}
}

// checkInvariants holds for every decision.
func checkInvariants(t *testing.T, o *Observation, d Decision) {
	t.Helper()
	checkNeeds(t, o, d)
	if d.Status == nil {
		return
	}
	if o.Scan.Settled() && d.Status.State != o.Scan.Status.State && !wantsRerun(o) {
		t.Errorf("a settled Scan became %q", d.Status.State)
	}
	if phases[d.Status.State] < phases[o.Scan.Status.State] && !SettledState(d.Status) && !wantsRerun(o) {
		t.Errorf("the state went back from %q to %q", o.Scan.Status.State, d.Status.State)
	}
	if SettledState(d.Status) != (d.Status.FinishedAt != nil) {
		t.Errorf("state %q with finishedAt %v", d.Status.State, d.Status.FinishedAt)
	}
	if ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady); ready == nil || ready.Reason == "" || ready.Message == "" {
		t.Errorf("condition Ready is %v", ready)
	}
	stalled := FindCondition(d.Status.Conditions, executionv1.ConditionStalled)
	if (stalled != nil) != (d.Status.State == executionv1.ScanStateErrored) {
		t.Errorf("step %s: a Scan in state %q has condition Stalled %v", d.Step, d.Status.State, stalled)
	}
	if d.Status.State == executionv1.ScanStateErrored && d.Status.ErrorDescription == "" && !o.Scan.Settled() {
		t.Error("Errored without errorDescription")
	}
	if len(d.Create) > 0 && SettledState(d.Status) && !HasFailureHooks(o) {
		t.Error("a settled Scan starts a Job")
	}
	// A Scan that ends gives its account back, not before and not later.
	ends := SettledState(d.Status) && !hasOpenFailureHook(d.Status.OrderedHookStatuses)
	was := o.Scan.Settled() && !HasFailureHooks(o)
	if ends && !was && !d.ReleaseAccess || d.ReleaseAccess && !ends {
		t.Errorf("step %s from %q to %q releases the account: %t", d.Step, o.Scan.Status.State, d.Status.State, d.ReleaseAccess)
	}
}

// TestDecideIsStable applies each decision's status and decides again: nothing may
// change any more as long as nothing else does, though the clock goes on.
func TestDecideIsStable(t *testing.T) {
	cases := map[string]*Observation{
		"Running":   observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Running)),
		"Trouble":   observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Running, withTrouble)),
		"Missing":   observationOf(testobjects.Scan("s"), withMissing("ScanType")),
		"NoParser":  observationOf(testobjects.Scan("s"), withJob(ScannerRole, Complete), withMissing("ParseDefinition")),
		"Suspended": observationOf(testobjects.Scan("s", testobjects.Suspended)),
		"Hooks": observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(hooksOf("a"))),
			withJob(ParserRole, Complete), withJob(hookRole("a"), Running)),
		"Done":    observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))),
		"Errored": observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateErrored))),
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			first := Decide(o)
			o.Scan.Status = *first.Status.DeepCopy()
			o.Now = o.Now.Add(5 * time.Second)
			second := Decide(o)
			if second.Status == nil {
				return
			}
			if diff := diffStatus(first.Status, second.Status); diff != "" {
				t.Errorf("the second pass would write again (-first +second):\n%s", diff)
			}
			if second.Event != nil {
				t.Errorf("the second pass sends an Event again: %v", second.Event)
			}
		})
	}
}

func TestDecideBeforeTheFirstJob(t *testing.T) {
	cases := map[string]struct {
		reason string
		scan   *executionv1.Scan
		with   []func(*Observation)
		step   string
		check  func(*testing.T, Decision)
	}{
		"FinalizerFirst": {
			"nothing is started that nobody would clean up", testobjects.Scan("s", without(executionv1.FinalizerStorage)), nil, "FinalizerMissing",
			func(t *testing.T, d Decision) {
				if !d.AddFinalizer || d.Status != nil || len(d.Create) > 0 {
					t.Errorf("decision %+v, want the finalizer alone", d)
				}
			},
		},
		"SuspendedStartsNothing": {"suspend holds a Scan where it is", testobjects.Scan("s", testobjects.Suspended), nil, "Suspended", wantLaunch()},
		"SuspendedRunsOn": {
			"Jobs that run go on, nothing advances", testobjects.Scan("s", testobjects.Suspended, testobjects.WithState(executionv1.ScanStateScanning)),
			list(withJob(ScannerRole, Complete)), "Suspended", wantLaunch(),
		},
		"EmptySpec": {
			"a Scan without a spec is accepted by the API server, and can never run", testobjects.Scan("s", func(s *executionv1.Scan) { s.Spec = executionv1.ScanSpec{} }),
			nil, "InvalidSpec", wantError(executionv1.ReasonInvalidSpec, "spec.scanType"),
		},
		"BadSelector": {"the user hears which field is wrong", testobjects.Scan("s", func(s *executionv1.Scan) {
			s.Spec.HookSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Is"}}}
		}), nil, "InvalidSpec", wantError(executionv1.ReasonInvalidSpec, "spec.hookSelector")},
		"NoContainer": {
			"stored before the CRD required it", testobjects.Scan("s"), list(func(o *Observation) { o.ScanType.JobTemplate.Spec.Template.Spec.Containers = nil }),
			"InvalidScanType", wantError(executionv1.ReasonInvalidScanType, "containers is empty"),
		},
		"OutsideResults": {
			"the lurker could not read it", testobjects.Scan("s"), list(func(o *Observation) { o.ScanType.ExtractResults.Location = "/tmp/x" }),
			"InvalidScanType", wantError(executionv1.ReasonInvalidScanType, "/tmp/x"),
		},
		"Start": {"the scanner is started and the state says so", testobjects.Scan("s"), nil, "Start", wantLaunch(ScannerRole)},
		"MissingWaits": {
			"the ScanType may come a moment later", testobjects.Scan("s"), list(withMissing("ScanType")), "NoScanType",
			func(t *testing.T, d Decision) {
				if d.Status.State != executionv1.ScanStateNew || d.RequeueAfter != testSettings.MissingKindGrace {
					t.Errorf("state %q, again in %s; want to wait for %s", d.Status.State, d.RequeueAfter, testSettings.MissingKindGrace)
				}
			},
		},
		"MissingTooLong": {
			"waiting has an end", testobjects.Scan("s", waitingSince(executionv1.ReasonScanTypeNotFound, time.Minute)), list(withMissing("ScanType")), "NoScanType",
			wantError(executionv1.ReasonScanTypeNotFound, "install it"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observationOf(tc.scan, tc.with...)
			d := Decide(o)
			if d.Step != tc.step {
				t.Errorf("%s: step %q, want %q", tc.reason, d.Step, tc.step)
			}
			checkInvariants(t, o, d)
			tc.check(t, d)
		})
	}
}

func TestDecideRunningJob(t *testing.T) {
	scanning := func(options ...func(*executionv1.Scan)) *executionv1.Scan {
		return testobjects.Scan("s", append(options, testobjects.WithState(executionv1.ScanStateScanning))...)
	}
	cases := map[string]struct {
		reason   string
		scan     *executionv1.Scan
		with     []func(*Observation)
		wantWhy  string
		wantTime time.Duration
	}{
		"Fine":       {"only its deadline is waited for", scanning(), list(withJob(ScannerRole, Running)), executionv1.ReasonRunning, 24*time.Hour - 2*time.Minute},
		"OwnBound":   {"a Scan has its own deadline", scanning(withDeadline(600)), list(withJob(ScannerRole, Running)), executionv1.ReasonRunning, 8 * time.Minute},
		"NoPodYet":   {"pods that a quota keeps out show in Events only", scanning(), list(withJob(ScannerRole, Running, noPod)), executionv1.ReasonRunning, 10 * LookForPods},
		"Trouble":    {"the reason is shown", scanning(), list(withJob(ScannerRole, Running, withTrouble)), executionv1.ReasonImagePull, 58 * time.Minute},
		"JobSuspend": {"a queue holds the Job; the deadline of starting does not count", scanning(), list(withJob(ScannerRole, Running, noPod, func(j *Job) { j.Suspended = true })), executionv1.ReasonJobSuspended, 24*time.Hour - 2*time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(tc.scan, tc.with...))
			if got := FindCondition(d.Status.Conditions, executionv1.ConditionScanned).Reason; got != tc.wantWhy {
				t.Errorf("%s: reason %q, want %q", tc.reason, got, tc.wantWhy)
			}
			if d.RequeueAfter != tc.wantTime {
				t.Errorf("%s: again in %s, want %s", tc.reason, d.RequeueAfter, tc.wantTime)
			}
		})
	}
}

func TestDecideOverdue(t *testing.T) {
	cases := map[string]struct {
		reason string
		with   func(*Observation)
		want   string
	}{
		"NeverStarted": {
			"an image that cannot be pulled ends the Scan, and the message says what kept it",
			withJob(ScannerRole, Running, withTrouble, pendingAgo(2*time.Hour)), "did not start within its deadline of 1h0m0s: The image",
		},
		"NeverEnded": {"a scanner that hangs ends the Scan", withJob(ScannerRole, Running, startedAgo(25*time.Hour)), "did not end within its deadline of 24h0m0s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), tc.with))
			wantError(executionv1.ReasonDeadlineExceeded, tc.want)(t, d)
			if len(d.Stop) != 1 {
				t.Errorf("%s: stops %v, want the Job", tc.reason, d.Stop)
			}
		})
	}
}

func TestDecideFailureKeepsWhatWasKnown(t *testing.T) {
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning), waitingWith(executionv1.ConditionScanned, executionv1.ReasonContainerFailing, "Container \"nmap\" fails"))
	d := Decide(observationOf(scan, withJob(ScannerRole, Failed)))
	wantError(executionv1.ReasonScannerFailed, "BackoffLimitExceeded: it failed; before that: Container \"nmap\" fails")(t, d)
}

func TestDecideEnd(t *testing.T) {
	ttl := func(seconds int32) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) { s.Spec.TTLSecondsAfterFinished = &seconds }
	}
	done, errored := testobjects.WithState(executionv1.ScanStateDone), testobjects.WithState(executionv1.ScanStateErrored)
	cases := map[string]struct {
		reason  string
		scan    *executionv1.Scan
		step    string
		deletes bool
		again   time.Duration
	}{
		"NoTTL":         {"it is kept", testobjects.Scan("s", done), "Settled", false, 0},
		"TTLNotYet":     {"the rest of the time is waited for, not all of it", testobjects.Scan("s", done, ttl(90)), "Settled", false, 30 * time.Second},
		"TTLOver":       {"it is deleted", testobjects.Scan("s", errored, ttl(60)), "Expired", true, 0},
		"TTLZero":       {"it is deleted at once", testobjects.Scan("s", done, ttl(0)), "Expired", true, 0},
		"TTLSuspended":  {"suspend does not keep a Scan that has ended", testobjects.Scan("s", done, ttl(0), testobjects.Suspended), "Expired", true, 0},
		"FinishedWiped": {"a client that removes finishedAt does not have it deleted early", testobjects.Scan("s", done, ttl(60), func(s *executionv1.Scan) { s.Status.FinishedAt = nil }), "Settled", false, time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(tc.scan))
			if d.Step != tc.step || d.DeleteScan != tc.deletes || d.RequeueAfter != tc.again {
				t.Errorf("%s: step %q, deletes %t, again in %s; want %q, %t, %s", tc.reason, d.Step, d.DeleteScan, d.RequeueAfter, tc.step, tc.deletes, tc.again)
			}
		})
	}
}

// keptFromStorage is what is decided of a pass that could not use object storage.
func keptFromStorage(o *Observation, why string) Decision {
	failed := *o
	failed.StorageError = why
	return Decide(&failed)
}

func TestDecideOutage(t *testing.T) {
	o := observationOf(testobjects.Scan("s"))
	d := keptFromStorage(o, "presign PUT: Get https://s3/b?X-Amz-Signature=abc: connection refused")
	ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady)
	if ready.Reason != executionv1.ReasonStorageUnavailable || strings.Contains(ready.Message, "abc") || !strings.Contains(ready.Message, "connection refused") || d.Event == nil {
		t.Errorf("Ready is %+v, notice %v", ready, d.Event)
	}
	o.Scan.Status = *d.Status
	if again := keptFromStorage(o, "presign PUT: Get https://s3/b?X-Amz-Signature=def: connection refused"); again.Event != nil || diffStatus(d.Status, again.Status) != "" {
		t.Error("the next try writes and tells again")
	}
	if d := keptFromStorage(observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone))), "x"); d.Status != nil || d.Event != nil {
		t.Error("a Scan that has ended is written, or tells")
	}
	asked := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone), func(s *executionv1.Scan) {
		s.Annotations = map[string]string{executionv1.AnnotationRerun: "links@1"}
	}))
	if d := keptFromStorage(asked, "x"); d.Status != nil || d.Event == nil || !strings.Contains(d.Event.Message, "waits for object storage: x") {
		t.Errorf("a Scan that has ended and is asked for links is written, or does not tell: %+v", d.Event)
	}
}

func TestDecideDeletion(t *testing.T) {
	away := func(j *Job) { j.Namespace = "hooks" }
	cases := map[string]struct {
		reason       string
		scan         *executionv1.Scan
		with         []func(*Observation)
		deletes      int
		removeStored bool
		release      bool
		revokes      int
	}{
		"NothingRuns": {"storage is cleaned", testobjects.Scan("s", testobjects.Deleted), list(withJob(ScannerRole, Complete)), 0, true, false, 0},
		"ScannerRuns": {"what still runs could upload afterwards", testobjects.Scan("s", testobjects.Deleted), list(withJob(ScannerRole, Running)), 1, false, false, 0},
		"Suspended":   {"a suspended Scan can be deleted", testobjects.Scan("s", testobjects.Deleted, testobjects.Suspended), nil, 0, true, false, 0},
		"Foreign":     {"nothing collects Jobs in another namespace", testobjects.Scan("s", testobjects.Deleted), list(withJob(hookRole("a"), Complete, away)), 1, false, false, 1},
		"TooLong":     {"deletion is never blocked for ever", testobjects.Scan("s", testobjects.Deleted), list(atAge(time.Hour), withJob(ScannerRole, Running)), 1, true, true, 0},
		"Retain":      {"results are kept on request", testobjects.Scan("s", testobjects.Deleted, retain), nil, 0, false, true, 0},
		"Legacy":      {"the finalizer of old versions means the same", testobjects.Scan("s", testobjects.Deleted, legacyFinalizer), nil, 0, true, false, 0},
		"NotOurs":     {"without our finalizer there is nothing to do", testobjects.Scan("s", testobjects.Deleted, without(executionv1.FinalizerStorage)), nil, 0, false, false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(tc.scan, tc.with...))
			if d.Step != "Deleted" || len(d.Create) > 0 || d.Status != nil {
				t.Errorf("%s: decision %+v does more than clean up", tc.reason, d)
			}
			if len(d.DeleteJobs) != tc.deletes || d.RemoveStored != tc.removeStored || d.Release != tc.release || len(d.Revoke) != tc.revokes {
				t.Errorf("%s: deletes %d Jobs, removeStored %t, release %t, revokes %d; want %d, %t, %t, %d", tc.reason,
					len(d.DeleteJobs), d.RemoveStored, d.Release, len(d.Revoke), tc.deletes, tc.removeStored, tc.release, tc.revokes)
			}
		})
	}
}

// --- helpers ---

func list(f ...func(*Observation)) []func(*Observation) { return f }

func orNew(s executionv1.ScanState) string {
	if s == "" {
		return "New"
	}
	return string(s)
}

func startedAgo(d time.Duration) func(*Job) {
	return func(j *Job) {
		j.Created, j.Started = testobjects.Epoch.Add(2*time.Minute-d), testobjects.Epoch.Add(2*time.Minute-d)
	}
}

func pendingAgo(d time.Duration) func(*Job) {
	return func(j *Job) {
		j.Created, j.PendingSince = testobjects.Epoch.Add(2*time.Minute-d), testobjects.Epoch.Add(2*time.Minute-d)
	}
}

func withTrouble(j *Job) {
	j.PendingSince = testobjects.Epoch
	j.Trouble = &Cause{executionv1.ReasonImagePull, "The image cannot be pulled."}
}

func fused(j *Job) { j.Fused = true }

func noPod(j *Job) { j.NoPod, j.PendingSince = true, testobjects.Epoch }

func atAge(d time.Duration) func(*Observation) {
	return func(o *Observation) { o.Now = testobjects.Epoch.Add(d) }
}

func without(finalizer string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		var rest []string
		for _, f := range s.Finalizers {
			if f != finalizer {
				rest = append(rest, f)
			}
		}
		s.Finalizers = rest
	}
}

func legacyFinalizer(s *executionv1.Scan) {
	s.Finalizers = []string{executionv1.FinalizerStorageLegacy}
}

func retain(s *executionv1.Scan) {
	s.Annotations = map[string]string{executionv1.AnnotationOnDelete: executionv1.OnDeleteRetain}
}

func withDeadline(seconds int64) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Spec.Deadlines = &executionv1.Deadlines{ScannerSeconds: new(seconds)} }
}

func waitingSince(reason string, ago time.Duration) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = []metav1.Condition{{
			Type: executionv1.ConditionScanned, Status: metav1.ConditionUnknown, Reason: reason, Message: "waiting",
			LastTransitionTime: metav1.Time{Time: testobjects.Epoch.Add(2*time.Minute - ago)},
		}}
	}
}

func waitingWith(kind, reason, message string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}}
	}
}

func wantLaunch(roles ...Role) func(*testing.T, Decision) {
	return func(t *testing.T, d Decision) {
		t.Helper()
		var got []Role
		for _, l := range d.Create {
			got = append(got, l.Role)
		}
		if fmt.Sprint(got) != fmt.Sprint(roles) {
			t.Errorf("launches %v, want %v", got, roles)
		}
	}
}

func wantError(reason, message string) func(*testing.T, Decision) {
	return func(t *testing.T, d Decision) {
		t.Helper()
		if d.Status == nil || d.Status.State != executionv1.ScanStateErrored {
			t.Fatalf("decision %+v does not end the Scan", d)
		}
		ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady)
		if ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, message) {
			t.Errorf("Ready is %s %s %q, want False %s with %q", ready.Status, ready.Reason, ready.Message, reason, message)
		}
		if !strings.Contains(d.Status.ErrorDescription, message) {
			t.Errorf("errorDescription %q, want %q in it", d.Status.ErrorDescription, message)
		}
		if d.Event == nil || d.Event.Reason != reason {
			t.Errorf("notice %v, want one with reason %s", d.Event, reason)
		}
	}
}

func hooksOf(names ...string) []executionv1.HookStatus {
	var g []executionv1.HookStatus
	for _, n := range names {
		g = append(g, executionv1.HookStatus{HookName: n, State: executionv1.HookStateInProgress, JobName: "job-" + n, Type: executionv1.ReadOnly})
	}
	return g
}
