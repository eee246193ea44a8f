// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy/inforce"
)

// Places checks whether a place for results can be used; its errors are for users.
type Places interface {
	CheckPlace(ctx context.Context, namespace string, p store.Place) error
}

// Options are the options of a Reconciler.
type Options struct {
	// Client reads from the cache and waits there for its own writes.
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Places Places
}

// Reconciler writes on the settings of namespaces and of the cluster whether they are in force, and
// keeps the last valid ones in their status.
type Reconciler struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
	places Places
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{client: o.Client, events: o.Events, clock: o.Clock, places: o.Places}
}

// conflictRetry is when settings that another client wrote at the same moment are reconciled again.
const conflictRetry = time.Second

// Reconcile checks the settings of a namespace or, for a request without a namespace, of the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, ignore(ctx, err)
	}
	d := inforce.Decide(o)
	log.FromContext(ctx).V(1).Info("Decided", "step", d.Step)
	if err := r.act(ctx, o, &d); apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	} else if err != nil {
		return reconcile.Result{}, ignore(ctx, err)
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
}

// ignore returns nil for errors that another pass would not mend.
func ignore(ctx context.Context, err error) error {
	if apierrors.IsForbidden(err) {
		// An operator for some namespaces may not write objects of the cluster. The settings in force
		// are computed from the spec; only a mistake in the spec cannot be reported then.
		log.FromContext(ctx).Info("Settings cannot be given a status", "error", err.Error())
		return nil
	}
	return client.IgnoreNotFound(err)
}
