// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

// QueueLimits are the limits that settings put on the queue: those of the cluster, and those
// of each namespace that are not the ones of a namespace without settings.
func QueueLimits(without *Effective, namespaces map[string]*Effective) queue.Limits {
	l := queue.Limits{Cluster: boundsOf(without.Cluster), Default: without.queueTenant()}
	for name, e := range namespaces {
		t := e.queueTenant()
		if equality.Semantic.DeepEqual(t, l.Default) {
			continue
		}
		if l.Namespaces == nil {
			l.Namespaces = map[string]queue.Tenant{}
		}
		l.Namespaces[name] = t
	}
	return l
}

func (e *Effective) queueTenant() queue.Tenant {
	return queue.Tenant{
		Bounds: boundsOf(e.Namespace), Weight: max(e.Weight, 1),
		ByPriority: e.Order == settingsv1alpha1.OrderPriority, MaxPriority: e.MaxPriority,
	}
}

func boundsOf(l Limits) queue.Bounds {
	return queue.Bounds{MaxRunning: l.MaxRunning, ScanTypes: l.ScanTypes, Targets: l.Targets}
}

// QueueFeeder keeps the limits of a queue as the settings say.
type QueueFeeder struct {
	reader     client.Reader
	source     *Source
	namespaces []string
	set        func(queue.Limits)

	fed  bool
	last queue.Limits
}

// NewQueueFeeder returns a QueueFeeder that reads from a cache and hands limits to set,
// once in any case and then when they change. Namespaces are the only ones that the cache
// has; none means all.
func NewQueueFeeder(cached client.Reader, s *Source, namespaces []string, set func(queue.Limits)) *QueueFeeder {
	return &QueueFeeder{reader: cached, source: s, namespaces: namespaces, set: set}
}

// SetupWithManager has the limits put together anew whenever something changes that they
// are made of.
func (f *QueueFeeder) SetupWithManager(mgr ctrl.Manager) error {
	all := reconcile.Request{}
	all.Name = settingsv1alpha1.Name
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })
	b := ctrl.NewControllerManagedBy(mgr).
		Named("queue-limits").
		Watches(&settingsv1alpha1.ClusterScanSetting{}, once).
		Watches(&settingsv1alpha1.ScanSetting{}, once).
		// Where there are no settings, nothing else would say so.
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(all)
			return nil
		}))
	if len(f.namespaces) == 0 {
		b = b.Watches(&corev1.Namespace{}, once) // weights select them by label
	}
	return b.Complete(f)
}

// Reconcile puts the limits together. There is one request only, so that no two calls meet.
func (f *QueueFeeder) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	l, err := f.limits(ctx)
	if err != nil || f.fed && equality.Semantic.DeepEqual(l, f.last) {
		return reconcile.Result{}, err
	}
	f.set(l)
	f.fed, f.last = true, l
	return reconcile.Result{}, nil
}

func (f *QueueFeeder) limits(ctx context.Context) (queue.Limits, error) {
	without, err := f.source.Effective(ctx, "")
	if err != nil {
		return queue.Limits{}, err
	}
	names := f.namespaces
	if len(names) == 0 {
		var list corev1.NamespaceList
		if err := f.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return queue.Limits{}, fmt.Errorf("list Namespaces: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	all := make(map[string]*Effective, len(names))
	for _, name := range names {
		if all[name], err = f.source.Effective(ctx, name); err != nil {
			return queue.Limits{}, err
		}
	}
	return QueueLimits(without, all), nil
}
