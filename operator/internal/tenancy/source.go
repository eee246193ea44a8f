// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// Source tells what holds for the Scans of a namespace, from the cache: no answer waits for the
// API server. What was computed is kept for as long as none of the objects it is made of has
// changed. It is safe for concurrent use.
type Source struct {
	reader     client.Reader
	defaults   settings.Defaults
	namespaces []string

	mu         sync.Mutex
	cluster    versioned[*settingsv1alpha2.ClusterScanSettingSpec]
	clusterUID types.UID
	known      map[string]versioned[*settings.Effective]
}

// maxKnown bounds what is kept: namespaces that are gone must not pile up.
const maxKnown = 20000

// versioned is what was made of objects of some versions.
type versioned[T any] struct {
	of    string
	value T
}

// NewSource returns a Source that reads from a cache. Namespaces are the only ones that the
// cache has; none means all.
func NewSource(cached client.Reader, defaults settings.Defaults, namespaces []string) *Source {
	return &Source{reader: cached, defaults: defaults, namespaces: namespaces, known: map[string]versioned[*settings.Effective]{}}
}

// Effective returns what holds for the Scans of a namespace. It is shared: do not change it.
func (s *Source) Effective(ctx context.Context, namespace string) (*settings.Effective, error) {
	var cluster *settingsv1alpha2.ClusterScanSetting
	c := &settingsv1alpha2.ClusterScanSetting{}
	if found, err := s.get(ctx, types.NamespacedName{Name: settingsv1alpha2.Name}, c); err != nil {
		return nil, err
	} else if found {
		cluster = c
	}
	spec := s.clusterInForce(cluster)
	own, of, err := s.own(ctx, namespace)
	if err != nil {
		return nil, err
	}
	labels, version, err := s.labels(ctx, spec, namespace)
	if err != nil {
		return nil, err
	}
	of = versionOf(cluster) + " " + of + " " + version
	s.mu.Lock()
	known, ok := s.known[namespace]
	s.mu.Unlock()
	if ok && known.of == of {
		return known.value, nil
	}
	in := settings.Input{Namespace: namespace, Labels: labels, Cluster: spec, Setting: settings.InForce(spec, own), Defaults: s.defaults}
	if cluster != nil {
		in.ClusterUID = cluster.UID
	}
	if own != nil {
		in.SettingUID = own.UID
	}
	e := settings.Compute(in)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[namespace] = versioned[*settings.Effective]{of, e}
	return e, nil
}

// clusterInForce remembers what is in force for the cluster, since judging it takes a while. When
// it changes, what was computed for the namespaces goes.
func (s *Source) clusterInForce(cluster *settingsv1alpha2.ClusterScanSetting) *settingsv1alpha2.ClusterScanSettingSpec {
	of := versionOf(cluster)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster.of == of {
		return s.cluster.value
	}
	spec := settings.ClusterInForce(cluster)
	if spec == nil && cluster != nil && cluster.UID == s.clusterUID {
		// A mistake in the bounds must not lift them where nobody has written the last good ones
		// down: too short a time before, or an operator that may not.
		spec = s.cluster.value
	}
	s.cluster, s.clusterUID = versioned[*settingsv1alpha2.ClusterScanSettingSpec]{of, spec}, ""
	if cluster != nil {
		s.clusterUID = cluster.UID
	}
	clear(s.known)
	return spec
}

// own reads the settings of a namespace; nil where there are none.
func (s *Source) own(ctx context.Context, namespace string) (own *settingsv1alpha2.ScanSetting, of string, err error) {
	if namespace == "" || len(s.namespaces) > 0 && !slices.Contains(s.namespaces, namespace) {
		return nil, "", nil
	}
	o := &settingsv1alpha2.ScanSetting{}
	found, err := s.get(ctx, types.NamespacedName{Namespace: namespace, Name: settingsv1alpha2.Name}, o)
	if err != nil || !found {
		return nil, "", err
	}
	return o, versionOf(o), nil
}

// labels reads those of a namespace where weights or sinks ask for them. An operator for some namespaces
// may not read Namespaces.
func (s *Source) labels(
	ctx context.Context, cluster *settingsv1alpha2.ClusterScanSettingSpec, namespace string,
) (of map[string]string, version string, err error) {
	if namespace == "" || len(s.namespaces) > 0 || !asksLabels(cluster) {
		return nil, "", nil
	}
	n := &corev1.Namespace{}
	if _, err := s.get(ctx, types.NamespacedName{Name: namespace}, n); err != nil {
		return nil, "", err
	}
	return n.Labels, versionOf(n), nil
}

// asksLabels says whether something is selected by the labels of namespaces.
func asksLabels(cluster *settingsv1alpha2.ClusterScanSettingSpec) bool {
	return cluster != nil && (slices.ContainsFunc(cluster.Weights, func(w settingsv1alpha2.Weight) bool { return w.NamespaceSelector != nil }) ||
		slices.ContainsFunc(cluster.ResultForwarding.All(), func(s settingsv1alpha2.NamedClusterSink) bool { return s.NamespaceSelector != nil }))
}

// get reads without a copy: nobody changes what is read here.
func (s *Source) get(ctx context.Context, key types.NamespacedName, o client.Object) (bool, error) {
	err := s.reader.Get(ctx, key, o, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %T %s: %w", o, key, err)
	}
	return true, nil
}

// versionOf tells two versions of an object, and two objects of one name, from each other.
func versionOf[T interface {
	comparable
	client.Object
}](o T) string {
	var none T
	if o == none {
		return "-"
	}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}
