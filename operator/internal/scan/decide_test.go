// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

var testSettings = Settings{
	StartDeadline: time.Hour, ScannerDeadline: 24 * time.Hour, ParserDeadline: 6 * time.Hour, HookDeadline: 2 * time.Hour,
	MissingKindGrace: 30 * time.Second, CleanupDeadline: 10 * time.Minute, StatusLinks: true,
}

// observation starts from a Scan two minutes old, whose ScanType and ParseDefinition exist.
func observation(scan *executionv1.Scan, changes ...func(*observed)) *observed {
	o := &observed{
		now: gen.Epoch.Add(2 * time.Minute), settings: testSettings, scan: scan,
		scanType: gen.ScanTypeSpec(), definition: &executionv1.ParseDefinitionSpec{Image: "parser"},
	}
	for _, c := range changes {
		c(o)
	}
	return o
}

func withJob(r role, out outcome, changes ...func(*job)) func(*observed) {
	return func(o *observed) {
		j := job{name: "job-" + r.jobType + r.hook, namespace: gen.Namespace, role: r, attempt: 1, created: gen.Epoch, started: gen.Epoch, outcome: out}
		if out != running {
			j.finished = gen.Epoch.Add(time.Minute)
		}
		if out == failed {
			j.failure = "BackoffLimitExceeded: it failed"
		}
		for _, c := range changes {
			c(&j)
		}
		o.jobs = append(o.jobs, j)
	}
}

func withMissing(kind string) func(*observed) {
	return func(o *observed) {
		o.missing = &catalog.NotFoundError{Kind: kind, Name: "x", Advice: "; install it"}
	}
}

func withRawResult(o *observed) { o.hasRawResult = true }
func withFindings(o *observed)  { o.hasFindings = true }
func withoutTurn(o *observed)   { o.admission = admission{wait: true, limited: true} }

// TestDecideEveryStateAndObservation walks through every state on the wire and
// everything that the Jobs can show. The step says what decide made of it; "Hooks"
// with no hooks ends the Scan.
func TestDecideEveryStateAndObservation(t *testing.T) {
	type row struct {
		see  string
		with []func(*observed)
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
		{"ScannerRuns", list(withJob(scannerRole, running)), [8]string{"ScannerRuns", "ScannerRuns", "ScannerRuns", "ParserLost", h, h, s, s}},
		{"ScannerComplete", list(withJob(scannerRole, complete)), [8]string{"Scanned", "Scanned", "Scanned", "ParserLost", h, h, s, s}},
		{
			"ScannerCompleteNoParser", list(withJob(scannerRole, complete), withMissing("ParseDefinition")),
			[8]string{"ScannedButNoParser", "ScannedButNoParser", "ScannedButNoParser", "ParserLost", h, h, s, s},
		},
		{"ScannerFailed", list(withJob(scannerRole, failed)), [8]string{"ScannerFailed", "ScannerFailed", "ScannerFailed", "ParserLost", h, h, s, s}},
		{
			"ScannerOverdue", list(withJob(scannerRole, running, startedAgo(25*time.Hour))),
			[8]string{"ScannerOverdue", "ScannerOverdue", "ScannerOverdue", "ParserLost", h, h, s, s},
		},
		{
			"ParserRuns", list(withJob(scannerRole, complete), withJob(parserRole, running)),
			[8]string{"ParserRuns", "ParserRuns", "ParserRuns", "ParserRuns", h, h, s, s},
		},
		{
			"ParserComplete", list(withJob(scannerRole, complete), withJob(parserRole, complete)),
			[8]string{"Parsed", "Parsed", "Parsed", "Parsed", h, h, s, s},
		},
		{
			"ParserFailed", list(withJob(scannerRole, complete), withJob(parserRole, failed)),
			[8]string{"ParserFailed", "ParserFailed", "ParserFailed", "ParserFailed", h, h, s, s},
		},
		{
			"ParserOverdue", list(withJob(scannerRole, complete), withJob(parserRole, running, startedAgo(7*time.Hour))),
			[8]string{"ParserOverdue", "ParserOverdue", "ParserOverdue", "ParserOverdue", h, h, s, s},
		},
		{"ParserCompleteScannerGone", list(withJob(parserRole, complete)), [8]string{"Parsed", "Parsed", "Parsed", "Parsed", h, h, s, s}},
		{
			"HookRuns", list(withJob(scannerRole, complete), withJob(parserRole, complete), withJob(hookRole("a"), running)),
			[8]string{h, h, h, h, h, h, s, s},
		},
	}
	for _, r := range rows {
		for i, state := range states {
			t.Run(fmt.Sprintf("%s/%s", r.see, orNew(state)), func(t *testing.T) {
				o := observation(gen.Scan("s", gen.WithState(state)), r.with...)
				got := decide(o)
				if got.step != r.want[i] {
					t.Errorf("step %q, want %q", got.step, r.want[i])
				}
				checkInvariants(t, o, got)
			})
		}
	}
}

