// SPDX-License-Identifier: Apache-2.0

package queue

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

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/settings"
)

// LimitsOf returns the limits that settings put on the queue: those of the cluster, and those
// of each namespace whose limits differ from the default.
func LimitsOf(without *settings.Effective, namespaces map[string]*settings.Effective) fair.Limits {
	l := fair.Limits{Cluster: boundsOf(without.Cluster), Default: tenantOf(without)}
	for name, e := range namespaces {
		t := tenantOf(e)
		if equality.Semantic.DeepEqual(t, l.Default) {
			continue
		}
		if l.Namespaces == nil {
			l.Namespaces = map[string]fair.Tenant{}
		}
		l.Namespaces[name] = t
	}
	return l
}

func tenantOf(e *settings.Effective) fair.Tenant {
	return fair.Tenant{
		Bounds: boundsOf(e.Namespace), Weight: max(e.Weight, 1),
		ByPriority: e.Order == settingsv1alpha2.OrderPriority, MaxPriority: e.MaxPriority,
	}
}

func boundsOf(l settings.Limits) fair.Bounds {
	return fair.Bounds{MaxRunning: l.MaxRunning, ScanTypes: l.ScanTypes, Targets: l.Targets}
}

// Settings returns the settings in force for the Scans of a namespace; "" means a namespace without settings.
type Settings interface {
	Effective(ctx context.Context, namespace string) (*settings.Effective, error)
}

// Feeder keeps the limits of a queue equal to the settings.
type Feeder struct {
	reader     client.Reader
	source     Settings
	namespaces []string
	set        func(fair.Limits)

	fed  bool
	last fair.Limits
}

// NewFeeder returns a Feeder that reads from a cache and hands the limits to set: once at the
// start, then on each change. The cache holds only the given namespaces; an empty list means all.
func NewFeeder(cached client.Reader, s Settings, namespaces []string, set func(fair.Limits)) *Feeder {
	return &Feeder{reader: cached, source: s, namespaces: namespaces, set: set}
}

// SetupWithManager starts a pass whenever an object changes from which the limits are computed.
func (f *Feeder) SetupWithManager(mgr ctrl.Manager) error {
	all := reconcile.Request{}
	all.Name = settingsv1alpha2.Name
	once := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{all} })
	b := ctrl.NewControllerManagedBy(mgr).
		Named("queue-limits").
		Watches(&settingsv1alpha2.ClusterScanSetting{}, once).
		Watches(&settingsv1alpha2.ScanSetting{}, once).
		// Without settings no watch would start the first pass.
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(all)
			return nil
		}))
	if len(f.namespaces) == 0 {
		b = b.Watches(&corev1.Namespace{}, once) // weights select them by label
	}
	return b.Complete(f)
}

// Reconcile computes the limits. There is only one request, so calls never run concurrently.
func (f *Feeder) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	l, err := f.limits(ctx)
	if err != nil || f.fed && equality.Semantic.DeepEqual(l, f.last) {
		return reconcile.Result{}, err
	}
	f.set(l)
	f.fed, f.last = true, l
	return reconcile.Result{}, nil
}

func (f *Feeder) limits(ctx context.Context) (fair.Limits, error) {
	without, err := f.source.Effective(ctx, "")
	if err != nil {
		return fair.Limits{}, err
	}
	names := f.namespaces
	if len(names) == 0 {
		var list corev1.NamespaceList
		if err := f.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return fair.Limits{}, fmt.Errorf("list Namespaces: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	all := make(map[string]*settings.Effective, len(names))
	for _, name := range names {
		if all[name], err = f.source.Effective(ctx, name); err != nil {
			return fair.Limits{}, err
		}
	}
	return LimitsOf(without, all), nil
}
