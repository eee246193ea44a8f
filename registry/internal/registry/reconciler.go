// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

// conflictRetry is when a pass is repeated whose object somebody else has written meanwhile.
const conflictRetry = time.Second

// Options are those of a Reconciler.
type Options struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Bounds Bounds
	// Limits tells what is in force for a namespace.
	Limits func(ctx context.Context, namespace string) (tenancy.Limits, error)
	// Away tells what is wrong with the reports API and the queue; "": nothing.
	Away func() (reports, queue string)
	// Changed has Registries looked at of which the API server tells nothing new; nil: never.
	Changed <-chan event.GenericEvent
}

// Reconciler keeps Registries.
type Reconciler struct{ Options }

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler { return &Reconciler{o} }

// Reconcile observes a Registry once, and does what is to be done.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	limits, err := r.Limits(ctx, request.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := Decide(*o, r.Bounds.within(limits))
	log.FromContext(ctx).V(1).Info("Decided", "ready", d.Conditions[0].Reason, "start", len(d.Start), "delete", len(d.Delete))
	switch err := r.act(ctx, o, d); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil // the Registry is about to be deleted
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
}
