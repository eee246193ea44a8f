// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/settings"
)

// Decision is what act has to do. The zero Decision does nothing.
type Decision struct {
	// Step is the name of the row that was taken, for logs and tests.
	Step string

	// AddFinalizer adds our finalizer, in place of a legacy one if there is one, and the finalizer of delivery if there
	// are sinks.
	AddFinalizer bool
	// Create are the Jobs to create, after the objects that they need.
	Create []JobRequest
	// Stop are the Jobs to suspend, which ends their pods.
	Stop []Job
	// Revoke are the Jobs of hooks whose access from another namespace ends.
	Revoke []Job
	// ReleaseAccess ends the access of the Scan's parser and hooks.
	ReleaseAccess bool
	// Status is the status to write; nil: the status stays as it is.
	Status *executionv1.ScanStatus
	// Links adds the links that the status lacks.
	Links bool
	// FreshLinks replaces all links.
	FreshLinks bool
	// Event is sent to the user; nil: there is nothing new.
	Event *Event
	// LostEvent is sent when the finalizer is removed before every sink had the results of the Scan.
	LostEvent *Event
	// AnswerEvent is sent in answer to an annotation.
	AnswerEvent *Event

	// ReportedPlace is the place in the queue that Status has; nil: Status has none.
	ReportedPlace *fair.Standing
	// QueuedEvent is sent when the Scan begins to wait for its turn; nil: it was sent before.
	QueuedEvent *Event

	// DeleteJobs are Jobs to delete.
	DeleteJobs []Job
	// DeleteScan deletes the Scan.
	DeleteScan bool
	// RemoveResults removes the stored files of the Scan, the findings last. The Scan stays.
	RemoveResults bool
	// ForgetReleased removes the annotation that the results were released: a re-run makes new ones.
	ForgetReleased bool
	// RemoveStored removes the stored files of the Scan, then its finalizer. RawResultFile is the raw result.
	RemoveStored  bool
	RawResultFile string
	// Release removes the finalizer although stored files may be left.
	Release bool

	// RequeueAfter is the time until a clock runs out; zero: only a watch brings the next pass.
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
	// Rerun is the annotation that asked for the run; "" for the first run.
	Rerun string
	// Result is the raw result that the Scan has stored or will store.
	Result jobs.Result
	// Tenant are the settings in force for the namespace in which the Job runs; nil: there are none.
	Tenant *settings.Effective
	// Hooks are, for a parser and for a scanner that may have its parser in its pod, the names of the hooks that run after it.
	Hooks []string
}

// StartsScanner reports whether the Decision creates the scanner's Job.
func (d *Decision) StartsScanner() bool { return len(d.Create) > 0 && d.Create[0].Role == ScannerRole }

// requestOf returns the request for the Job of a role, in a run with this number.
func (s *Status) requestOf(o *Observation, r Role, attempt int) JobRequest {
	return JobRequest{Role: r, Attempt: attempt, Rerun: rerunOf(s.ScanStatus, attempt), Result: s.rawResult(), Tenant: o.Tenant}
}

// Event is a warning to the user, as an Event on the Scan.
type Event struct{ Reason, Message string }

// PutBack writes the status that the operator believes, if the stored status differs from it
// and the Decision has no status of its own.
func (d *Decision) PutBack(o *Observation) {
	if d.Status == nil && o.Forged && !IsDeleted(o) && !d.AddFinalizer && !d.DeleteScan {
		d.Status = NewStatus(o).result()
	}
}

// ConflictRetry is the time after which a Scan is reconciled again after a conflict, if no
// watch brings it earlier.
const ConflictRetry = 100 * time.Millisecond
