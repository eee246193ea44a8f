// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// asksCancel says whether spec.cancel has not been answered yet.
func asksCancel(s *executionv1.Scan) bool {
	return s.Cancelled() && (!s.Settled() || findCondition(s.Status.Conditions, executionv1.ConditionCancelled) == nil)
}

func wantsCancel(o *observed) bool { return asksCancel(o.scan) }

// isLateCancel holds for a Scan that had ended when spec.cancel was set.
func isLateCancel(o *observed) bool { return isSettled(o) && wantsCancel(o) }

// wantsHooksCancelled holds where hooks still run for the failure of a Scan that is cancelled.
func wantsHooksCancelled(o *observed) bool { return isLateCancel(o) && hasFailureHooks(o) }

// hasLeftOver holds where something runs for a Scan that was cancelled: a Job that was
// just being made then, or by an operator that was ended in the midst of it.
func hasLeftOver(o *observed) bool {
	c := findCondition(o.scan.Status.Conditions, executionv1.ConditionCancelled)
	return isSettled(o) && c != nil && c.Status == metav1.ConditionTrue && len(unended(o)) > 0
}

// unended are the Jobs that have not ended and that nobody has asked to go yet.
func unended(o *observed) []job {
	var all []job
	for _, j := range o.jobs {
		if j.outcome == running && j.deleted.IsZero() {
			all = append(all, j)
		}
	}
	return all
}

// deleteUnended asks all Jobs that run to go. They go when their pods have.
func (d *decision) deleteUnended(o *observed) {
	d.deleteJobs = unended(o)
	for _, j := range d.deleteJobs {
		d.revokeAway(o, j)
	}
}

func deleteLeftOver(o *observed, d *decision) {
	d.deleteUnended(o)
	d.requeueAfter, _ = untilExpiry(o)
}

// cancelScan ends a Scan wherever it stands. What it has stored so far stays; hooks for
// failures do not run, since somebody wanted it this way.
func cancelScan(o *observed, d *decision) {
	s := newStatus(o)
	phase := executionv1.ConditionScanned
	switch {
	case hasReached(phaseParsed)(o), parserDone(o):
		s.parsed(o)
		s.endHooks(o)
		phase = executionv1.ConditionHooksCompleted
	case hasReached(phaseScanned)(o), jobIs(scannerRole, complete)(o):
		s.scanned(o)
		phase = executionv1.ConditionParsed
	}
	t := trouble{executionv1.ReasonCancelledByUser, fmt.Sprintf("The Scan was cancelled: spec.cancel was set by %s.", orSomebody(o.canceller))}
	s.State, s.ErrorDescription = executionv1.ScanStateErrored, t.message
	s.FinishedAt = &metav1.Time{Time: o.now}
	s.set(o, phase, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionTrue, t)
	d.warn(o, t)
	d.deleteUnended(o)
	d.settle(o, s)
}

// endHooks says of each hook how it ended when the Scan was cancelled.
func (s *status) endHooks(o *observed) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			h := &g[i]
			if h.State != executionv1.HookStatePending && h.State != executionv1.HookStateInProgress {
				continue
			}
			h.State = executionv1.HookStateCancelled
			if j, ok := o.jobOf(hookRole(names.LabelValue(h.HookName))); ok && j.attempt >= h.Attempt {
				h.JobName = j.name
				switch j.outcome {
				case complete:
					h.State = executionv1.HookStateCompleted
				case failed:
					h.State = executionv1.HookStateFailed
				case running:
				}
			}
		}
	}
}

// cancelFailureHooks ends the hooks that run for a Scan that is Errored. It stays as it ended.
func cancelFailureHooks(o *observed, d *decision) {
	s := newStatus(o)
	s.endHooks(o)
	t := trouble{
		executionv1.ReasonCancelledByUser,
		fmt.Sprintf("The Scan had ended when spec.cancel was set by %s; the hooks that still ran for its failure were ended.", orSomebody(o.canceller)),
	}
	s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionTrue, t)
	d.notice = &notice{t.reason, t.message}
	d.deleteUnended(o)
	d.settle(o, s)
}

// refuseCancel says that there was nothing to cancel, and changes nothing else.
func refuseCancel(o *observed, d *decision) {
	s := newStatus(o)
	t := trouble{
		executionv1.ReasonAlreadyEnded,
		fmt.Sprintf("The Scan had ended %s when spec.cancel was set by %s; nothing was changed.", o.scan.Status.State, orSomebody(o.canceller)),
	}
	s.set(o, executionv1.ConditionCancelled, metav1.ConditionFalse, t)
	d.notice = &notice{t.reason, t.message}
	d.status = s.result()
	d.requeueAfter, _ = untilExpiry(o)
}

func orSomebody(manager string) string {
	if manager == "" {
		return "somebody whom the API server does not name"
	}
	return fmt.Sprintf("%q", manager)
}

// observeCanceller asks the API server who has set spec.cancel: the cache does not keep
// who wrote what.
func (r *Reconciler) observeCanceller(ctx context.Context, o *observed) error {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(o.scan), m); err != nil {
		return client.IgnoreNotFound(err)
	}
	if m.UID == o.scan.UID {
		o.canceller = cancellers(m.ManagedFields)
	}
	return nil
}

// cancellers names the field managers that have set spec.cancel.
func cancellers(entries []metav1.ManagedFieldsEntry) string {
	field := fieldpath.MakePathOrDie("spec", "cancel")
	var managers []string
	for _, e := range entries {
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			continue // written by a newer API server; the others may name somebody
		}
		if set.Has(field) && !slices.Contains(managers, e.Manager) {
			managers = append(managers, e.Manager)
		}
	}
	slices.Sort(managers)
	return strings.Join(managers, ", ")
}
