// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// CacheOptions returns which parts of the objects of settings the cache keeps. Of a Namespace only the
// labels are needed.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&settingsv1alpha2.ScanSetting{}:        {Transform: cache.TransformStripManagedFields()},
		&settingsv1alpha2.ClusterScanSetting{}: {Transform: cache.TransformStripManagedFields()},
		&corev1.Namespace{}:                    {Transform: stripNamespace},
	}
}

func stripNamespace(in any) (any, error) {
	n, ok := in.(*corev1.Namespace)
	if !ok {
		return in, nil
	}
	return &corev1.Namespace{TypeMeta: n.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels, DeletionTimestamp: n.DeletionTimestamp,
	}}, nil
}

// SetupWithManager registers the Reconciler and its watches. It puts into the cache what a Source reads:
// Namespaces only if the operator works in all of them, since reading Namespaces is a right in the
// whole cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, namespaces []string) error {
	read := []client.Object{&settingsv1alpha2.ScanSetting{}, &settingsv1alpha2.ClusterScanSetting{}}
	if len(namespaces) == 0 {
		read = append(read, &corev1.Namespace{})
	}
	// Not left to the watches: a replica that does not lead has none, and serves requests of uploads.
	for _, o := range read {
		if _, err := mgr.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("settings").
		For(&settingsv1alpha2.ScanSetting{}).
		Watches(&settingsv1alpha2.ClusterScanSetting{}, handler.EnqueueRequestsFromMapFunc(r.allSettings)).
		// A newly installed ScanType or hook may match a patch.
		Watches(&executionv1.ScanType{}, handler.EnqueueRequestsFromMapFunc(r.settingsThatPatch), comesOrGoes()).
		Watches(&executionv1.ClusterScanType{}, handler.EnqueueRequestsFromMapFunc(r.settingsThatPatch), comesOrGoes()).
		Watches(&executionv1.ScanCompletionHook{}, handler.EnqueueRequestsFromMapFunc(r.settingsThatPatch), comesOrGoes()).
		Watches(&executionv1.ClusterScanCompletionHook{}, handler.EnqueueRequestsFromMapFunc(r.settingsThatPatch), comesOrGoes()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// comesOrGoes ignores changes: only names are needed.
func comesOrGoes() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
}

// allSettings returns the settings of the cluster and of all namespaces.
func (r *Reconciler) allSettings(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, "", func([]settingsv1alpha2.JobPatch) bool { return true })
}

// settingsThatPatch returns the settings whose patches name a ScanType or a hook of an object's namespace.
func (r *Reconciler) settingsThatPatch(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, o.GetNamespace(), func(patches []settingsv1alpha2.JobPatch) bool {
		return slices.ContainsFunc(patches, func(p settingsv1alpha2.JobPatch) bool {
			return p.Target != nil && (slices.Contains(p.Target.ScanTypes, o.GetName()) || slices.Contains(p.Target.Hooks, o.GetName()))
		})
	})
}

func (r *Reconciler) requests(ctx context.Context, namespace string, wanted func([]settingsv1alpha2.JobPatch) bool) []reconcile.Request {
	var requests []reconcile.Request
	var cluster settingsv1alpha2.ClusterScanSettingList
	var own settingsv1alpha2.ScanSettingList
	options := []client.ListOption{client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency}
	if err := r.client.List(ctx, &cluster, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List ClusterScanSettings")
	}
	for i := range cluster.Items {
		if wanted(cluster.Items[i].Spec.JobPatches) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster.Items[i].Name}})
		}
	}
	if err := r.client.List(ctx, &own, append(options, client.InNamespace(namespace))...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List ScanSettings")
	}
	for i := range own.Items {
		if wanted(own.Items[i].Spec.JobPatches) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&own.Items[i])})
		}
	}
	return requests
}
