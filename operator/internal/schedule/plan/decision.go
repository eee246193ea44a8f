// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Decision is what act should do. The zero Decision does nothing.
type Decision struct {
	// Step is the name of the row that was taken, for logs and tests.
	Step string

	// Replace are unfinished Scans to delete, in favor of the run that is due.
	Replace []Child
	// Start is the run to start; nil starts none.
	Start *Start
	// Status is what the status should be; nil leaves it.
	Status *executionv1.ScheduledScanStatus
	// Events are sent to the user.
	Events []Event
	// Prune are ended Scans to delete once the status is written.
	Prune []Child

	// RequeueAfter is when a clock runs out; zero waits for watches only.
	RequeueAfter time.Duration
}

// Event is an Event on the ScheduledScan.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Start is a run to start.
type Start struct {
	// Names are the possible names of the Scan of the run, the usual one first.
	Names []string
	// Planned is the time for which the run is planned.
	Planned time.Time
	// Late is how long ago the run could have started.
	Late time.Duration
	// Trigger is why the run is started.
	Trigger Trigger

	view *view
}

func newStart(v *view) *Start {
	return &Start{Names: v.names(), Planned: v.next.planned, Late: v.Now.Sub(v.next.at), Trigger: v.why, view: v}
}

// Scan returns the Scan of the run, under one of the names.
func (s *Start) Scan(name string) *executionv1.Scan {
	return newChild(s.view.Scheduled, name, s.Planned)
}

// Exists replaces a Decision whose Scan was created before.
func (s *Start) Exists(step string, created time.Time) Decision {
	d := Decision{Step: step}
	d.finish(s.view, startedStatus(s.view, &d, created))
	return d
}

// Rejected replaces a Decision whose Scan the API server rejects.
func (s *Start) Rejected(message string) Decision {
	v, d := s.view, Decision{Step: "Rejected"}
	status := newStatus(v)
	status.scheduledAt(v.next.at)
	status.ready(v, &d, metav1.ConditionFalse, problem{executionv1.ReasonScanRejected, "The Scan of a run that is due cannot be created: " + message})
	d.finish(v, status)
	d.RequeueAfter = rejectedRetry
	return d
}

// finish completes every decision that is not about a deletion.
func (d *Decision) finish(v *view, s *status) {
	d.Status = s.ScheduledScanStatus
	spec := &v.Scheduled.Spec
	d.Prune = append(superfluous(v.Children, executionv1.ScanStateDone, spec.SuccessfulJobsHistoryLimit, v.Bounds.MaxHistory),
		superfluous(v.Children, executionv1.ScanStateErrored, spec.FailedJobsHistoryLimit, v.Bounds.MaxHistory)...)
}

// superfluous are the Scans of an outcome beyond the newest ones, the oldest first: the status shows
// the findings of the newest remaining Scan.
func superfluous(children []Child, state executionv1.ScanState, limit *int32, most int32) []Child {
	keep := defaultHistory
	if limit != nil {
		keep = int(*limit)
	}
	keep = min(keep, int(most))
	var all []Child
	for _, c := range children {
		if c.State != state || !c.Deleted.IsZero() {
			continue
		}
		if keep--; keep < 0 {
			all = append(all, c)
		}
	}
	slices.Reverse(all)
	return all
}

// until requests a pass at a time.
func (d *Decision) until(v *view, t time.Time) {
	wait := min(max(t.Sub(v.Now), atOnce), longestWait)
	if d.RequeueAfter == 0 || wait < d.RequeueAfter {
		d.RequeueAfter = wait
	}
}

// awaitOthers waits for earlier Scans: watches show their end, unless one is stuck or the run would be
// too late by then.
func (d *Decision) awaitOthers(v *view) {
	for _, c := range v.unfinished() {
		if !c.Deleted.IsZero() {
			d.until(v, c.Deleted.Add(deletionGrace))
		}
	}
	if v.timetable.deadline > 0 && v.why == BySchedule {
		d.until(v, v.next.due.Add(v.timetable.deadline+time.Second))
	}
}