// checkInvariants holds for every decision.
func checkInvariants(t *testing.T, o *observed, d decision) {
	t.Helper()
	if d.status == nil {
		return
	}
	if o.scan.Settled() && d.status.State != o.scan.Status.State && !wantsRerun(o) {
		t.Errorf("a settled Scan became %q", d.status.State)
	}
	if phases[d.status.State] < phases[o.scan.Status.State] && !settledState(d.status) && !wantsRerun(o) {
		t.Errorf("the state went back from %q to %q", o.scan.Status.State, d.status.State)
	}
	if settledState(d.status) != (d.status.FinishedAt != nil) {
		t.Errorf("state %q with finishedAt %v", d.status.State, d.status.FinishedAt)
	}
	if ready := findCondition(d.status.Conditions, executionv1.ConditionReady); ready == nil || ready.Reason == "" || ready.Message == "" {
		t.Errorf("condition Ready is %v", ready)
	}
	if d.status.State == executionv1.ScanStateErrored && d.status.ErrorDescription == "" && !o.scan.Settled() {
		t.Error("Errored without errorDescription")
	}
	if len(d.launch) > 0 && settledState(d.status) && !hasFailureHooks(o) {
		t.Error("a settled Scan starts a Job")
	}
	// A Scan that ends gives its account back, not before and not later.
	ends := settledState(d.status) && !hasOpenFailureHook(d.status.OrderedHookStatuses)
	was := o.scan.Settled() && !hasFailureHooks(o)
	if ends && !was && !d.releaseAccess || d.releaseAccess && !ends {
		t.Errorf("step %s from %q to %q releases the account: %t", d.step, o.scan.Status.State, d.status.State, d.releaseAccess)
	}
}

// TestDecideIsStable applies each decision's status and decides again: nothing may
// change any more as long as nothing else does, though the clock goes on.
func TestDecideIsStable(t *testing.T) {
	cases := map[string]*observed{
		"Running":   observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), withJob(scannerRole, running)),
		"Trouble":   observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), withJob(scannerRole, running, withTrouble)),
		"Missing":   observation(gen.Scan("s"), withMissing("ScanType")),
		"NoParser":  observation(gen.Scan("s"), withJob(scannerRole, complete), withMissing("ParseDefinition")),
		"Suspended": observation(gen.Scan("s", gen.Suspended)),
		"Hooks": observation(gen.Scan("s", gen.WithState(executionv1.ScanStateHookProcessing), gen.WithHooks(hooksOf("a"))),
			withJob(parserRole, complete), withJob(hookRole("a"), running)),
		"Done":    observation(gen.Scan("s", gen.WithState(executionv1.ScanStateDone))),
		"Errored": observation(gen.Scan("s", gen.WithState(executionv1.ScanStateErrored))),
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			first := decide(o)
			o.scan.Status = *first.status.DeepCopy()
			o.now = o.now.Add(5 * time.Second)
			second := decide(o)
			if second.status == nil {
				return
			}
			if diff := diffStatus(first.status, second.status); diff != "" {
				t.Errorf("the second pass would write again (-first +second):\n%s", diff)
			}
			if second.notice != nil {
				t.Errorf("the second pass sends an Event again: %v", second.notice)
			}
		})
	}
}

