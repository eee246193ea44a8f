// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

// SetupWithManager registers the Reconciler and its watches.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { return r.ofRegistry(ctx, o) })
	return ctrl.NewControllerManagedBy(mgr).Named(string(r.kind)).For(r.empty().object()).
		Watches(&registryv1alpha1.Registry{}, all).
		WatchesRawSource(source.Channel(r.woken, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// ofRegistry are the jobs that have not ended of a Registry that has changed.
func (r *Reconciler) ofRegistry(ctx context.Context, registry client.Object) []reconcile.Request {
	all, err := r.list(ctx, registry.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "List jobs of a Registry")
		return nil
	}
	var requests []reconcile.Request
	for _, a := range all {
		if a.spec().Registry == registry.GetName() && !a.isEnded() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a.object())})
		}
	}
	return requests
}
