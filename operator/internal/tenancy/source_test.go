// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// stored is a cache with one ClusterScanSetting, which is what a pass of a Scan reads most.
type stored struct {
	client.Reader // anything else that is read panics

	cluster *settingsv1alpha2.ClusterScanSetting
}

func (s stored) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c, ok := o.(*settingsv1alpha2.ClusterScanSetting); ok {
		*c = *s.cluster
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func clusterSetting(spec settingsv1alpha2.ClusterScanSettingSpec) *settingsv1alpha2.ClusterScanSetting {
	return &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Generation: 1}, Spec: spec}
}

// TestSourceOfSomeNamespaces: what may not be read is not read, and a mistake lifts no bound
// where the last valid bounds could not be recorded.
func TestSourceOfSomeNamespaces(t *testing.T) {
	c := clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{
		Limits:  &settingsv1alpha2.ClusterLimits{MaxRunningPerNamespace: new(int32(3))},
		Weights: []settingsv1alpha2.Weight{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}, Weight: 9}},
	})
	c.UID, c.ResourceVersion = "u", "1"
	cached := stored{cluster: c}
	s := NewSource(cached, settings.Defaults{}, []string{"team-a"})
	check := func() {
		t.Helper()
		e, err := s.Effective(t.Context(), "team-a")
		if err != nil {
			t.Fatal(err)
		}
		if e.Namespace.MaxRunning == nil || *e.Namespace.MaxRunning != 3 || e.Weight != 1 {
			t.Errorf("limits %+v, weight %d, want 3 and 1", e.Namespace, e.Weight)
		}
	}
	check()
	c.Spec.Limits, c.Spec.JobPatches, c.ResourceVersion = nil, []settingsv1alpha2.JobPatch{{Patch: "no"}}, "2"
	check()
}

const tolerate = "spec: {template: {spec: {tolerations: [{key: scans, operator: Exists}]}}}"

// BenchmarkEffective is what every pass of every Scan pays.
func BenchmarkEffective(b *testing.B) {
	c := clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: tolerate}}})
	s := NewSource(stored{cluster: c}, settings.Defaults{}, nil)
	for b.Loop() {
		if _, err := s.Effective(b.Context(), "team-a"); err != nil {
			b.Fatal(err)
		}
	}
}
