// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	workers    = 4
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Minute
	// passTimeout bounds one pass, so that a server that does not respond cannot block a worker.
	passTimeout = 5 * time.Minute
	// settle is how long after a change a namespace is looked at: changes come in crowds.
	settle = time.Second
)

// AddToScheme registers the kinds that are read, besides those of Kubernetes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, gatewayv1.Install, executionv1.AddToScheme} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// cacheOptions say what is kept of each kind.
func cacheOptions(owner string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Transform: stripPod},
		&corev1.ServiceAccount{}:     {Transform: stripAccount},
		&executionv1.ScheduledScan{}: {Transform: stripScheduledScan(owner)},
	}
}

// lastApplied holds a second copy of an object, which nothing here reads.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// strip drops of every kind what nothing reads.
func strip(in any) (any, error) {
	if o, ok := in.(metav1.Object); ok {
		o.SetManagedFields(nil)
		delete(o.GetAnnotations(), lastApplied)
	}
	return in, nil
}

// stripPod keeps names, images and digests: a pod is large, and there are many.
func stripPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	spec := corev1.PodSpec{ImagePullSecrets: p.Spec.ImagePullSecrets, ServiceAccountName: p.Spec.ServiceAccountName}
	for _, c := range p.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	for _, c := range p.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	for _, c := range p.Spec.EphemeralContainers {
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Image: c.Image},
		})
	}
	p.Spec = spec
	p.Status = corev1.PodStatus{
		Phase: p.Status.Phase, ContainerStatuses: stripStatuses(p.Status.ContainerStatuses),
		InitContainerStatuses:      stripStatuses(p.Status.InitContainerStatuses),
		EphemeralContainerStatuses: stripStatuses(p.Status.EphemeralContainerStatuses),
	}
	return strip(p)
}

func stripStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, c := range all {
		kept = append(kept, corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, Image: c.Image, ImageID: c.ImageID})
	}
	return kept
}

func stripAccount(in any) (any, error) {
	if a, ok := in.(*corev1.ServiceAccount); ok {
		a.Secrets = nil
	}
	return strip(in)
}

// stripScheduledScan keeps who has written it, and which fields we have.
func stripScheduledScan(owner string) func(any) (any, error) {
	return func(in any) (any, error) {
		s, ok := in.(*executionv1.ScheduledScan)
		if !ok {
			return in, nil
		}
		s.Status = executionv1.ScheduledScanStatus{}
		for i := range s.ManagedFields {
			if m := &s.ManagedFields[i]; m.Manager != owner {
				*m = metav1.ManagedFieldsEntry{Manager: m.Manager, Subresource: m.Subresource}
			}
		}
		delete(s.Annotations, lastApplied)
		return s, nil
	}
}

// SetupWithManager registers the Reconciler and its watches: only of the kinds that the configuration needs.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	scanType, clusterScanType := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	scanType.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ScanType"))
	clusterScanType.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ClusterScanType"))
	c := r.Config
	b := ctrl.NewControllerManagedBy(mgr).Named("autodiscovery").
		Watches(&corev1.Namespace{}, enqueue(nameOf), builder.WithPredicates(changed(sameNamespace))).
		Watches(&executionv1.ScheduledScan{}, enqueue(source), builder.WithPredicates(changed(sameScheduledScan))).
		Watches(scanType, r.enqueueUsers(), builder.WithPredicates(existence())).
		Watches(clusterScanType, r.enqueueAll(), builder.WithPredicates(existence()))
	if c.ServiceAutoDiscovery.Enabled || c.ContainerAutoDiscovery.Enabled {
		b = b.Watches(&corev1.Pod{}, enqueue(namespaceOf), builder.WithPredicates(changed(samePod)))
	}
	if c.ServiceAutoDiscovery.Enabled {
		b = b.Watches(&corev1.Service{}, enqueue(namespaceOf), builder.WithPredicates(changed(sameService)))
	}
	if c.NeedsServiceAccounts() {
		b = b.Watches(&corev1.ServiceAccount{}, enqueue(namespaceOf), builder.WithPredicates(changed(sameAccount)))
	}
	if c.IngressAutoDiscovery.Enabled {
		b = b.Watches(&networkingv1.Ingress{}, enqueue(namespaceOf), builder.WithPredicates(changed(sameGeneration)))
	}
	if c.GatewayAutoDiscovery.Enabled && r.Gateway {
		b = b.Watches(&gatewayv1.HTTPRoute{}, enqueue(namespaceOf), builder.WithPredicates(changed(sameGeneration))).
			Watches(&gatewayv1.Gateway{}, r.enqueueAll(), builder.WithPredicates(changed(sameGeneration)))
	}
	return b.WithOptions(controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		ReconciliationTimeout:   passTimeout,
	}).Complete(r)
}

func nameOf(o client.Object) string      { return o.GetName() }
func namespaceOf(o client.Object) string { return o.GetNamespace() }
func source(o client.Object) string      { return sourceOf(o) }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueue has a namespace looked at soon, once for all changes that come until then.
func enqueue(namespace func(client.Object) string) handler.EventHandler {
	add := func(o client.Object, q queue) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace(o)}}, settle)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

// enqueueAll has all namespaces looked at.
func (r *Reconciler) enqueueAll() handler.EventHandler {
	return r.enqueueEach(func(client.Object) bool { return true })
}

// enqueueUsers has the namespace of a ScanType looked at; all, where it is one in which
// scans of other namespaces are.
func (r *Reconciler) enqueueUsers() handler.EventHandler {
	targets := r.Config.TargetNamespaces()
	return r.enqueueEach(func(o client.Object) bool {
		for _, t := range targets {
			if o.GetNamespace() == t {
				return true
			}
		}
		return false
	})
}

// enqueueEach has all namespaces looked at where a change is about all, else its own.
func (r *Reconciler) enqueueEach(about func(client.Object) bool) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q queue) {
		if !about(o) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}, settle)
			return
		}
		var all corev1.NamespaceList
		if err := r.Client.List(ctx, &all, shared); err != nil {
			// The next look at every namespace is at most one interval away.
			ctrl.LoggerFrom(ctx).Error(err, "List Namespaces")
			return
		}
		for i := range all.Items {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[i].Name}}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// changed passes updates on where what is looked at differs.
func changed(same func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !sameMeta(e.ObjectOld, e.ObjectNew) || !same(e.ObjectOld, e.ObjectNew)
	}}
}

// existence passes on that objects come and go.
func existence() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

func sameMeta(a, b client.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) && a.GetUID() == b.GetUID()
}

func sameNamespace(_, _ client.Object) bool { return true }

func sameGeneration(a, b client.Object) bool { return a.GetGeneration() == b.GetGeneration() }

// sameScheduledScan leaves out what the operator writes into the status.
func sameScheduledScan(a, b client.Object) bool {
	return a.GetGeneration() == b.GetGeneration() && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

func samePod(a, b client.Object) bool {
	before, ok := a.(*corev1.Pod)
	after, isPod := b.(*corev1.Pod)
	return ok && isPod && equality.Semantic.DeepEqual(before.Spec, after.Spec) && equality.Semantic.DeepEqual(before.Status, after.Status)
}

func sameService(a, b client.Object) bool {
	before, ok := a.(*corev1.Service)
	after, isService := b.(*corev1.Service)
	return ok && isService && equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

func sameAccount(a, b client.Object) bool {
	before, ok := a.(*corev1.ServiceAccount)
	after, isAccount := b.(*corev1.ServiceAccount)
	return ok && isAccount && equality.Semantic.DeepEqual(before.ImagePullSecrets, after.ImagePullSecrets)
}
