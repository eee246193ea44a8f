// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/schedule/plan"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
)

// Options are the options of a Reconciler.
type Options struct {
	// Client reads from the cache and waits there for its own writes. It should have a rate limit of its
	// own: many runs come due at the same time, and there are at most as many requests as workers.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Tenancy returns the bounds of the cluster's settings.
	Tenancy *tenancy.Source
	// Zone is the time zone of schedules that name none.
	Zone    *time.Location
	Metrics *Metrics
}

// Reconciler creates Scans from ScheduledScans.
type Reconciler struct {
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	clock   clock.PassiveClock
	catalog *catalog.Catalog
	metrics *Metrics
	tenancy *tenancy.Source
	zones   *zones
	digests *digests
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{
		client: o.Client, live: o.Live, events: o.Events, clock: o.Clock, catalog: catalog.New(o.Client), metrics: o.Metrics,
		tenancy: o.Tenancy, zones: &zones{local: o.Zone}, digests: &digests{},
	}
}

// Reconcile observes a ScheduledScan once and takes the next step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	d := plan.Decide(o)
	log.FromContext(ctx).V(1).Info("Decided", "step", d.Step)
	err = r.act(ctx, o, &d)
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// No object can be created any more, and the ScheduledScan is about to be deleted.
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Another client has written the object; its new version comes by watch, and RequeueAfter
		// starts a pass in any case.
		log.FromContext(ctx).V(1).Info("The ScheduledScan has changed meanwhile", "step", d.Step)
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	default:
		return reconcile.Result{}, err
	}
}
