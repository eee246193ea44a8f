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
	// MissingKindGrace is how long a missing ScanType or ParseDefinition is waited for.
	MissingKindGrace time.Duration
	// CleanupDeadline is how long the deletion of a Scan waits for its pods and for
	// the storage before it lets the Scan go.
	CleanupDeadline time.Duration
	// StatusLinks says whether presigned links are written into the status.
	StatusLinks bool
	// Namespaces are the only ones that the operator works in; none means all.
	Namespaces []string
}

// Observation is all that Decide may look at.
type Observation struct {
	Now      time.Time
	Settings Settings
	// Tenant is what the settings of the Scan's namespace say; nil where there are none.
	Tenant *settings.Effective
	// Scan has the status that the operator believes, see [Believe].
	Scan *executionv1.Scan
	// Found is the status that the API server has, Forged says that it is another one. Lowered
	// says that it claims results that no Job shows.
	Found           *executionv1.ScanStatus
	Forged, Lowered bool
	// Outage says why object storage could not be used a moment ago; "" where it could.
	Outage string
	// StorageError says how it has failed this very pass; "" where it has not.
	StorageError string
	// OwnsFolder says whether all that lies below one folder in storage is the Scan's, so that further files there go
	// with it.
	OwnsFolder bool
	// Jobs are those of this Scan's UID, in any namespace.
	Jobs []Job

	// Turn is where the Scan stands in the queue.
	Turn Turn

	// Known are the needs that were read. What follows is read only where a row needs it.
	Known Needs

	ScanType   *executionv1.ScanTypeSpec
	Definition *executionv1.ParseDefinitionSpec
	Hooks      []Hook
	// Missing says which of the above does not exist, and what to do, in the user's words; "" where all that is needed
	// is there.
	Missing string

	// HasRawResult and HasFindings are looked up only where the Job that makes them
	// is gone.
	HasRawResult, HasFindings bool
	// StoredRaw and StoredFindings are results of any run. They are looked up only where
	// the annotation of a Scan that has ended asks for what needs them.
	StoredRaw, StoredFindings bool
	// Canceller is who has set spec.cancel. It is looked up only to say so.
	Canceller string
}

// Hook is a hook that the Scan selects.
type Hook struct {
	Name string
	Spec *executionv1.ScanCompletionHookSpec
	// ExecutionNamespace is where it runs; empty means the namespace of the Scan.
	ExecutionNamespace string
	// Tenant is what the settings of the namespace say in which it runs; nil where there are none.
	Tenant *settings.Effective
}

// Turn is what the queue says of a Scan.
type Turn struct {
	// Wait says that the Scan may not begin yet.
	Wait bool
	// OutOfTurn says that it goes ahead of others.
	OutOfTurn bool
	// Limited says that there are limits, so that Scans may have to wait.
	Limited bool
	// Waits says that the Scan is known to wait for its turn.
	Waits bool
	// Delegated says that Kueue holds the Jobs of the Scan back, and not this queue.
	Delegated bool
	// Report is where the Scan stands, if that is to be written; nil leaves what is.
	Report *fair.Standing
}

// Cause is what keeps a phase from going on, as a condition's reason and message.
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

// Trust puts what the operator knows of a Scan in the place of what its status says.
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
