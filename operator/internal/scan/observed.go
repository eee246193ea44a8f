// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
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
	scan     *executionv1.Scan
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
	// attempt counts the tries of the role, from 1.
	attempt  int
	created  time.Time
	started  time.Time // zero: the Job controller has not started it
	finished time.Time // zero: it has not ended
	outcome  outcome
	// failure says why it failed: the Job's own words and those of its pods.
	failure string
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
	for _, j := range jobs {
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

// lastAttempt is the highest attempt of a role that there is a Job of; 0 where there is none.
func (o *observed) lastAttempt(r role) int {
	last := 0
	for _, j := range o.jobs {
		if j.role == r {
			last = max(last, j.attempt)
		}
	}
	return last
}

// deadline returns the bound of a phase: the Scan's own, else the default.
func deadline(own *int64, fallback time.Duration) time.Duration {
	if own != nil {
		return time.Duration(*own) * time.Second
	}
	return fallback
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
		return deadline(d.ScannerSeconds, o.settings.ScannerDeadline)
	case executionv1.JobTypeParser:
		return deadline(d.ParserSeconds, o.settings.ParserDeadline)
	default:
		return deadline(d.HookSeconds, o.settings.HookDeadline)
	}
}

// overdue says whether a running Job has passed a bound, and which; else how long it
// is until it may.
func (o *observed) overdue(j job) (why string, left time.Duration) {
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
	start := deadline(o.deadlines().StartSeconds, o.settings.StartDeadline)
	untilStart := j.pendingSince.Add(start).Sub(o.now)
	if untilStart <= 0 {
		return "did not start within its deadline of " + start.String(), 0
	}
	return "", min(left, untilStart)
}
