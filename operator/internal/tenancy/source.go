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

// Source returns the settings in force for the Scans of a namespace, from the cache: no call waits for
// the API server. A result is kept until one of its objects changes. A Source is safe for concurrent
// use.
type Source struct {
	reader     client.Reader
	defaults   settings.Defaults
	namespaces []string

	mu         sync.Mutex
	cluster    versioned[*settingsv1alpha2.ClusterScanSettingSpec]
	clusterUID types.UID
	known      map[string]versioned[*settings.Effective]
}

// maxKnown bounds the kept results: those of deleted namespaces must not accumulate.
const maxKnown = 20000

// versioned is a result computed from objects of known versions.
type versioned[T any] struct {
	of    string
	value T
}

// NewSource returns a Source that reads from a cache. The cache holds only the given namespaces; an
// empty list means all.
func NewSource(cached client.Reader, defaults settings.Defaults, namespaces []string) *Source {
	return &Source{reader: cached, defaults: defaults, namespaces: namespaces, known: map[string]versioned[*settings.Effective]{}}
}

// Effective returns the settings in force for the Scans of a namespace. The result is shared and must not be changed.
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

// clusterInForce remembers the settings in force for the cluster, since their validation takes a while.
// A change drops the results for the namespaces.
func (s *Source) clusterInForce(cluster *settingsv1alpha2.ClusterScanSetting) *settingsv1alpha2.ClusterScanSettingSpec {
	of := versionOf(cluster)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster.of == of {
		return s.cluster.value
	}
	spec := settings.ClusterInForce(cluster)
	if spec == nil && cluster != nil && cluster.UID == s.clusterUID {
		// A mistake in the bounds must not lift the bounds where the last valid ones are not recorded:
		// the time was too short, or the operator may not write them.
		spec = s.cluster.value
	}
	s.cluster, s.clusterUID = versioned[*settingsv1alpha2.ClusterScanSettingSpec]{of, spec}, ""
	if cluster != nil {
		s.clusterUID = cluster.UID
	}
	clear(s.known)
	return spec
}

// own reads the settings of a namespace; nil if there are none.
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

// labels reads the labels of a namespace if weights or sinks select by labels. An operator for some namespaces
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

// asksLabels reports whether settings select namespaces by labels.
func asksLabels(cluster *settingsv1alpha2.ClusterScanSettingSpec) bool {
	return cluster != nil && (slices.ContainsFunc(cluster.Weights, func(w settingsv1alpha2.Weight) bool { return w.NamespaceSelector != nil }) ||
		slices.ContainsFunc(cluster.ResultForwarding.All(), func(s settingsv1alpha2.NamedClusterSink) bool { return s.NamespaceSelector != nil }))
}

// get reads without a copy: no caller changes the result.
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

// versionOf identifies one version of one object.
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
