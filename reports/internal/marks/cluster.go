// SPDX-License-Identifier: Apache-2.0

package marks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// Cluster is the Source of a cluster. Where it has no kinds of exceptions, they are never known, and nothing is marked.
type Cluster struct {
	own, cluster, namespaces cache.SharedIndexInformer
	changed                  chan struct{}
}

var _ Source = (*Cluster)(nil)

// NewCluster makes a Source of what kube-apiserver has.
func NewCluster(config *rest.Config) (*Cluster, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of exceptions: %w", err)
	}
	heads, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of namespaces: %w", err)
	}
	exceptions := func(resource string) cache.SharedIndexInformer {
		gvr := settingsv1alpha2.SchemeGroupVersion.WithResource(resource)
		return dynamicinformer.NewFilteredDynamicInformer(objects, gvr, metav1.NamespaceAll, 0, nil, nil).Informer()
	}
	c := &Cluster{
		own: exceptions("findingexceptions"), cluster: exceptions("clusterfindingexceptions"), changed: make(chan struct{}, 1),
		namespaces: metadatainformer.NewFilteredMetadataInformer(
			heads, corev1.SchemeGroupVersion.WithResource("namespaces"), metav1.NamespaceAll, 0, nil, nil,
		).Informer(),
	}
	_, err = c.namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell(c.changed) }, UpdateFunc: func(was, is any) {
			before, beforeOK := was.(*metav1.PartialObjectMetadata)
			after, afterOK := is.(*metav1.PartialObjectMetadata)
			if !beforeOK || !afterOK || !maps.Equal(before.Labels, after.Labels) {
				tell(c.changed)
			}
		},
	})
	return c, errors.Join(
		err, follow[settingsv1alpha2.FindingException](c.own, c.changed), follow[settingsv1alpha2.ClusterFindingException](c.cluster, c.changed),
	)
}

// tell tells of a change.
func tell(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default: // somebody is told already
	}
}

// follow keeps objects as what they are, and tells of changes.
func follow[T any](informer cache.SharedIndexInformer, changed chan<- struct{}) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell(changed) }, UpdateFunc: func(_, _ any) { tell(changed) }, DeleteFunc: func(any) { tell(changed) },
	})
	return errors.Join(
		err,
		informer.SetTransform(func(obj any) (any, error) {
			from, ok := obj.(*unstructured.Unstructured)
			if !ok {
				return obj, nil
			}
			from.SetManagedFields(nil)
			to := new(T)
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to)
			return to, err
		}),
		informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if !apierrors.IsNotFound(err) { // the cluster does not have the kind: that is looked at again and again
				cache.DefaultWatchErrorHandler(ctx, r, err)
			}
		}),
	)
}

// Run watches until its context ends.
func (c *Cluster) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{c.own, c.cluster, c.namespaces} {
		watches.Go(func() { informer.RunWithContext(ctx) })
	}
	watches.Wait()
	return nil
}

// Exceptions implements Source.
func (c *Cluster) Exceptions() (list []exception.Exception, known bool) {
	if !c.own.HasSynced() || !c.cluster.HasSynced() || !c.namespaces.HasSynced() {
		return nil, false
	}
	for _, obj := range c.own.GetStore().List() {
		if e, ok := obj.(*settingsv1alpha2.FindingException); ok {
			list = append(list, exception.Of(e))
		}
	}
	for _, obj := range c.cluster.GetStore().List() {
		if e, ok := obj.(*settingsv1alpha2.ClusterFindingException); ok {
			list = append(list, exception.OfCluster(e))
		}
	}
	return list, true
}

// Suppressed is what a finding says of an exception, as KIND/NAME, of its namespace or the cluster; nil if that is not known.
func (c *Cluster) Suppressed(namespace, name string) *reportsv1.Suppressed {
	kind, own, _ := strings.Cut(name, "/")
	store, key := c.cluster.GetStore(), own
	if kind == exception.Kind {
		store, key = c.own.GetStore(), namespace+"/"+own
	}
	obj, there, err := store.GetByKey(key)
	if err != nil || !there {
		return nil
	}
	var e exception.Exception
	switch obj := obj.(type) {
	case *settingsv1alpha2.FindingException:
		e = exception.Of(obj)
	case *settingsv1alpha2.ClusterFindingException:
		e = exception.OfCluster(obj)
	}
	return &reportsv1.Suppressed{
		By: "Exception", Name: name, Reason: e.Spec.Reason, Until: e.Spec.ExpiresAt, Justification: string(e.Spec.Justification),
	}
}

// Labels implements Source.
func (c *Cluster) Labels(namespace string) map[string]string {
	obj, there, err := c.namespaces.GetStore().GetByKey(namespace)
	if head, ok := obj.(*metav1.PartialObjectMetadata); ok && there && err == nil {
		return head.Labels
	}
	return nil
}

// Changed implements Source.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }
