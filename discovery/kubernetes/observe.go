// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

// shared skips the copy that a cache makes of what it returns: nothing here changes it.
var shared = client.UnsafeDisableDeepCopy

// upstreamManager is the field manager of what secureCodeBox's auto-discovery writes: the
// name of its binary.
const upstreamManager = "manager"

// lists is what was read, of one namespace or of all.
type lists struct {
	pods      corev1.PodList
	services  corev1.ServiceList
	ingresses networkingv1.IngressList
	routes    gatewayv1.HTTPRouteList
	gateways  gatewayv1.GatewayList
	accounts  corev1.ServiceAccountList
	scans     []executionv1.ScheduledScan
	// others are, if one namespace is read, the ScheduledScans of target namespaces that belong to other namespaces.
	others           []executionv1.ScheduledScan
	scanTypes        []metav1.PartialObjectMetadata
	clusterScanTypes []metav1.PartialObjectMetadata
}

// observer reads what passes look at.
type observer struct {
	reader client.Reader
	config *config.Compiled
	// gateway says whether the cluster serves the Gateway API.
	gateway bool
	// page bounds a response of the API server; 0 for a cache.
	page int64
}

// read reads one namespace, or all where it is empty.
func (o *observer) read(ctx context.Context, namespace string) (*lists, error) {
	l := &lists{}
	in := []client.ListOption{client.InNamespace(namespace), shared}
	if o.page > 0 {
		// Kubernetes responds in pages; the client of a report joins them.
		in = append(in, client.Limit(o.page))
	}
	c := o.config
	for _, kind := range []struct {
		needed bool
		list   client.ObjectList
		all    bool
	}{
		{c.ServiceAutoDiscovery.Enabled || c.ContainerAutoDiscovery.Enabled, &l.pods, false},
		{c.ServiceAutoDiscovery.Enabled, &l.services, false},
		{c.IngressAutoDiscovery.Enabled, &l.ingresses, false},
		{c.GatewayAutoDiscovery.Enabled && o.gateway, &l.routes, false},
		{c.GatewayAutoDiscovery.Enabled && o.gateway, &l.gateways, true},
		{c.NeedsServiceAccounts(), &l.accounts, false},
	} {
		if !kind.needed {
			continue
		}
		options := in
		if kind.all {
			options = []client.ListOption{shared}
		}
		err := o.list(ctx, kind.list, options...)
		if kind.all && namespace != "" && apierrors.IsForbidden(err) {
			err = o.list(ctx, kind.list, in...) // a team sees its own
		}
		if err != nil {
			return nil, err
		}
	}
	return l, o.readScans(ctx, namespace, l)
}

// readScans reads the ScheduledScans and the names of the scan types.
func (o *observer) readScans(ctx context.Context, namespace string, l *lists) error {
	var scans executionv1.ScheduledScanList
	if err := o.list(ctx, &scans, client.InNamespace(namespace), shared); err != nil {
		return err
	}
	l.scans = scans.Items
	namespaces := []string{namespace}
	if namespace != "" {
		namespaces = sets.List(sets.New(o.config.TargetNamespaces()...).Insert(namespace))
		if err := o.readScansElsewhere(ctx, namespace, l); err != nil {
			return err
		}
	}
	for _, n := range namespaces {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ScanTypeList"))
		if err := o.list(ctx, &list, client.InNamespace(n), shared); err != nil {
			return err
		}
		l.scanTypes = append(l.scanTypes, list.Items...)
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ClusterScanTypeList"))
	if err := o.list(ctx, &list, shared); err != nil {
		return err
	}
	l.clusterScanTypes = list.Items
	return nil
}

// readScansElsewhere reads the ScheduledScans for a namespace that are in others. From a cache it reads all, so
// that those of a former targetNamespace are found; a report reads only where they should be, since a team may
// not list all.
func (o *observer) readScansElsewhere(ctx context.Context, namespace string, l *lists) error {
	places := []string{""}
	if o.page > 0 {
		places = o.config.TargetNamespaces()
	}
	for _, place := range places {
		var more executionv1.ScheduledScanList
		if err := o.list(ctx, &more, client.InNamespace(place), client.MatchingLabels{targets.LabelSourceNamespace: namespace}, shared); err != nil {
			return err
		}
		for i := range more.Items {
			if more.Items[i].Namespace != namespace {
				l.scans = append(l.scans, more.Items[i])
			}
		}
	}
	return o.readOthers(ctx, namespace, l)
}

// readOthers reads which names in target namespaces are taken by other namespaces.
func (o *observer) readOthers(ctx context.Context, namespace string, l *lists) error {
	others, err := labels.NewRequirement(targets.LabelSourceNamespace, selection.NotIn, []string{namespace})
	if err != nil {
		return fmt.Errorf("select the ScheduledScans of others: %w", err)
	}
	for _, place := range o.config.TargetNamespaces() {
		if place == namespace {
			continue // they are read already
		}
		var more executionv1.ScheduledScanList
		if err := o.list(ctx, &more, client.InNamespace(place), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*others)}, shared); err != nil {
			return err
		}
		l.others = append(l.others, more.Items...)
	}
	return nil
}