func TestDecideBeforeTheFirstJob(t *testing.T) {
	cases := map[string]struct {
		reason string
		scan   *executionv1.Scan
		with   []func(*observed)
		step   string
		check  func(*testing.T, decision)
	}{
		"FinalizerFirst": {
			"nothing is started that nobody would clean up", gen.Scan("s", without(executionv1.FinalizerStorage)), nil, "FinalizerMissing",
			func(t *testing.T, d decision) {
				if !d.addFinalizer || d.status != nil || len(d.launch) > 0 {
					t.Errorf("decision %+v, want the finalizer alone", d)
				}
			},
		},
		"SuspendedStartsNothing": {"suspend holds a Scan where it is", gen.Scan("s", gen.Suspended), nil, "Suspended", wantLaunch()},
		"SuspendedRunsOn": {
			"Jobs that run go on, nothing advances", gen.Scan("s", gen.Suspended, gen.WithState(executionv1.ScanStateScanning)),
			list(withJob(scannerRole, complete)), "Suspended", wantLaunch(),
		},
		"EmptySpec": {
			"a Scan without a spec is accepted by the API server, and can never run", gen.Scan("s", func(s *executionv1.Scan) { s.Spec = executionv1.ScanSpec{} }),
			nil, "InvalidSpec", wantError(executionv1.ReasonInvalidSpec, "spec.scanType"),
		},
		"BadSelector": {"the user hears which field is wrong", gen.Scan("s", func(s *executionv1.Scan) {
			s.Spec.HookSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Is"}}}
		}), nil, "InvalidSpec", wantError(executionv1.ReasonInvalidSpec, "spec.hookSelector")},
		"NoContainer": {
			"stored before the CRD required it", gen.Scan("s"), list(func(o *observed) { o.scanType.JobTemplate.Spec.Template.Spec.Containers = nil }),
			"InvalidScanType", wantError(executionv1.ReasonInvalidScanType, "containers is empty"),
		},
		"OutsideResults": {
			"the lurker could not read it", gen.Scan("s"), list(func(o *observed) { o.scanType.ExtractResults.Location = "/tmp/x" }),
			"InvalidScanType", wantError(executionv1.ReasonInvalidScanType, "/tmp/x"),
		},
		"Start": {"the scanner is started and the state says so", gen.Scan("s"), nil, "Start", wantLaunch(scannerRole)},
		"MissingWaits": {
			"the ScanType may come a moment later", gen.Scan("s"), list(withMissing("ScanType")), "NoScanType",
			func(t *testing.T, d decision) {
				if d.status.State != executionv1.ScanStateNew || d.requeueAfter != testSettings.MissingKindGrace {
					t.Errorf("state %q, again in %s; want to wait for %s", d.status.State, d.requeueAfter, testSettings.MissingKindGrace)
				}
			},
		},
		"MissingTooLong": {
			"waiting has an end", gen.Scan("s", waitingSince(executionv1.ReasonScanTypeNotFound, time.Minute)), list(withMissing("ScanType")), "NoScanType",
			wantError(executionv1.ReasonScanTypeNotFound, "install it"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observation(tc.scan, tc.with...)
			d := decide(o)
			if d.step != tc.step {
				t.Errorf("%s: step %q, want %q", tc.reason, d.step, tc.step)
			}
			checkInvariants(t, o, d)
			tc.check(t, d)
		})
	}
}

func TestDecideRunningJob(t *testing.T) {
	scanning := func(options ...func(*executionv1.Scan)) *executionv1.Scan {
		return gen.Scan("s", append(options, gen.WithState(executionv1.ScanStateScanning))...)
	}
	cases := map[string]struct {
		reason   string
		scan     *executionv1.Scan
		with     []func(*observed)
		wantWhy  string
		wantTime time.Duration
	}{
		"Fine":       {"only its deadline is waited for", scanning(), list(withJob(scannerRole, running)), executionv1.ReasonRunning, 24*time.Hour - 2*time.Minute},
		"OwnBound":   {"a Scan has its own deadline", scanning(withDeadline(600)), list(withJob(scannerRole, running)), executionv1.ReasonRunning, 8 * time.Minute},
		"NoPodYet":   {"pods that a quota keeps out show in Events only", scanning(), list(withJob(scannerRole, running, noPod)), executionv1.ReasonRunning, 10 * lookForPods},
		"Trouble":    {"the reason is shown", scanning(), list(withJob(scannerRole, running, withTrouble)), executionv1.ReasonImagePull, 58 * time.Minute},
		"JobSuspend": {"a queue holds the Job; the deadline of starting does not count", scanning(), list(withJob(scannerRole, running, noPod, func(j *job) { j.suspended = true })), executionv1.ReasonJobSuspended, 24*time.Hour - 2*time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(tc.scan, tc.with...))
			if got := findCondition(d.status.Conditions, executionv1.ConditionScanned).Reason; got != tc.wantWhy {
				t.Errorf("%s: reason %q, want %q", tc.reason, got, tc.wantWhy)
			}
			if d.requeueAfter != tc.wantTime {
				t.Errorf("%s: again in %s, want %s", tc.reason, d.requeueAfter, tc.wantTime)
			}
		})
	}
}

