// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/settings"
)

// Decision is what is to be done. The zero decision does nothing.
type Decision struct {
	// Step is the name of the row that was taken, for logs and tests.
	Step string

	// AddFinalizer puts our finalizer in the place of none or of a legacy one, and that of the delivery beside it where
	// there are sinks.
	AddFinalizer bool
	// Create are Jobs to create, after what they need.
	Create []JobRequest
	// Stop are Jobs to suspend, so that their pods end.
	Stop []Job
	// Revoke are the Jobs of hooks whose access from another namespace ends.
	Revoke []Job
	// ReleaseAccess ends the access of the Scan's parser and hooks.
	ReleaseAccess bool
	// Status is what the status should be; nil leaves it.
	Status *executionv1.ScanStatus
	// Links asks to fill in the links that the status lacks.
	Links bool
	// FreshLinks asks to write all links anew.
	FreshLinks bool
	// Event tells the user by an Event; nil where there is nothing new.
	Event *Event
	// LostEvent tells by an Event, once the Scan is let go, that it was deleted before every sink had its results.
	LostEvent *Event
	// AnswerEvent tells by an Event what became of an annotation.
	AnswerEvent *Event

	// ReportedPlace is where the status says that the Scan stands in the queue; nil where it does not.
	ReportedPlace *fair.Standing
	// QueuedEvent tells by an Event that the Scan waits for its turn; nil where that was told.
	QueuedEvent *Event

	// DeleteJobs are Jobs to delete.
	DeleteJobs []Job
	// DeleteScan deletes the Scan.
	DeleteScan bool
	// RemoveResults removes what the Scan has stored, the findings last. The Scan stays.
	RemoveResults bool
	// ForgetReleased takes the annotation away that says that the results were given up: there will be others.
	ForgetReleased bool
	// RemoveStored removes what the Scan has stored, of which RawResultFile is the raw result, then its finalizer.
	RemoveStored  bool
	RawResultFile string
	// Release removes the finalizer though something may be left behind.
	Release bool

	// RequeueAfter is when a clock runs out; zero waits for watches only.
	RequeueAfter time.Duration
}

// JobRequest is a Job to create.
type JobRequest struct {
	Role Role
	// Hook is set for hook Jobs.
	Hook *Hook
	// HookType is the hook's type when it was selected.
	HookType executionv1.HookType
	// Attempt is the number of the run, from 1.
	Attempt int
	// Rerun is the annotation that asks for the run; "" in the first.
	Rerun string
	// Result is what the Scan has stored, or is to store.
	Result jobs.Result
	// Tenant is what the settings of the namespace say in which the Job runs; nil where there are none.
	Tenant *settings.Effective
	// Hooks are, for a parser, the names of those that are to run after it.
	Hooks []string
}

// StartsScanner says whether the first Job of the Scan is to be created.
func (d *Decision) StartsScanner() bool { return len(d.Create) > 0 && d.Create[0].Role == ScannerRole }

// requestOf is a Job for a run of a role, of a Scan with such a status.
func (s *Status) requestOf(o *Observation, r Role, attempt int) JobRequest {
	return JobRequest{Role: r, Attempt: attempt, Rerun: rerunOf(s.ScanStatus, attempt), Result: s.rawResult(), Tenant: o.Tenant}
}

// Event is a warning to the user, as an Event on the Scan.
type Event struct{ Reason, Message string }

// PutBack has the status written that the operator believes, where it is another one and the
// decision needs none.
func (d *Decision) PutBack(o *Observation) {
	if d.Status == nil && o.Forged && !IsDeleted(o) && !d.AddFinalizer && !d.DeleteScan {
		d.Status = NewStatus(o).result()
	}
}

// ConflictRetry is when a Scan that somebody else wrote at the same moment is looked
// at again, should no watch bring it earlier.
const ConflictRetry = 100 * time.Millisecond
