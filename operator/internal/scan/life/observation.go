// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/settings"
)

// Settings are what cluster admins choose for all Scans.
type Settings struct {
	// Deadlines hold where a Scan sets none.
	StartDeadline   time.Duration
	ScannerDeadline time.Duration
	ParserDeadline  time.Duration
	HookDeadline    time.Duration
	// MissingKindGrace is how long a Scan waits for a missing ScanType or ParseDefinition.
	MissingKindGrace time.Duration
	// CleanupDeadline bounds how long the deletion of a Scan waits for its pods and for
	// storage.
	CleanupDeadline time.Duration
	// StatusLinks is true if presigned links are written into the status.
	StatusLinks bool
	// Namespaces are those that the operator works in; an empty list means all.
	Namespaces []string
}

// Observation is everything that Decide reads.
type Observation struct {
	Now      time.Time
	Settings Settings
	// Tenant are the settings in force for the Scan's namespace; nil: there are none.
	Tenant *settings.Effective
	// Scan has the status that the operator believes, see [Believe].
	Scan *executionv1.Scan
	// Found is the status that the API server has. Forged is true if it differs from the believed
	// one, Lowered if it claims results that no Job shows.
	Found           *executionv1.ScanStatus
	Forged, Lowered bool
	// Outage is why the last check of object storage failed; "": it did not.
	Outage string
	// StorageError is the error of object storage in this pass; "": there was none.
	StorageError string
	// OwnsFolder is true if every file below one folder in storage belongs to the Scan, so that further files there are
	// removed with it.
	OwnsFolder bool
	// Jobs are the Jobs of this Scan's UID, in any namespace.
	Jobs []Job
	// Unbegun is true if it is certain that no Job of the Scan was ever made: it was born under this operator, see
	// [IsBornUnder], and this operator has not tried to begin it.
	Unbegun bool

	// Turn is the Scan's place in the queue.
	Turn Turn

	// Known are the needs that were read. The fields below are read only if a row needs them.
	Known Needs

	ScanType   *executionv1.ScanTypeSpec
	Definition *executionv1.ParseDefinitionSpec
	Hooks      []Hook
	// Missing tells the user which of the above does not exist, and what to do; "": nothing that is needed is
	// missing.
	Missing string

	// HasRawResult and HasFindings are looked up only if the Job that makes the file
	// is gone, or failed after it may have made the file.
	HasRawResult, HasFindings bool
	// StoredRaw and StoredFindings are results of any run. They are looked up only if an
	// annotation of an ended Scan asks for a re-run that needs them.
	StoredRaw, StoredFindings bool
	// Canceller is the user who set spec.cancel. It is looked up only for messages.
	Canceller string
}

// Hook is a hook that the Scan selects.
type Hook struct {
	Name string
	Spec *executionv1.ScanCompletionHookSpec
	// ExecutionNamespace is the namespace of the hook's Job; empty: that of the Scan.
	ExecutionNamespace string
	// Tenant are the settings in force for the namespace of the hook's Job; nil: there are none.
	Tenant *settings.Effective
}

// Turn is the queue's answer about a Scan.
type Turn struct {
	// Wait is true if the Scan may not begin yet.
	Wait bool
	// OutOfTurn is true if the Scan goes ahead of others.
	OutOfTurn bool
	// Limited is true if there are limits, so that Scans may have to wait.
	Limited bool
	// Waits is true if the Scan waits for its turn.
	Waits bool
	// Delegated is true if Kueue, and not this queue, holds back the Jobs of the Scan.
	Delegated bool
	// Report is the place to write into the status; nil: the status stays as it is.
	Report *fair.Standing
}

// Cause is why a phase waits or failed: the reason and message of a condition.
type Cause struct{ Reason, Message string }

// Phase is how far a Scan has come.
type Phase int

// The phases, in their order.
const (
	PhaseNew Phase = iota
	PhaseScanning
	PhaseScanned
	PhaseParsing
	phaseParsed
	PhaseHooks
)