func TestDecideOverdue(t *testing.T) {
	cases := map[string]struct {
		reason string
		with   func(*observed)
		want   string
	}{
		"NeverStarted": {
			"an image that cannot be pulled ends the Scan, and the message says what kept it",
			withJob(scannerRole, running, withTrouble, pendingAgo(2*time.Hour)), "did not start within its deadline of 1h0m0s: The image",
		},
		"NeverEnded": {"a scanner that hangs ends the Scan", withJob(scannerRole, running, startedAgo(25*time.Hour)), "did not end within its deadline of 24h0m0s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), tc.with))
			wantError(executionv1.ReasonDeadlineExceeded, tc.want)(t, d)
			if len(d.stop) != 1 {
				t.Errorf("%s: stops %v, want the Job", tc.reason, d.stop)
			}
		})
	}
}

func TestDecideFailureKeepsWhatWasKnown(t *testing.T) {
	scan := gen.Scan("s", gen.WithState(executionv1.ScanStateScanning), waitingWith(executionv1.ConditionScanned, executionv1.ReasonContainerFailing, "Container \"nmap\" fails"))
	d := decide(observation(scan, withJob(scannerRole, failed)))
	wantError(executionv1.ReasonScannerFailed, "BackoffLimitExceeded: it failed; before that: Container \"nmap\" fails")(t, d)
}

func TestDecideEnd(t *testing.T) {
	ttl := func(seconds int32) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) { s.Spec.TTLSecondsAfterFinished = &seconds }
	}
	done, errored := gen.WithState(executionv1.ScanStateDone), gen.WithState(executionv1.ScanStateErrored)
	cases := map[string]struct {
		reason  string
		scan    *executionv1.Scan
		step    string
		deletes bool
		again   time.Duration
	}{
		"NoTTL":         {"it is kept", gen.Scan("s", done), "Settled", false, 0},
		"TTLNotYet":     {"the rest of the time is waited for, not all of it", gen.Scan("s", done, ttl(90)), "Settled", false, 30 * time.Second},
		"TTLOver":       {"it is deleted", gen.Scan("s", errored, ttl(60)), "Expired", true, 0},
		"TTLZero":       {"it is deleted at once", gen.Scan("s", done, ttl(0)), "Expired", true, 0},
		"TTLSuspended":  {"suspend does not keep a Scan that has ended", gen.Scan("s", done, ttl(0), gen.Suspended), "Expired", true, 0},
		"FinishedWiped": {"a client that removes finishedAt does not have it deleted early", gen.Scan("s", done, ttl(60), func(s *executionv1.Scan) { s.Status.FinishedAt = nil }), "Settled", false, time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(tc.scan))
			if d.step != tc.step || d.deleteScan != tc.deletes || d.requeueAfter != tc.again {
				t.Errorf("%s: step %q, deletes %t, again in %s; want %q, %t, %s", tc.reason, d.step, d.deleteScan, d.requeueAfter, tc.step, tc.deletes, tc.again)
			}
		})
	}
}

func TestDecideOutage(t *testing.T) {
	o := observation(gen.Scan("s"))
	d := decideOutage(o, "presign PUT: Get https://s3/b?X-Amz-Signature=abc: connection refused")
	ready := findCondition(d.status.Conditions, executionv1.ConditionReady)
	if ready.Reason != executionv1.ReasonStorageUnavailable || strings.Contains(ready.Message, "abc") || !strings.Contains(ready.Message, "connection refused") || d.notice == nil {
		t.Errorf("Ready is %+v, notice %v", ready, d.notice)
	}
	o.scan.Status = *d.status
	if again := decideOutage(o, "presign PUT: Get https://s3/b?X-Amz-Signature=def: connection refused"); again.notice != nil || diffStatus(d.status, again.status) != "" {
		t.Error("the next try writes and tells again")
	}
	if d := decideOutage(observation(gen.Scan("s", gen.WithState(executionv1.ScanStateDone))), "x"); d.status != nil {
		t.Error("a Scan that has ended is written")
	}
}

