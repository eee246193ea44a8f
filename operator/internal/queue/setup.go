// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// SetupWithManager fills the Queue from the watches of the manager's cache. Believed returns a Scan in
// the state that the operator knows, whatever its status says; gone is called for each Scan that was deleted.
func (q *Queue) SetupWithManager(ctx context.Context, mgr ctrl.Manager, believed func(*executionv1.Scan) *executionv1.Scan, gone func(types.UID)) error {
	// Before the first pass, which could otherwise take a Job that Kueue holds back for a late one.
	if err := q.lookForKueue(ctx); err != nil {
		return err
	}
	var synced []toolscache.InformerSynced
	for _, w := range []struct {
		object client.Object
		follow toolscache.ResourceEventHandler
	}{
		{&executionv1.Scan{}, Following(
			func(s *executionv1.Scan) { q.ScanSeen(believed(s)) },
			func(s *executionv1.Scan) { gone(s.UID); q.gone(s.UID) },
		)},
		{&batchv1.Job{}, Following(func(b *batchv1.Job) { q.jobSeen(b, false) }, func(b *batchv1.Job) { q.jobSeen(b, true) })},
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(w.follow)
		if err != nil {
			return fmt.Errorf("watch %T for the queue: %w", w.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return mgr.Add(&runner{queue: q, synced: synced})
}

// Following calls see for each new version of an object and gone when it is deleted.
func Following[T any](see, gone func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if t, ok := o.(T); ok {
				see(t)
			}
		},
		UpdateFunc: func(_, o any) {
			if t, ok := o.(T); ok {
				see(t)
			}
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(T); ok {
				gone(t)
			}
		},
	}
}

// Connect is the source of the controller through which the Queue wakes Scans.
func (q *Queue) Connect(_ context.Context, w workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake = func(req reconcile.Request, priority int) { Add(w, req, priority) }
	q.wakeOnce.Do(func() { close(q.waking) })
	return nil
}

// Add puts a Scan into a workqueue, with a priority if the workqueue knows priorities.
func Add(q workqueue.TypedRateLimitingInterface[reconcile.Request], req reconcile.Request, priority int) {
	if pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		pq.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
		return
	}
	q.Add(req)
}
