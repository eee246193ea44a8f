// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/referrers"
	"github.com/scanyard/scanyard/operator/internal/schedule/plan"
)

// Index names.
const (
	indexOwner    = "scanyard.io/scheduled-by" // of Scans: the UID of their ScheduledScan
	indexScanType = "scanyard.io/scan-type"    // of ScheduledScans: kind and name of what their Scans run
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// passTimeout bounds one pass, so that a server that does not respond cannot block a worker.
	passTimeout = time.Minute
	// courtesy is how long after a change of the spec the object is reconciled. Clients such as
	// auto-discovery write the spec and then, with the returned version, status.lastScheduleTime: a write
	// of the operator in between would make the client's write fail, and such clients do not retry.
	courtesy = time.Second
)

// CacheOptions returns which parts of ScheduledScans the cache keeps. Scans and ScanTypes are kept as
// the life of a Scan needs them.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&executionv1.ScheduledScan{}: {Transform: stripScheduled}}
}

func stripScheduled(in any) (any, error) {
	s, ok := in.(*executionv1.ScheduledScan)
	if !ok {
		return in, nil
	}
	s.ManagedFields = nil
	delete(s.Annotations, lastApplied)
	return s, nil
}

// lastApplied holds a second copy of the object, which the operator does not read.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// SetupWithManager registers the Reconciler, its indexes and its watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	if err := addIndexes(ctx, mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("scheduledscan").
		Watches(&executionv1.ScheduledScan{}, &scheduledHandler{}).
		Watches(&executionv1.Scan{}, handler.EnqueueRequestsFromMapFunc(ownerOf), childPredicate()).
		Watches(&executionv1.ScanType{}, r.enqueueUsers("ScanType")).
		Watches(&executionv1.ClusterScanType{}, r.enqueueUsers("ClusterScanType")).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
			ReconciliationTimeout:   passTimeout,
		}).
		Complete(r)
}

// scheduledHandler enqueues a ScheduledScan that has changed.
type scheduledHandler struct {
	handler.EnqueueRequestForObject
}

// Update waits for a moment if the spec has changed.
func (h *scheduledHandler) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
		q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, courtesy)
		return
	}
	h.EnqueueRequestForObject.Update(ctx, e, q)
}

// ownerUID is the UID of the ScheduledScan that controls a Scan, or "".
func ownerUID(o client.Object) string {
	if c := executionv1.ScheduleOf(o); c != nil {
		return string(c.UID)
	}
	return ""
}

func ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	c := executionv1.ScheduleOf(o)
	if c == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}}}
}

// childPredicate lets through changes of a Scan's state, and its deletion.
func childPredicate() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // this operator created the Scan, or the Scan existed before
		DeleteFunc: func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*executionv1.Scan)
			after, okAfter := e.ObjectNew.(*executionv1.Scan)
			return okBefore && okAfter && (before.Settled() != after.Settled() || before.Settled() && before.Status.State != after.Status.State ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

// enqueueUsers enqueues the ScheduledScans whose Scans run a ScanType that has changed.
func (r *Reconciler) enqueueUsers(kind string) handler.EventHandler {
	return referrers.Enqueue(r.client, indexScanType, kind, func() client.ObjectList { return &executionv1.ScheduledScanList{} })
}

func addIndexes(ctx context.Context, mgr ctrl.Manager) error {
	i := mgr.GetFieldIndexer()
	return errors.Join(
		i.IndexField(ctx, &executionv1.Scan{}, indexOwner, func(o client.Object) []string { return referrers.Values(ownerUID(o)) }),
		i.IndexField(ctx, &executionv1.ScheduledScan{}, indexScanType, func(o client.Object) []string {
			s, ok := o.(*executionv1.ScheduledScan)
			if !ok || s.Spec.ScanSpec == nil {
				return nil
			}
			return referrers.Values(referrers.Key(plan.ScanTypeKind(s), s.Spec.ScanSpec.ScanType))
		}),
	)
}
