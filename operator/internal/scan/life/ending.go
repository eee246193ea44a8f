// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func isExpired(o *Observation) bool {
	left, ok := untilExpiry(o)
	return ok && left <= 0
}

// untilExpiry returns how long a settled Scan with a TTL is kept. If another client has
// removed the finish time, the present counts.
func untilExpiry(o *Observation) (time.Duration, bool) {
	ttl, ok := o.ttl()
	if !o.Scan.Settled() || !ok {
		return 0, false
	}
	finished := o.Now
	if at := o.Scan.Status.FinishedAt; at != nil {
		finished = at.Time
	}
	return finished.Add(ttl).Sub(o.Now), true
}

// --- rows: the end of a life ---

func cleanUp(o *Observation, d *Decision) {
	if !hasFinalizer(o) {
		return
	}
	left := cleanUpBegan(o).Add(o.Settings.CleanupDeadline).Sub(o.Now)
	for _, j := range o.Jobs {
		d.revokeAway(o, j)
		if j.Outcome == Running || j.Namespace != o.Scan.Namespace {
			d.DeleteJobs = append(d.DeleteJobs, j)
		}
	}
	// Running pods may upload: storage is cleaned after they have ended.
	if len(d.DeleteJobs) > 0 && left > 0 {
		d.RequeueAfter = left
		return
	}
	d.lose(o)
	if left <= 0 {
		d.Release = true
	}
	d.RawResultFile = NewStatus(o).RawResultFile
	// A client that removed the finalizer of storage wants the stored files to stay.
	d.RemoveStored = HasAnyFinalizer(o) && o.Scan.Annotations[executionv1.AnnotationOnDelete] != executionv1.OnDeleteRetain
	if !d.RemoveStored {
		d.Release = true
	}
}

// revokeAway ends the access of a hook that ran in another namespace.
func (d *Decision) revokeAway(o *Observation, j Job) {
	if j.Role.Hook != "" && j.Namespace != o.Scan.Namespace && !j.Handover {
		d.Revoke = append(d.Revoke, j)
	}
}

func deleteScan(_ *Observation, d *Decision) { d.DeleteScan = true }

// keepSettled waits for the TTL, and restores fields that another client has removed.
func keepSettled(o *Observation, d *Decision) {
	if left, ok := untilExpiry(o); ok {
		d.RequeueAfter = left
	}
	if !NeedsMending(o.Scan) {
		return
	}
	s := NewStatus(o)
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: lastEnd(o)}
	}
	if o.Scan.Status.State == executionv1.ScanStateDone {
		s.settled(o, metav1.ConditionTrue, executionv1.ReasonCompleted, "The Scan is done.")
	} else {
		message := s.ErrorDescription
		if message == "" {
			message = "The Scan ended with an error."
		}
		s.settled(o, metav1.ConditionFalse, executionv1.ReasonErrored, message)
	}
	d.Status = s.result()
}

// NeedsMending reports whether the status of a settled Scan lacks fields, since a client has replaced it or an operator was killed before it
// wrote them, or holds zero counts.
func NeedsMending(s *executionv1.Scan) bool {
	return s.Status.FinishedAt == nil || saysNoEnd(FindCondition(s.Status.Conditions, executionv1.ConditionReady)) ||
		withoutZeros(s.Status.Findings.FindingSeverities) != s.Status.Findings.FindingSeverities
}

// lastEnd returns when the last Job of the Scan ended, to the second; the present if there is no Job.
func lastEnd(o *Observation) time.Time {
	var last time.Time
	for _, j := range o.Jobs {
		if j.Finished.After(last) {
			last = j.Finished
		}
	}
	if last.IsZero() {
		return o.Now
	}
	return last
}

// fail ends the Scan. phase is the condition of the phase that ended it.
func (d *Decision) fail(o *Observation, s *Status, phase string, t Cause) {
	s.State = executionv1.ScanStateErrored
	s.ErrorDescription = t.Message
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: o.Now}
	}
	s.set(o, phase, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionFalse, t)
	s.addFailureHooks(o)
	d.warn(o, metav1.ConditionFalse, t)
	d.settle(o, s)
}

// done ends the Scan with success.
func (d *Decision) done(o *Observation, s *Status) {
	t := Cause{executionv1.ReasonCompleted, "The Scan is done."}
	s.State = executionv1.ScanStateDone
	s.ErrorDescription = ""
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: o.Now}
	}
	s.set(o, executionv1.ConditionReady, metav1.ConditionTrue, t)
	// An operator that was killed each time between a Job and the status that tells of it has written none so far.
	d.Links = o.Settings.StatusLinks
	// No Event: at scale the Events of successful Scans take most of the API server's time
	// and the operator's memory. The status has the same facts.
	d.settle(o, s)
}

// settle writes the final status, ends running Jobs and the access of hooks.
func (d *Decision) settle(o *Observation, s *Status) {
	s.leaveQueue()
	d.Status = s.result()
	for _, j := range o.Jobs {
		d.revokeAway(o, j)
	}
	d.ReleaseAccess = !hasOpenFailureHook(s.OrderedHookStatuses)
	if ttl, ok := o.ttl(); ok {
		d.RequeueAfter = ttl
	}
}

// warn sends an Event unless the Ready condition already has this status and reason.
func (d *Decision) warn(o *Observation, value metav1.ConditionStatus, t Cause) {
	c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionReady)
	if c != nil && c.Status == value && c.Reason == t.Reason {
		return
	}
	d.Event = &Event{t.Reason, t.Message}
}

// SettledState reports whether a status is final.
func SettledState(s *executionv1.ScanStatus) bool {
	return s.State == executionv1.ScanStateDone || s.State == executionv1.ScanStateErrored
}
