// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// TestRegistryBounds: a namespace may only tighten, and a mistake is named with its field.
func TestRegistryBounds(t *testing.T) {
	type quotas = settingsv1alpha2.RegistryQuotas
	all := func(n int32, bytes string) *quotas {
		return &quotas{Registries: &n, Repositories: &n, Images: &n, Concurrent: &n, BytesPerDay: new(resource.MustParse(bytes))}
	}
	cluster := clusterSetting(clusterSpec{Registry: &settingsv1alpha2.RegistryScanning{Quotas: all(5, "10Gi"), Denied: new(true)}})
	for name, c := range map[string]struct {
		own  settingsv1alpha2.RegistryScanning
		want []string
	}{
		"Nothing": {},
		"Inside":  {own: settingsv1alpha2.RegistryScanning{Quotas: all(5, "10240Mi"), Denied: new(true), AllowedHosts: []string{"*.example.com"}}},
		"Wider": {
			own: settingsv1alpha2.RegistryScanning{Quotas: all(6, "11Gi"), Denied: new(false)},
			want: []string{
				"spec.registry.denied", "spec.registry.quotas.registries", "spec.registry.quotas.repositories", "spec.registry.quotas.images",
				"spec.registry.quotas.concurrent", "spec.registry.quotas.bytesPerDay",
			},
		},
		"Wrong": {
			own:  settingsv1alpha2.RegistryScanning{Quotas: &quotas{BytesPerDay: new(resource.MustParse("0"))}, AllowedHosts: []string{"ok", "[a"}},
			want: []string{"spec.registry.allowedHosts[1]", "spec.registry.quotas.bytesPerDay"},
		},
	} {
		var got []string
		for _, e := range ValidateScanSetting(cluster, setting(ownSpec{Registry: &c.own})) {
			got = append(got, e.Field)
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	wrong := clusterSetting(clusterSpec{Registry: &settingsv1alpha2.RegistryScanning{AllowedHosts: []string{"[a"}}})
	if errs := ValidateClusterScanSetting(wrong); len(errs) != 1 || errs[0].Field != "spec.registry.allowedHosts[0]" {
		t.Errorf("cluster: %v", errs)
	}
}
