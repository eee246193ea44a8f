// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/registry/internal/config"
)

// Limits are what is in force for a namespace.
type Limits struct {
	// Denied: nothing is done for its Registries.
	Denied bool
	// AllowedHosts are the lists of the settings; a host fits one pattern of each.
	AllowedHosts [][]string
	Registries   int
	Repositories int64
	Images       int64
	Concurrent   int
	Bytes        int64
	// Weight is the namespace's share of the work.
	Weight int64
}

// Settings are those that are stored; nil: there is none.
type Settings struct {
	Cluster *settingsv1alpha2.ClusterScanSetting
	Own     *settingsv1alpha2.ScanSetting
	// Labels are those of the namespace, where a weight asks for them.
	Labels map[string]string
}

// Of are the limits of a namespace.
func Of(c *config.Config, namespace string, s Settings) Limits {
	l := Limits{
		Registries: c.Quotas.Registries, Repositories: c.Quotas.Repositories, Images: c.Quotas.Images, Concurrent: c.Quotas.Concurrent,
		Bytes: c.Quotas.BytesPerDay.Value(), Weight: 1,
	}
	if spec := clusterInForce(s.Cluster); spec != nil {
		l.tighten(spec.Registry)
		l.Weight = weight(spec.Weights, namespace, s.Labels)
	}
	if spec := inForce(s.Own); spec != nil {
		l.tighten(spec.Registry)
	}
	return l
}

func clusterInForce(s *settingsv1alpha2.ClusterScanSetting) *settingsv1alpha2.ClusterScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case isWrong(s.Generation, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

func inForce(s *settingsv1alpha2.ScanSetting) *settingsv1alpha2.ScanSettingSpec {
	switch {
	case s == nil:
		return nil
	case isWrong(s.Generation, s.Status.Conditions):
		return s.Status.InForce
	}
	return &s.Spec
}

// isWrong tells whether the operator has found a mistake in this very spec.
func isWrong(generation int64, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, settingsv1alpha2.ConditionReady)
	return c != nil && c.ObservedGeneration == generation && c.Status == metav1.ConditionFalse
}

// tighten takes what is tighter.
func (l *Limits) tighten(s *settingsv1alpha2.RegistryScanning) {
	if s == nil {
		return
	}
	l.Denied = l.Denied || s.Denied != nil && *s.Denied
	if len(s.AllowedHosts) > 0 {
		l.AllowedHosts = append(l.AllowedHosts, s.AllowedHosts)
	}
	q := s.Quotas
	if q == nil {
		return
	}
	lower(&l.Registries, q.Registries)
	lower(&l.Repositories, q.Repositories)
	lower(&l.Images, q.Images)
	lower(&l.Concurrent, q.Concurrent)
	if q.BytesPerDay != nil {
		l.Bytes = min(l.Bytes, q.BytesPerDay.Value())
	}
}

func lower[T int | int64](bound *T, own *int32) {
	if own != nil {
		*bound = min(*bound, T(*own))
	}
}

// weight is that of the first entry that fits.
func weight(weights []settingsv1alpha2.Weight, namespace string, of map[string]string) int64 {
	for _, w := range weights {
		fits := w.Namespace == namespace
		if w.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
			fits = err == nil && selector.Matches(labels.Set(of))
		}
		if fits {
			return int64(max(w.Weight, 1))
		}
	}
	return 1
}

// asksLabels tells whether weights go by labels of namespaces.
func asksLabels(s *settingsv1alpha2.ClusterScanSetting) bool {
	spec := clusterInForce(s)
	if spec == nil {
		return false
	}
	for _, w := range spec.Weights {
		if w.NamespaceSelector != nil {
			return true
		}
	}
	return false
}
