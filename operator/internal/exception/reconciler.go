// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/exception/validity"
)

// Target returns what a Scan scans: of the Scans with the same target the last one counts.
type Target func(*executionv1.Scan) string

// Options are the options of a Reconciler.
type Options struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Sealer knows who made an exception; nil where no admission stamps it.
	Sealer *stamp.Sealer
	// Target returns what a Scan scans; nil where matches are not counted.
	Target Target
}

// Reconciler writes the status of exceptions.
type Reconciler struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
	sealer *stamp.Sealer
	target Target
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{client: o.Client, events: o.Events, clock: o.Clock, sealer: o.Sealer, target: o.Target}
}

// conflictRetry is when an exception that another client wrote at the same moment is reconciled again.
const conflictRetry = time.Second

// Reconcile writes the status of a FindingException or, for a request without a namespace, of a
// ClusterFindingException.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	d := validity.Decide(o)
	log.FromContext(ctx).V(1).Info("Decided", "step", d.Step)
	switch err := r.act(ctx, o, &d); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsForbidden(err):
		// An operator for some namespaces may not write objects of the cluster.
		log.FromContext(ctx).Info("The exception cannot be given a status", "error", err.Error())
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
}
