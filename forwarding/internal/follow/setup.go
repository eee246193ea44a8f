// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

const lookers = 4

// SetupWithManager registers the Follower, its controllers and their watches.
func (f *Follower) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(f); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(f.keepKeys)); err != nil {
		return err
	}
	if err := f.setupReleases(mgr); err != nil {
		return err
	}
	changed := builder.WithPredicates(settingChanged())
	err := ctrl.NewControllerManagedBy(mgr).Named("scans").For(&executionv1.Scan{}).
		Watches(&settingsv1alpha2.ClusterScanSetting{}, f.scansOf(func(client.Object) string { return "" }), changed).
		Watches(&settingsv1alpha2.ScanSetting{}, f.scansOf(client.Object.GetNamespace), changed).
		Watches(&corev1.Namespace{}, f.scansOf(client.Object.GetName), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(f.scanEvents, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: lookers}).Complete(f)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name   string
		object client.Object
		events chan event.GenericEvent
	}{{"clusterscansettings", &settingsv1alpha2.ClusterScanSetting{}, f.clusterEvents}, {"scansettings", &settingsv1alpha2.ScanSetting{}, f.settingEvents}} {
		r := &settingsReconciler{f: f, cluster: one.events == f.clusterEvents, written: map[types.NamespacedName]time.Time{}}
		err := ctrl.NewControllerManagedBy(mgr).Named(one.name).For(one.object).
			WatchesRawSource(source.Channel(one.events, &handler.EnqueueRequestForObject{})).Complete(r)
		if err != nil {
			return err
		}
	}
	return nil
}

// scansOf has the Scans of a namespace looked at; of all namespaces for "".
func (f *Follower) scansOf(namespace func(client.Object) string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		list := &executionv1.ScanList{}
		if err := f.o.Client.List(ctx, list, client.InNamespace(namespace(o)), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List Scans after a change of settings; they are looked at again within ten minutes")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return requests
	})
}

// settingChanged passes over what the forwarder itself writes into the status, but for new sinks.
func settingChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || settings.Verdict(e.ObjectOld) != settings.Verdict(e.ObjectNew) ||
			!slices.Equal(sinceIn(e.ObjectOld), sinceIn(e.ObjectNew))
	}}
}

// sinceIn says which sinks a setting has, and since when.
func sinceIn(o client.Object) []string {
	var sinks []settingsv1alpha2.SinkStatus
	switch o := o.(type) {
	case *settingsv1alpha2.ClusterScanSetting:
		sinks = o.Status.Sinks
	case *settingsv1alpha2.ScanSetting:
		sinks = o.Status.Sinks
	}
	texts := make([]string, 0, len(sinks))
	for i := range sinks {
		text := sinks[i].Name
		if since := sinks[i].Since; since != nil {
			text += " " + since.UTC().Format(time.RFC3339)
		}
		texts = append(texts, text)
	}
	return texts
}
