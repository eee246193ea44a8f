// SPDX-License-Identifier: Apache-2.0

package teams

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// limit fills how many Scans each namespace may run at a time, and its share of the places that all of them have.
func (t *table) limit(q *web.Request, scope cluster.Scope) error {
	whole := &settingsv1alpha2.ClusterScanSetting{}
	err := q.Viewer.Get(q.Context(), client.ObjectKey{Name: settingsv1alpha2.Name}, whole)
	switch {
	case apierrors.IsForbidden(err):
		t.notes = append(t.notes, "You may not get clusterscansettings.settings.scanyard.io: limits of the cluster are missing here.")
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read settings of the cluster: %w", err)
	}
	spec := settingsv1alpha2.ClusterScanSettingSpec{}
	if whole.Status.InForce != nil {
		spec = *whole.Status.InForce
	}
	if spec.Limits != nil {
		for _, one := range t.byName {
			one.Limit = least(nil, spec.Limits.MaxRunningPerNamespace)
		}
	}
	denials, err := q.Viewer.Each(q.Context(), scope, &settingsv1alpha2.ScanSettingList{}, func(o client.Object) error {
		s, ok := o.(*settingsv1alpha2.ScanSetting)
		if ok && s.Name == settingsv1alpha2.Name && t.byName[s.Namespace] != nil && s.Status.InForce != nil && s.Status.InForce.Limits != nil {
			t.byName[s.Namespace].Limit = least(t.byName[s.Namespace].Limit, s.Status.InForce.Limits.MaxRunning)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	t.notes = append(t.notes, web.Notes("Settings", denials, nil)...)
	if !scope.All() {
		return nil // who shares with whom shows only where all are seen
	}
	return t.share(q, spec.Weights)
}

// least is the smaller of two limits; nil is none.
func least(a, b *int32) *int32 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// share fills which share of the places of the cluster each namespace has that has Scans waiting or running.
func (t *table) share(q *web.Request, weights []settingsv1alpha2.Weight) error {
	labelsOf := map[string]labels.Set{}
	for _, w := range weights {
		if w.NamespaceSelector == nil || len(labelsOf) > 0 {
			continue
		}
		denials, err := q.Viewer.Each(q.Context(), cluster.Scope{}, &corev1.NamespaceList{}, func(o client.Object) error {
			labelsOf[o.GetName()] = o.GetLabels()
			return nil
		})
		if err != nil {
			return fmt.Errorf("list namespaces: %w", err)
		}
		if len(denials) > 0 {
			return nil // without labels a share would be wrong
		}
	}
	sum := int64(0)
	shares := map[*team]int64{}
	for name, one := range t.byName {
		if one.Running+one.Waiting > 0 {
			shares[one] = weightOf(weights, name, labelsOf[name])
			sum += shares[one]
		}
	}
	for one, weight := range shares {
		one.QueueShare = fmt.Sprintf("%d %%", (100*weight+sum/2)/sum)
	}
	return nil
}

// weightOf is the weight of the first entry that fits a namespace, 1 without one.
func weightOf(weights []settingsv1alpha2.Weight, name string, of labels.Set) int64 {
	for _, w := range weights {
		fits := w.Namespace == name
		if w.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
			fits = err == nil && selector.Matches(of)
		}
		if fits {
			return int64(max(w.Weight, 1))
		}
	}
	return 1
}
