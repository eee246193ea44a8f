// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// asksCancel says whether spec.cancel has not been answered yet.
func asksCancel(s *executionv1.Scan) bool {
	return s.Cancelled() && (!s.Settled() || FindCondition(s.Status.Conditions, executionv1.ConditionCancelled) == nil)
}

// WantsCancel holds where spec.cancel has not been answered yet.
func WantsCancel(o *Observation) bool { return asksCancel(o.Scan) }

// isLateCancel holds for a Scan that had ended when spec.cancel was set.
func isLateCancel(o *Observation) bool { return IsSettled(o) && WantsCancel(o) }

// wantsHooksCancelled holds where hooks still run for the failure of a Scan that is cancelled.
func wantsHooksCancelled(o *Observation) bool { return isLateCancel(o) && HasFailureHooks(o) }

// hasLeftOver holds where something runs for a Scan that was cancelled: a Job that was
// just being made then, or by an operator that was ended in the midst of it.
func hasLeftOver(o *Observation) bool {
	c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionCancelled)
	return IsSettled(o) && c != nil && c.Status == metav1.ConditionTrue && len(unended(o)) > 0
}

// unended are the Jobs that have not ended and that nobody has asked to go yet.
func unended(o *Observation) []Job {
	var all []Job
	for _, j := range o.Jobs {
		if j.Outcome == Running && j.Deleted.IsZero() {
			all = append(all, j)
		}
	}
	return all
}

// deleteUnended asks all Jobs that run to go. They go when their pods have.
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

// cancelScan ends a Scan wherever it stands. What it has stored so far stays; hooks for
// failures do not run, since somebody wanted it this way.
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

// endHooks says of each hook how it ended when the Scan was cancelled.
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

// cancelFailureHooks ends the hooks that run for a Scan that is Errored. It stays as it ended.
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

// refuseCancel says that there was nothing to cancel, and changes nothing else.
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
