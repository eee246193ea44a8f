// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// asksCancel reports whether spec.cancel is set and was not answered yet.
func asksCancel(s *executionv1.Scan) bool {
	return s.Cancelled() && (!s.Settled() || FindCondition(s.Status.Conditions, executionv1.ConditionCancelled) == nil)
}

// WantsCancel holds if spec.cancel is set and was not answered yet.
func WantsCancel(o *Observation) bool { return asksCancel(o.Scan) }

// isLateCancel holds for a Scan that had ended when spec.cancel was set.
func isLateCancel(o *Observation) bool { return IsSettled(o) && WantsCancel(o) }

// wantsHooksCancelled holds if failure hooks still run of a Scan that is cancelled.
func wantsHooksCancelled(o *Observation) bool { return isLateCancel(o) && HasFailureHooks(o) }

// hasLeftOver holds if a Job runs of a Scan that was cancelled: the Job was created at the
// same time, or the operator was killed during the cancel.
func hasLeftOver(o *Observation) bool {
	c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionCancelled)
	return IsSettled(o) && c != nil && c.Status == metav1.ConditionTrue && len(unended(o)) > 0
}

// unended returns the Jobs that have not ended and have no deletion timestamp.
func unended(o *Observation) []Job {
	var all []Job
	for _, j := range o.Jobs {
		if j.Outcome == Running && j.Deleted.IsZero() {
			all = append(all, j)
		}
	}
	return all
}

// deleteUnended deletes all running Jobs. A Job is gone when its pods are.
func (d *Decision) deleteUnended(o *Observation) {
	d.DeleteJobs = unended(o)
	for _, j := range d.DeleteJobs {
		d.revokeAway(o, j)
	}
}

func deleteLeftOver(o *Observation, d *Decision) {
	d.deleteUnended(o)
	d.RequeueAfter, _ = untilExpiry(o)
}

// cancelScan ends a Scan in any state. Stored files stay. Failure hooks do not run, since
// a user asked for the end.
func cancelScan(o *Observation, d *Decision) {
	s := NewStatus(o)
	phase := executionv1.ConditionScanned
	switch {
	case hasReached(phaseParsed)(o), parserDone(o):
		s.parsed(o)
		s.endHooks(o)
		phase = executionv1.ConditionHooksCompleted
	case hasReached(PhaseScanned)(o), jobIs(ScannerRole, Complete)(o):
		s.scanned(o)
		phase = executionv1.ConditionParsed
	}
	t := Cause{executionv1.ReasonCancelledByUser, fmt.Sprintf("The Scan was cancelled: spec.cancel was set by %s.", nameOrUnknown(o.Canceller))}
	s.State, s.ErrorDescription = executionv1.ScanStateErrored, t.Message
	s.FinishedAt = &metav1.Time{Time: o.Now}
	s.set(o, phase, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionTrue, t)
	d.warn(o, metav1.ConditionFalse, t)
	d.deleteUnended(o)
	d.settle(o, s)
}

// endHooks sets the final state of each hook of a cancelled Scan.
func (s *Status) endHooks(o *Observation) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			h := &g[i]
			if h.State != executionv1.HookStatePending && h.State != executionv1.HookStateInProgress {
				continue
			}
			h.State = executionv1.HookStateCancelled
			if j, ok := o.JobOf(hookRole(names.LabelValue(h.HookName))); ok && j.Attempt >= h.Attempt {
				h.JobName = j.Name
				switch j.Outcome {
				case Complete:
					h.State = executionv1.HookStateCompleted
				case Failed:
					h.State = executionv1.HookStateFailed
				case Running:
				}
			}
		}
	}
}

// cancelFailureHooks ends the failure hooks of an Errored Scan. The Scan keeps its state.
func cancelFailureHooks(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.endHooks(o)
	t := Cause{
		executionv1.ReasonCancelledByUser,
		fmt.Sprintf("The Scan had ended when spec.cancel was set by %s; the hooks that still ran for its failure were ended.", nameOrUnknown(o.Canceller)),
	}
	s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionTrue, t)
	d.Event = &Event{t.Reason, t.Message}
	d.deleteUnended(o)
	d.settle(o, s)
}

// refuseCancel answers that there was nothing to cancel, and changes nothing else.
func refuseCancel(o *Observation, d *Decision) {
	s := NewStatus(o)
	t := Cause{
		executionv1.ReasonAlreadyEnded,
		fmt.Sprintf("The Scan had ended %s when spec.cancel was set by %s; nothing was changed.", o.Scan.Status.State, nameOrUnknown(o.Canceller)),
	}
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionFalse, t)
	d.Event = &Event{t.Reason, t.Message}
	d.Status = s.result()
	d.RequeueAfter, _ = untilExpiry(o)
}

func nameOrUnknown(manager string) string {
	if manager == "" {
		return "somebody whom the API server does not name"
	}
	return fmt.Sprintf("%q", manager)
}
