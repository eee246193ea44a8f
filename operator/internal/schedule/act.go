// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/schedule/plan"
)

// act carries out a decision. All its actions are idempotent.
func (r *Reconciler) act(ctx context.Context, o *plan.Observation, d *plan.Decision) error {
	for _, c := range d.Replace {
		if err := r.deleteChild(ctx, o, c); err != nil {
			return err
		}
		r.report(o, plan.Event{Reason: executionv1.EventScanReplaced, Message: fmt.Sprintf(
			"Scan %s has not ended and is deleted for the next run, since spec.concurrencyPolicy is Replace.", c.Name)})
	}
	if d.Start != nil {
		if err := r.start(ctx, o, d); err != nil {
			return err
		}
	}
	if d.Status != nil {
		if err := r.writeStatus(ctx, o, d.Status); err != nil {
			return err
		}
	}
	for _, n := range d.Events {
		r.report(o, n)
	}
	// Only now: the findings and the run of a Scan must be recorded before it is deleted.
	for _, c := range d.Prune {
		if err := r.deleteChild(ctx, o, c); err != nil {
			return err
		}
	}
	return nil
}

// report sends an Event to the user.
func (r *Reconciler) report(o *plan.Observation, n plan.Event) {
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(o.Scheduled, nil, kind, n.Reason, "Schedule", "%s", n.Message)
}

// start creates the Scan of the run that is due. If the Scan exists already, its own run is recorded;
// a refusal replaces the decision.
func (r *Reconciler) start(ctx context.Context, o *plan.Observation, d *plan.Decision) error {
	run := d.Start
	for _, name := range run.Names {
		existing, err := r.create(ctx, run.Scan(name))
		if message, refused := refusal(err); refused {
			*d = run.Rejected(message)
			return nil
		}
		if err != nil {
			return fmt.Errorf("create Scan %s: %w", name, err)
		}
		switch {
		case existing == nil:
			r.metrics.runStarted(run.Trigger, run.Late)
			log.FromContext(ctx).Info("Started a run", "scan", name, "trigger", run.Trigger, "planned", run.Planned)
			return nil
		case metav1.IsControlledBy(existing, o.Scheduled):
			*d = run.Exists(d.Step, existing.CreationTimestamp.Time)
			return nil
		}
	}
	*d = run.Rejected(fmt.Sprintf("Scans %s exist and do not belong to this ScheduledScan; delete the latter", strings.Join(run.Names, " and ")))
	return nil
}

// create creates the Scan of a run. It returns the Scan that has the name already, if there is one.
func (r *Reconciler) create(ctx context.Context, s *executionv1.Scan) (*executionv1.Scan, error) {
	o, err := encodable(s)
	if err != nil {
		return nil, err
	}
	err = r.client.Create(ctx, o)
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	existing := &executionv1.Scan{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s), existing); err != nil {
		return nil, err
	}
	return existing, nil
}

// encodable returns a Scan in a form that reaches the API server unchanged. The Go type drops an empty
// list of tolerations, which clears those of the ScanType.
func encodable(s *executionv1.Scan) (client.Object, error) {
	if s.Spec.Tolerations == nil || len(s.Spec.Tolerations) > 0 {
		return s, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	return u, unstructured.SetNestedSlice(u.Object, []any{}, "spec", "tolerations")
}

// refusal returns the message for the user about a rejection by the API server; other errors are
// retried.
func refusal(err error) (string, bool) {
	if err == nil {
		return "", false
	}
	message := err.Error()
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "", false
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsForbidden(err),
		strings.Contains(message, "admission webhook") && strings.Contains(message, "denied the request"):
		return message, true
	default:
		return "", false
	}
}

// deleteChild deletes a Scan that is not needed any more. A Scan that is already gone is success.
func (r *Reconciler) deleteChild(ctx context.Context, o *plan.Observation, c plan.Child) error {
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: o.Scheduled.Namespace, Name: c.Name}}
	err := r.client.Delete(ctx, s, client.Preconditions{UID: &c.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict is another Scan of that name
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete Scan %s: %w", c.Name, err)
	}
	log.FromContext(ctx).V(1).Info("Deleted Scan", "scan", c.Name, "state", c.State)
	return nil
}

// writeStatus writes the status if it differs from the one read. The resource version makes sure that
// no newer value is overwritten, such as a time that a client has set.
func (r *Reconciler) writeStatus(ctx context.Context, o *plan.Observation, want *executionv1.ScheduledScanStatus) error {
	changed := o.Scheduled.DeepCopy()
	changed.Status = *want
	if equality.Semantic.DeepEqual(o.Scheduled.Status, changed.Status) {
		return nil
	}
	patch, err := statusPatch(o.Scheduled, changed)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch)))
}

// statusPatch is the difference between two objects, and findings.severities, which the contract
// requires after the first write.
func statusPatch(before, after *executionv1.ScheduledScan) ([]byte, error) {
	raw, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	_, found, err := unstructured.NestedMap(patch, "status", "findings", "severities")
	if err != nil {
		return nil, errors.New("the findings of the status are not an object")
	}
	if !found {
		if err := unstructured.SetNestedMap(patch, map[string]any{}, "status", "findings", "severities"); err != nil {
			return nil, err
		}
	}
	return json.Marshal(patch)
}

// conflictRetry is when an object that another client wrote at the same moment is reconciled again,
// unless a watch starts a pass earlier.
const conflictRetry = 100 * time.Millisecond
