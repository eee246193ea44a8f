// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// Indexes of Scans that are Done and for which an exception held.
const (
	indexUses   = "scanyard.io/exceptions"        // the exceptions that matched findings, as KIND/NAME
	indexTarget = "scanyard.io/exceptions-target" // what the Scan has scanned
)

// CacheOptions returns which parts of exceptions the cache keeps.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&settingsv1alpha2.FindingException{}:        {Transform: cache.TransformStripManagedFields()},
		&settingsv1alpha2.ClusterFindingException{}: {Transform: cache.TransformStripManagedFields()},
	}
}

// SetupWithManager registers a controller for each of both kinds, their indexes and their watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	return errors.Join(
		addIndexes(ctx, mgr.GetFieldIndexer(), r.target),
		r.watch(mgr, exception.Kind, &settingsv1alpha2.FindingException{}),
		r.watch(mgr, exception.ClusterKind, &settingsv1alpha2.ClusterFindingException{}),
	)
}

// watch registers a controller for one kind of exceptions.
func (r *Reconciler) watch(mgr ctrl.Manager, kind string, of client.Object) error {
	return ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(kind)+"s").
		For(of).Watches(&executionv1.Scan{}, r.scans(kind)).Complete(r)
}

// addIndexes indexes Scans. Those for which no exception held cost nothing.
func addIndexes(ctx context.Context, indexer client.FieldIndexer, target Target) error {
	return errors.Join(
		indexer.IndexField(ctx, &executionv1.Scan{}, indexUses, func(o client.Object) (names []string) {
			if s, ok := o.(*executionv1.Scan); ok && counts(s) {
				for _, e := range s.Status.Findings.Exceptions {
					names = append(names, e.Kind+"/"+e.Name)
				}
			}
			return names
		}),
		indexer.IndexField(ctx, &executionv1.Scan{}, indexTarget, func(o client.Object) []string {
			if s, ok := o.(*executionv1.Scan); ok && counts(s) {
				return []string{target(s)}
			}
			return nil
		}),
	)
}

// counts says whether a Scan says how many findings exceptions matched.
func counts(s *executionv1.Scan) bool {
	return s.Status.State == executionv1.ScanStateDone && s.Status.Findings.Excepted != nil && s.DeletionTimestamp.IsZero()
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// scans watches Scans for a kind of exceptions. Most changes of a Scan change no count.
func (r *Reconciler) scans(kind string) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { r.enqueue(ctx, kind, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { r.enqueue(ctx, kind, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			before, ok := e.ObjectOld.(*executionv1.Scan)
			after, is := e.ObjectNew.(*executionv1.Scan)
			if ok && is && counts(before) == counts(after) &&
				equality.Semantic.DeepEqual(before.Status.Findings.Exceptions, after.Status.Findings.Exceptions) {
				return
			}
			r.enqueue(ctx, kind, e.ObjectOld, q)
			r.enqueue(ctx, kind, e.ObjectNew, q)
		},
	}
}

// enqueue enqueues the exceptions of a kind that a Scan, or another one of its target, names.
func (r *Reconciler) enqueue(ctx context.Context, kind string, o client.Object, q requests) {
	s, ok := o.(*executionv1.Scan)
	if !ok || s.Status.State != executionv1.ScanStateDone || s.Status.Findings.Excepted == nil {
		return
	}
	var same executionv1.ScanList
	if err := r.list(ctx, &same, s.Namespace, indexTarget, r.target(s)); err != nil {
		log.FromContext(ctx).Error(err, "Find what to count anew") // the next Scan of the target counts anew
	}
	enqueueUsed(kind, s, q)
	for i := range same.Items {
		enqueueUsed(kind, &same.Items[i], q)
	}
}

// enqueueUsed enqueues the exceptions of a kind that a Scan names.
func enqueueUsed(kind string, s *executionv1.Scan, q requests) {
	for _, e := range s.Status.Findings.Exceptions {
		if e.Kind != kind {
			continue
		}
		key := client.ObjectKey{Name: e.Name}
		if kind == exception.Kind {
			key.Namespace = s.Namespace
		}
		q.Add(reconcile.Request{NamespacedName: key})
	}
}
