// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/operator/internal/caches"
)

// watched reads the accounts that have the same name in every namespace from watches of these names, and everything else from the API server. So
// a cache holds what Scans need again and again, and not every account and Role of the cluster.
type watched struct {
	client.Reader
	namespaces []string
	kinds      map[watchedKind]cache.Cache
	synced     map[watchedKind]func() bool
}

// watchedKind is one kind of object of one name.
type watchedKind struct {
	kind reflect.Type
	name string
}

// NewReader returns the reader for an Access whose operator works in some namespaces; an empty list means all. While a watch is not there yet, as
// where the operator lacks the right to it, live is asked.
func NewReader(ctx context.Context, mgr ctrl.Manager, live client.Reader, mode Mode, namespaces []string) (client.Reader, error) {
	w := &watched{Reader: live, namespaces: namespaces, kinds: map[watchedKind]cache.Cache{}, synced: map[watchedKind]func() bool{}}
	for name, kinds := range watchedKinds(mode) {
		c, err := newNamedCache(mgr, name, kinds, namespaces)
		if err != nil {
			return nil, fmt.Errorf("watch the accounts called %s: %w", name, err)
		}
		for _, o := range kinds {
			informer, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
			if err != nil {
				return nil, fmt.Errorf("watch %T %s: %w", o, name, err)
			}
			k := watchedKind{reflect.TypeOf(o), name}
			w.kinds[k], w.synced[k] = c, informer.HasSynced
		}
	}
	return w, nil
}

// watchedKinds are the kinds to watch, by the name of their objects. Of the accounts that secureCodeBox knows only the pull secrets matter where
// each Scan has its own.
func watchedKinds(mode Mode) map[string][]client.Object {
	whole := []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}}
	others := whole[:1]
	if mode == Shared {
		others = whole
	}
	return map[string][]client.Object{lurker.name: whole, parser.name: others, hook.name: others}
}

// newNamedCache returns a cache of the objects of one name: an API server selects by one name only.
func newNamedCache(mgr ctrl.Manager, name string, kinds []client.Object, namespaces []string) (cache.Cache, error) {
	o := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), ByObject: map[client.Object]cache.ByObject{},
		DefaultNamespaces: caches.Namespaces(namespaces), DefaultTransform: stripAccount,
	}
	for _, kind := range kinds {
		o.ByObject[kind] = cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
	}
	c, err := cache.New(mgr.GetConfig(), o)
	if err != nil {
		return nil, err
	}
	return c, mgr.Add(c)
}

// stripAccount leaves out what nobody reads.
func stripAccount(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
		o.SetLabels(nil)
		o.SetAnnotations(nil)
		o.SetOwnerReferences(nil)
	}
	if a, ok := in.(*corev1.ServiceAccount); ok {
		a.Secrets = nil
	}
	return in, nil
}

// Get reads an object.
func (w *watched) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	k := watchedKind{reflect.TypeOf(o), key.Name}
	synced := w.synced[k]
	if synced == nil || !synced() || len(w.namespaces) > 0 && !slices.Contains(w.namespaces, key.Namespace) {
		return w.Reader.Get(ctx, key, o, opts...)
	}
	return w.kinds[k].Get(ctx, key, o, opts...)
}