// list reads a list, page by page where there are pages.
func (o *observer) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := o.reader.List(ctx, list, options...)
	for err == nil && o.page > 0 && list.GetContinue() != "" {
		next, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			break
		}
		if err = o.reader.List(ctx, next, append(options, client.Continue(list.GetContinue()))...); err != nil {
			break
		}
		err = appendTo(list, next)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", kindOf(list), err)
	}
	return nil
}

// appendTo adds the items of the next page, and takes over where it ends.
func appendTo(list, next client.ObjectList) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	more, err := meta.ExtractList(next)
	if err != nil {
		return err
	}
	list.SetContinue(next.GetContinue())
	return meta.SetList(list, append(items, more...))
}

// kindOf is the name of what a list holds, for errors.
func kindOf(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return strings.TrimSuffix(kind, "List") + "s"
	}
	return strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List") + "s"
}

// observation is what a pass over a namespace sees of what was read.
func (l *lists) observation(namespace *corev1.Namespace, c *config.Compiled, now time.Time) *targets.Observation {
	in := func(o metav1.Object) bool { return o.GetNamespace() == namespace.Name }
	v := &targets.Observation{
		Now: now, Namespace: namespace,
		Pods: pick(l.pods.Items, in), Services: pick(l.services.Items, in),
		Ingresses: pick(l.ingresses.Items, in), HTTPRoutes: pick(l.routes.Items, in),
		Gateways:         map[types.NamespacedName]*gatewayv1.Gateway{},
		ServiceAccounts:  map[string]*corev1.ServiceAccount{},
		ScanTypes:        map[string]sets.Set[string]{},
		ClusterScanTypes: sets.New[string](),
		Existing:         map[types.NamespacedName]*targets.Existing{},
		Taken:            map[types.NamespacedName]string{},
	}
	for i := range l.gateways.Items {
		g := &l.gateways.Items[i]
		v.Gateways[client.ObjectKeyFromObject(g)] = g
	}
	for _, a := range pick(l.accounts.Items, in) {
		v.ServiceAccounts[a.Name] = a
	}
	for i := range l.scanTypes {
		t := &l.scanTypes[i]
		if v.ScanTypes[t.Namespace] == nil {
			v.ScanTypes[t.Namespace] = sets.New[string]()
		}
		v.ScanTypes[t.Namespace].Insert(t.Name)
	}
	for i := range l.clusterScanTypes {
		v.ClusterScanTypes.Insert(l.clusterScanTypes[i].Name)
	}
	targets := c.TargetNamespaces()
	for i := range l.scans {
		switch s := &l.scans[i]; {
		case sourceOf(s) == namespace.Name:
			v.Existing[client.ObjectKeyFromObject(s)] = existing(s, c.FieldOwner())
		case s.Namespace == namespace.Name || slices.Contains(targets, s.Namespace):
			v.Taken[client.ObjectKeyFromObject(s)] = sourceOf(s)
		}
	}
	for i := range l.others {
		v.Taken[client.ObjectKeyFromObject(&l.others[i])] = sourceOf(&l.others[i])
	}
	return v
}

// pick are the objects that hold; they are not copied.
func pick[T any, P interface {
	*T
	metav1.Object
}](all []T, holds func(metav1.Object) bool) []P {
	var some []P
	for i := range all {
		if o := P(&all[i]); holds(o) {
			some = append(some, o)
		}
	}
	return some
}

// sourceOf is the namespace of what a ScheduledScan scans.
func sourceOf(o metav1.Object) string {
	if source := o.GetLabels()[targets.LabelSourceNamespace]; source != "" {
		return source
	}
	return o.GetNamespace()
}

// existing describes which clients have written a ScheduledScan.
func existing(s *executionv1.ScheduledScan, owner string) *targets.Existing {
	e := &targets.Existing{ScheduledScan: s}
	e.Owned, e.Ours = targets.OwnedBy(s, owner)
	for _, m := range s.ManagedFields {
		e.Upstream = e.Upstream || m.Manager == upstreamManager && m.Subresource == ""
	}
	return e
}

// servesGateways says whether the cluster serves HTTPRoutes and Gateways.
func servesGateways(mapper meta.RESTMapper) (bool, error) {
	for _, kind := range []string{"HTTPRoute", "Gateway"} {
		_, err := mapper.RESTMapping(schema.GroupKind{Group: gatewayv1.GroupName, Kind: kind}, gatewayv1.GroupVersion.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("ask for the Gateway API: %w", err)
		}
	}
	return true, nil
}
