// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/registry/internal/config"
)

type (
	scanning = settingsv1alpha2.RegistryScanning
	quotas   = settingsv1alpha2.RegistryQuotas
)

func installation(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Read("")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cluster(spec settingsv1alpha2.ClusterScanSettingSpec) *settingsv1alpha2.ClusterScanSetting {
	return &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: spec}
}

func own(r *scanning) *settingsv1alpha2.ScanSetting {
	return &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: settingsv1alpha2.ScanSettingSpec{Registry: r}}
}

// TestTightestBoundApplies puts bounds of the installation, the cluster and a namespace over each other.
func TestTightestBoundApplies(t *testing.T) {
	const gibi = 1 << 30
	standard := Limits{Registries: 20, Repositories: 5000, Images: 20000, Concurrent: 4, Bytes: 500 * gibi, Weight: 1}
	with := func(change func(*Limits)) Limits {
		l := standard
		change(&l)
		return l
	}
	several := &quotas{Registries: new(int32(3)), Images: new(int32(100)), BytesPerDay: new(resource.MustParse("1Gi"))}
	wrong := own(&scanning{Quotas: several})
	wrong.Status.Conditions = []metav1.Condition{{Type: settingsv1alpha2.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: 1}}
	wrong.Status.InForce = &settingsv1alpha2.ScanSettingSpec{Registry: &scanning{Quotas: &quotas{Registries: new(int32(7))}}}
	heavy := cluster(settingsv1alpha2.ClusterScanSettingSpec{Weights: []settingsv1alpha2.Weight{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}, Weight: 5}, {Namespace: "shop", Weight: 3},
	}})
	for name, c := range map[string]struct {
		given Settings
		want  Limits
	}{
		"Nothing": {want: standard},
		"Cluster": {
			Settings{Cluster: cluster(settingsv1alpha2.ClusterScanSettingSpec{Registry: &scanning{Quotas: several, AllowedHosts: []string{"a"}}})},
			with(func(l *Limits) { l.Registries, l.Images, l.Bytes, l.AllowedHosts = 3, 100, gibi, [][]string{{"a"}} }),
		},
		"Both": {
			Settings{
				Cluster: cluster(settingsv1alpha2.ClusterScanSettingSpec{Registry: &scanning{Quotas: several, AllowedHosts: []string{"a", "b"}}}),
				Own:     own(&scanning{Quotas: &quotas{Registries: new(int32(9)), Images: new(int32(50)), Repositories: new(int32(8)), Concurrent: new(int32(1))}, AllowedHosts: []string{"b"}}),
			},
			with(func(l *Limits) {
				l.Registries, l.Images, l.Bytes, l.Repositories, l.Concurrent, l.AllowedHosts = 3, 50, gibi, 8, 1, [][]string{{"a", "b"}, {"b"}}
			}),
		},
		"NeverWider": {
			Settings{Own: own(&scanning{Quotas: &quotas{Registries: new(int32(21)), Images: new(int32(30000)), BytesPerDay: new(resource.MustParse("2Ti"))}})}, standard,
		},
		"DeniedByOne": {
			Settings{Cluster: cluster(settingsv1alpha2.ClusterScanSettingSpec{Registry: &scanning{Denied: new(true)}}), Own: own(&scanning{Denied: new(false)})},
			with(func(l *Limits) { l.Denied = true }),
		},
		"Wrong":    {Settings{Own: wrong}, with(func(l *Limits) { l.Registries = 7 })},
		"Weight":   {Settings{Cluster: heavy}, with(func(l *Limits) { l.Weight = 3 })},
		"ByLabels": {Settings{Cluster: heavy, Labels: map[string]string{"tier": "gold"}}, with(func(l *Limits) { l.Weight = 5 })},
	} {
		if diff := cmp.Diff(c.want, Of(installation(t), "shop", c.given)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
