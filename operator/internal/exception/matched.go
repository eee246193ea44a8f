// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/exception"
)

// Indexes of Scans that are Done and for which an exception held.
const (
	indexUses   = "scanyard.io/exceptions"        // the exceptions that matched findings, as KIND/NAME
	indexTarget = "scanyard.io/exceptions-target" // what the Scan has scanned
)

// Target says what a Scan scans: of the Scans with the same target the last one counts.
type Target func(*executionv1.Scan) string

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

// matched are the findings that an exception matched.
type matched struct {
	findings int64
	last     *metav1.Time
}

// count adds up what the latest Scan of each target says of an exception.
func (r *Reconciler) count(ctx context.Context, namespace, kind, name string) (m matched, err error) {
	var uses executionv1.ScanList
	if err := r.list(ctx, &uses, namespace, indexUses, kind+"/"+name); err != nil {
		return m, err
	}
	for i := range uses.Items {
		s := &uses.Items[i]
		var same executionv1.ScanList
		if err := r.list(ctx, &same, s.Namespace, indexTarget, r.o.Target(s)); err != nil {
			return m, err
		}
		latest := slices.MaxFunc(same.Items, func(a, b executionv1.Scan) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
		})
		for _, e := range s.Status.Findings.Exceptions {
			if e.Kind != kind || e.Name != name {
				continue
			}
			if s.UID == latest.UID {
				m.findings += e.Count
			}
			if at := s.Status.FinishedAt; at != nil && (m.last == nil || m.last.Before(at)) {
				m.last = at
			}
		}
	}
	return m, nil
}

func (r *Reconciler) list(ctx context.Context, into *executionv1.ScanList, namespace, index, value string) error {
	err := r.o.Client.List(ctx, into, client.InNamespace(namespace), client.MatchingFields{index: value},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list Scans that were matched: %w", err)
	}
	return nil
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueue enqueues the exceptions of a kind that a Scan, or another one of its target, names.
func (r *Reconciler) enqueue(ctx context.Context, kind string, o client.Object, q requests) {
	s, ok := o.(*executionv1.Scan)
	if !ok || s.Status.State != executionv1.ScanStateDone || s.Status.Findings.Excepted == nil {
		return
	}
	var same executionv1.ScanList
	if err := r.list(ctx, &same, s.Namespace, indexTarget, r.o.Target(s)); err != nil {
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

// scans watches Scans for a kind of exceptions. Most changes of a Scan count nothing anew.
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

// watch registers a controller for one kind of exceptions.
func (r *Reconciler) watch(mgr ctrl.Manager, kind string, of client.Object, pass reconcile.Func) error {
	return ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(kind)+"s").
		For(of).Watches(&executionv1.Scan{}, r.scans(kind)).Complete(pass)
}
