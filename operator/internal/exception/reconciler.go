// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

// Options are what a Reconciler is made of.
type Options struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Sealer knows who made an exception; nil where no admission stamps it.
	Sealer *stamp.Sealer
	// Target says what a Scan scans; nil where matches are not counted.
	Target Target
}

// Reconciler writes the status of exceptions.
type Reconciler struct{ o Options }

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler { return &Reconciler{o} }

// CacheOptions say what is kept of exceptions.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&settingsv1alpha2.FindingException{}:        {Transform: cache.TransformStripManagedFields()},
		&settingsv1alpha2.ClusterFindingException{}: {Transform: cache.TransformStripManagedFields()},
	}
}

// SetupWithManager registers a controller for each of both kinds.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	return errors.Join(
		addIndexes(ctx, mgr.GetFieldIndexer(), r.o.Target),
		r.watch(mgr, exception.Kind, &settingsv1alpha2.FindingException{}, r.ReconcileNamespace),
		r.watch(mgr, exception.ClusterKind, &settingsv1alpha2.ClusterFindingException{}, r.ReconcileCluster),
	)
}

// ReconcileNamespace looks at a FindingException.
func (r *Reconciler) ReconcileNamespace(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	e := &settingsv1alpha2.FindingException{}
	if err := r.o.Client.Get(ctx, request.NamespacedName, e); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	stamped, err := stamp.Of(e)
	if err != nil {
		return reconcile.Result{}, err
	}
	changed := e.DeepCopy()
	return r.act(ctx, e, changed, exception.Of(e), stamped, &changed.Status)
}

// ReconcileCluster looks at a ClusterFindingException.
func (r *Reconciler) ReconcileCluster(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	e := &settingsv1alpha2.ClusterFindingException{}
	if err := r.o.Client.Get(ctx, request.NamespacedName, e); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	stamped, err := stamp.OfCluster(e)
	if err != nil {
		return reconcile.Result{}, err
	}
	changed := e.DeepCopy()
	return r.act(ctx, e, changed, exception.OfCluster(e), stamped, &changed.Status)
}

// act writes what is decided. Stamped is of object, and status to that of its copy.
func (r *Reconciler) act(
	ctx context.Context, object, changed client.Object, e exception.Exception, stamped *stamp.Stamped, to *settingsv1alpha2.FindingExceptionStatus,
) (reconcile.Result, error) {
	of := stamped.Status
	made := r.o.Sealer.Last(stamped)
	decision := Decide(Observation{
		Exception: e, Generation: object.GetGeneration(), Conditions: of.Conditions, Now: r.o.Clock.Now(), Made: made, Admission: r.o.Sealer != nil,
	})
	result := reconcile.Result{RequeueAfter: decision.RequeueAfter}
	to.Conditions, to.ObservedGeneration = decision.Conditions, object.GetGeneration()
	if r.o.Target != nil {
		found, err := r.count(ctx, object.GetNamespace(), e.Kind(), object.GetName())
		if err != nil {
			return reconcile.Result{}, err
		}
		to.Matched = &found.findings
		if found.last != nil && (of.LastMatched == nil || of.LastMatched.Before(found.last)) {
			to.LastMatched = found.last // Scans are deleted after a while
		}
	}
	to.CreatedBy, to.ChangedBy, to.ChangedAt = made.CreatedBy, made.ChangedBy, nil
	if !made.ChangedAt.IsZero() {
		to.ChangedAt = &metav1.Time{Time: made.ChangedAt}
	}
	if equality.Semantic.DeepEqual(of, to) {
		return result, nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	switch err := r.o.Client.Status().Patch(ctx, changed, patch); {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{}, nil // the newer object comes by the watch
	case apierrors.IsForbidden(err):
		// An operator for some namespaces may not write what belongs to the cluster.
		log.FromContext(ctx).Info("The exception cannot be given a status", "error", err.Error())
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("write the status of %s %s: %w", e.Kind(), client.ObjectKeyFromObject(object), err)
	}
	for _, event := range decision.Events {
		r.o.Events.Eventf(object, nil, event.Type, event.Reason, "Review", "%s", event.Message)
	}
	return result, nil
}