// phases tells the phase that each state on the wire stands for.
var phases = map[executionv1.ScanState]Phase{
	executionv1.ScanStateNew:                              PhaseNew,
	executionv1.ScanStateScanning:                         PhaseScanning,
	executionv1.ScanStateScanCompleted:                    PhaseScanned,
	executionv1.ScanStateParsing:                          PhaseParsing,
	executionv1.ScanStateParseCompleted:                   phaseParsed,
	executionv1.ScanStateHookProcessing:                   PhaseHooks,
	executionv1.ScanStateLegacyReadAndWriteHookProcessing: PhaseHooks,
	executionv1.ScanStateLegacyReadAndWriteHookCompleted:  PhaseHooks,
	executionv1.ScanStateLegacyReadOnlyHookProcessing:     PhaseHooks,
}

// Trust replaces the status of the observed Scan by the status that the operator believes.
func (o *Observation) Trust(s *executionv1.ScanStatus) {
	o.Forged = IsForged(o.Found, s)
	o.Scan.Status = *s
}

// HasJob says whether a Job of that name was seen.
func (o *Observation) HasJob(name string) bool {
	for _, j := range o.Jobs {
		if j.Name == name {
			return true
		}
	}
	return false
}

// PhaseOf returns how far an unsettled Scan has come: the farther of what its status
// says and what its Jobs show. A state that nobody knows counts as none.
func PhaseOf(scan *executionv1.Scan, jobs []Job) Phase {
	p := phases[scan.Status.State]
	runs := attemptsOf(scan, jobs)
	for _, j := range jobs {
		if !runs.counts(j) {
			continue
		}
		switch j.Role.JobType {
		case executionv1.JobTypeScanner:
			p = max(p, PhaseScanning)
		case executionv1.JobTypeParser:
			p = max(p, PhaseParsing)
		default:
			p = max(p, PhaseHooks)
		}
	}
	return p
}

// JobOf sums up the Jobs of the last attempt of one role; false where there is none.
// There is one, unless secureCodeBox's operator has made several by mistake: then one
// failure is a failure, and all have to be complete.
func (o *Observation) JobOf(r Role) (Job, bool) {
	var sum Job
	found := false
	last := o.lastAttempt(r)
	for _, j := range o.Jobs {
		if j.Role != r || j.Attempt != last {
			continue
		}
		switch {
		case !found, j.Outcome == Failed:
			sum = j
		case sum.Outcome == Complete && j.Outcome == Running:
			sum = j
		}
		found = true
	}
	return sum, found
}

// lastAttempt is the highest attempt of a role that there is a Job of which counts; 0 where
// there is none.
func (o *Observation) lastAttempt(r Role) int {
	last, runs := 0, o.Attempts()
	for _, j := range o.Jobs {
		if j.Role == r && runs.counts(j) {
			last = max(last, j.Attempt)
		}
	}
	return last
}

// RawResult is how the raw result of the Scan is called and of which type it is: the Jobs of
// the last run say what held when its scanner was started, else the ScanType says what holds
// now. The zero Result where neither is known. The status is not asked: pods may write it.
func (o *Observation) RawResult() jobs.Result {
	var result jobs.Result
	last := 0
	for _, j := range o.Jobs {
		if j.Result != (jobs.Result{}) && j.Attempt > last {
			result, last = j.Result, j.Attempt
		}
	}
	if last == 0 && o.ScanType != nil {
		result = jobs.ResultOf(o.ScanType)
	}
	return result
}

// deadlines returns the Scan's own, never nil.
func (o *Observation) deadlines() executionv1.Deadlines {
	if o.Scan.Spec.Deadlines == nil {
		return executionv1.Deadlines{}
	}
	return *o.Scan.Spec.Deadlines
}

// phaseDeadline returns the bound of the phase that a Job runs.
func (o *Observation) phaseDeadline(r Role) time.Duration {
	d := o.deadlines()
	switch r.JobType {
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
func (o *Observation) overdue(j Job) (why string, left time.Duration) {
	if o.Turn.Delegated && (j.Suspended || j.Started.IsZero()) {
		return "", o.phaseDeadline(j.Role) // its time begins when Kueue lets it go
	}
	began := j.Created
	if !j.Started.IsZero() {
		began = j.Started
	}
	bound := o.phaseDeadline(j.Role)
	left = began.Add(bound).Sub(o.Now)
	if left <= 0 {
		return "did not end within its deadline of " + bound.String(), 0
	}
	if j.Suspended || j.PendingSince.IsZero() {
		return "", left
	}
	start := o.startDeadline()
	untilStart := j.PendingSince.Add(start).Sub(o.Now)
	if untilStart <= 0 {
		return "did not start within its deadline of " + start.String(), 0
	}
	return "", min(left, untilStart)
}
