// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
)

// Settings are what cluster admins choose for all Scans.
type Settings struct {
	// Deadlines hold where a Scan sets none.
	StartDeadline   time.Duration
	ScannerDeadline time.Duration
	ParserDeadline  time.Duration
	HookDeadline    time.Duration
	// MissingKindGrace is how long a missing ScanType or ParseDefinition is waited for.
	MissingKindGrace time.Duration
	// CleanupDeadline is how long the deletion of a Scan waits for its pods and for
	// the storage before it lets the Scan go.
	CleanupDeadline time.Duration
	// StatusLinks says whether presigned links are written into the status.
	StatusLinks bool
}

// observed is all that decide may look at.
type observed struct {
	now      time.Time
	settings Settings
	// tenant is what the settings of the Scan's namespace say; nil where there are none.
	tenant *tenancy.Effective
	scan   *executionv1.Scan
	// jobs are those of this Scan's UID, in any namespace.
	jobs []job

	// What the Scan needs next. Only what the phase asks for is looked up.
	scanType   *executionv1.ScanTypeSpec
	definition *executionv1.ParseDefinitionSpec
	hooks      []catalog.Hook
	// missing says which of the above does not exist, in the user's words.
	missing *catalog.NotFoundError

	// hasRawResult and hasFindings are looked up only where the Job that makes them
	// is gone.
	hasRawResult, hasFindings bool
	// admission is what the Gate says of a Scan that could begin. It is asked for nothing
	// else but whether Kueue holds the Jobs of the Scan back.
	admission admission
	// storedRaw and storedFindings are results of any run. They are looked up only where
	// the annotation of a Scan that has ended asks for what needs them.
	storedRaw, storedFindings bool
	// canceller is who has set spec.cancel. It is looked up only to say so.
	canceller string
}

// role is what a Job does for a Scan.
type role struct {
	// jobType is one of the JobType constants; both hook types read as JobTypeReadOnlyHook,
	// since the type of a hook may change while its Job runs.
	jobType string
	// hook is the name of the hook, as a label value.
	hook string
}

var (
	scannerRole = role{jobType: executionv1.JobTypeScanner}
	parserRole  = role{jobType: executionv1.JobTypeParser}
)

func hookRole(label string) role {
	return role{jobType: executionv1.JobTypeReadOnlyHook, hook: label}
}

// outcome is how a Job ended.
type outcome int

const (
	// running means that it has not ended.
	running outcome = iota
	complete
	failed
)

// job is what matters of a Job.
type job struct {
	name, namespace string
	role            role
	// attempt is the number of the run that it belongs to, from 1.
	attempt int
	// rerun is the annotation that it was made for; "" in the first run.
	rerun    string
	created  time.Time
	started  time.Time // zero: the Job controller has not started it
	finished time.Time // zero: it has not ended
	outcome  outcome
	// failure says why it failed: the Job's own words and those of its pods.
	failure string
	// deleted is when it was asked to go; zero while nobody has.
	deleted time.Time
	// suspended means that spec.suspend of the Job is true.
	suspended bool
	// pendingSince is set while the Job waits for its containers to start.
	pendingSince time.Time
	// trouble is why its containers do not start; nil while nothing is wrong.
	trouble *trouble
	// noPod means that the Job has no pod yet.
	noPod bool
	// podGone means that the Job has had a pod and has none.
	podGone bool
	// failedPods is how many of its pods have failed so far.
	failedPods int32
}

// trouble is what keeps a phase from going on, as a condition's reason and message.
type trouble struct{ reason, message string }

// phase is how far a Scan has come.
type phase int

const (
	phaseNew phase = iota
	phaseScanning
	phaseScanned
	phaseParsing
	phaseParsed
	phaseHooks
)

// phases tells the phase that each state on the wire stands for.
var phases = map[executionv1.ScanState]phase{
	executionv1.ScanStateNew:                              phaseNew,
	executionv1.ScanStateScanning:                         phaseScanning,
	executionv1.ScanStateScanCompleted:                    phaseScanned,
	executionv1.ScanStateParsing:                          phaseParsing,
	executionv1.ScanStateParseCompleted:                   phaseParsed,
	executionv1.ScanStateHookProcessing:                   phaseHooks,
	executionv1.ScanStateLegacyReadAndWriteHookProcessing: phaseHooks,
	executionv1.ScanStateLegacyReadAndWriteHookCompleted:  phaseHooks,
	executionv1.ScanStateLegacyReadOnlyHookProcessing:     phaseHooks,
}

// phaseOf returns how far an unsettled Scan has come: the farther of what its status
// says and what its Jobs show. A state that nobody knows counts as none.
func phaseOf(scan *executionv1.Scan, jobs []job) phase {
	p := phases[scan.Status.State]
	runs := runsOf(scan, jobs)
	for _, j := range jobs {
		if !runs.counts(j) {
			continue
		}
		switch j.role.jobType {
		case executionv1.JobTypeScanner:
			p = max(p, phaseScanning)
		case executionv1.JobTypeParser:
			p = max(p, phaseParsing)
		default:
			p = max(p, phaseHooks)
		}
	}
	return p
}

// jobOf sums up the Jobs of the last attempt of one role; false where there is none.
// There is one, unless secureCodeBox's operator has made several by mistake: then one
// failure is a failure, and all have to be complete.
func (o *observed) jobOf(r role) (job, bool) {
	var sum job
	found := false
	last := o.lastAttempt(r)
	for _, j := range o.jobs {
		if j.role != r || j.attempt != last {
			continue
		}
		switch {
		case !found, j.outcome == failed:
			sum = j
		case sum.outcome == complete && j.outcome == running:
			sum = j
		}
		found = true
	}
	return sum, found
}

// lastAttempt is the highest attempt of a role that there is a Job of which counts; 0 where
// there is none.
func (o *observed) lastAttempt(r role) int {
	last, runs := 0, o.runs()
	for _, j := range o.jobs {
		if j.role == r && runs.counts(j) {
			last = max(last, j.attempt)
		}
	}
	return last
}

// deadlines returns the Scan's own, never nil.
func (o *observed) deadlines() executionv1.Deadlines {
	if o.scan.Spec.Deadlines == nil {
		return executionv1.Deadlines{}
	}
	return *o.scan.Spec.Deadlines
}

// phaseDeadline returns the bound of the phase that a Job runs.
func (o *observed) phaseDeadline(r role) time.Duration {
	d := o.deadlines()
	switch r.jobType {
	case executionv1.JobTypeScanner:
		return o.bounds().Scanner.For(d.ScannerSeconds)
	case executionv1.JobTypeParser:
		return o.bounds().Parser.For(d.ParserSeconds)
	default:
		return o.bounds().Hook.For(d.HookSeconds)
	}
}

// overdue says whether a running Job has passed a bound, and which; else how long it
// is until it may.
func (o *observed) overdue(j job) (why string, left time.Duration) {
	if o.admission.aside && (j.suspended || j.started.IsZero()) {
		return "", o.phaseDeadline(j.role) // its time begins when Kueue lets it go
	}
	began := j.created
	if !j.started.IsZero() {
		began = j.started
	}
	bound := o.phaseDeadline(j.role)
	left = began.Add(bound).Sub(o.now)
	if left <= 0 {
		return "did not end within its deadline of " + bound.String(), 0
	}
	if j.suspended || j.pendingSince.IsZero() {
		return "", left
	}
	start := o.startDeadline()
	untilStart := j.pendingSince.Add(start).Sub(o.now)
	if untilStart <= 0 {
		return "did not start within its deadline of " + start.String(), 0
	}
	return "", min(left, untilStart)
}
