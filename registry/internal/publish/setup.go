// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

// SetupWithManager registers the Reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	toRegistry := func(name func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name(o)}}}
		})
	}
	return ctrl.NewControllerManagedBy(mgr).Named("publish").For(&registryv1alpha1.Registry{}).
		Watches(&registryv1alpha1.DiscoveryJob{}, toRegistry(func(o client.Object) string { return o.(*registryv1alpha1.DiscoveryJob).Spec.Registry })).
		Watches(&registryv1alpha1.ScanJob{}, toRegistry(func(o client.Object) string { return o.(*registryv1alpha1.ScanJob).Spec.Registry })).
		Complete(r)
}