func TestDecideDeletion(t *testing.T) {
	away := func(j *job) { j.namespace = "hooks" }
	cases := map[string]struct {
		reason       string
		scan         *executionv1.Scan
		with         []func(*observed)
		deletes      int
		removeStored bool
		release      bool
		revokes      int
	}{
		"NothingRuns": {"storage is cleaned", gen.Scan("s", gen.Deleted), list(withJob(scannerRole, complete)), 0, true, false, 0},
		"ScannerRuns": {"what still runs could upload afterwards", gen.Scan("s", gen.Deleted), list(withJob(scannerRole, running)), 1, false, false, 0},
		"Suspended":   {"a suspended Scan can be deleted", gen.Scan("s", gen.Deleted, gen.Suspended), nil, 0, true, false, 0},
		"Foreign":     {"nothing collects Jobs in another namespace", gen.Scan("s", gen.Deleted), list(withJob(hookRole("a"), complete, away)), 1, false, false, 1},
		"TooLong":     {"deletion is never blocked for ever", gen.Scan("s", gen.Deleted), list(atAge(time.Hour), withJob(scannerRole, running)), 1, true, true, 0},
		"Retain":      {"results are kept on request", gen.Scan("s", gen.Deleted, retain), nil, 0, false, true, 0},
		"Legacy":      {"the finalizer of old versions means the same", gen.Scan("s", gen.Deleted, legacyFinalizer), nil, 0, true, false, 0},
		"NotOurs":     {"without our finalizer there is nothing to do", gen.Scan("s", gen.Deleted, without(executionv1.FinalizerStorage)), nil, 0, false, false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(tc.scan, tc.with...))
			if d.step != "Deleted" || len(d.launch) > 0 || d.status != nil {
				t.Errorf("%s: decision %+v does more than clean up", tc.reason, d)
			}
			if len(d.deleteJobs) != tc.deletes || d.removeStored != tc.removeStored || d.release != tc.release || len(d.revoke) != tc.revokes {
				t.Errorf("%s: deletes %d Jobs, removeStored %t, release %t, revokes %d; want %d, %t, %t, %d", tc.reason,
					len(d.deleteJobs), d.removeStored, d.release, len(d.revoke), tc.deletes, tc.removeStored, tc.release, tc.revokes)
			}
		})
	}
}

// --- helpers ---

func list(f ...func(*observed)) []func(*observed) { return f }

func orNew(s executionv1.ScanState) string {
	if s == "" {
		return "New"
	}
	return string(s)
}

func startedAgo(d time.Duration) func(*job) {
	return func(j *job) { j.created, j.started = gen.Epoch.Add(2*time.Minute-d), gen.Epoch.Add(2*time.Minute-d) }
}

func pendingAgo(d time.Duration) func(*job) {
	return func(j *job) {
		j.created, j.pendingSince = gen.Epoch.Add(2*time.Minute-d), gen.Epoch.Add(2*time.Minute-d)
	}
}

func withTrouble(j *job) {
	j.pendingSince = gen.Epoch
	j.trouble = &trouble{executionv1.ReasonImagePull, "The image cannot be pulled."}
}

func noPod(j *job) { j.noPod, j.pendingSince = true, gen.Epoch }

func atAge(d time.Duration) func(*observed) {
	return func(o *observed) { o.now = gen.Epoch.Add(d) }
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
			LastTransitionTime: metav1.Time{Time: gen.Epoch.Add(2*time.Minute - ago)},
		}}
	}
}

func waitingWith(kind, reason, message string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}}
	}
}

func wantLaunch(roles ...role) func(*testing.T, decision) {
	return func(t *testing.T, d decision) {
		t.Helper()
		var got []role
		for _, l := range d.launch {
			got = append(got, l.role)
		}
		if fmt.Sprint(got) != fmt.Sprint(roles) {
			t.Errorf("launches %v, want %v", got, roles)
		}
	}
}

func wantError(reason, message string) func(*testing.T, decision) {
	return func(t *testing.T, d decision) {
		t.Helper()
		if d.status == nil || d.status.State != executionv1.ScanStateErrored {
			t.Fatalf("decision %+v does not end the Scan", d)
		}
		ready := findCondition(d.status.Conditions, executionv1.ConditionReady)
		if ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, message) {
			t.Errorf("Ready is %s %s %q, want False %s with %q", ready.Status, ready.Reason, ready.Message, reason, message)
		}
		if !strings.Contains(d.status.ErrorDescription, message) {
			t.Errorf("errorDescription %q, want %q in it", d.status.ErrorDescription, message)
		}
		if d.notice == nil || d.notice.reason != reason {
			t.Errorf("notice %v, want one with reason %s", d.notice, reason)
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
