// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

// SetupWithManager registers the Reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	toRegistry := func(name func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name(o)}}}
		})
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("registry").For(&registryv1alpha1.Registry{}).
		Watches(&registryv1alpha1.DiscoveryJob{}, toRegistry(registryOf)).
		Watches(&registryv1alpha1.ScanJob{}, toRegistry(registryOf))
	if r.Changed != nil {
		b = b.WatchesRawSource(source.Channel(r.Changed, &handler.EnqueueRequestForObject{}))
	}
	return b.Complete(r)
}

func registryOf(o client.Object) string {
	switch job := o.(type) {
	case *registryv1alpha1.DiscoveryJob:
		return job.Spec.Registry
	case *registryv1alpha1.ScanJob:
		return job.Spec.Registry
	}
	return ""
}
