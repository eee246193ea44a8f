// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

// TestSettingsAreWatched: what a real API server stores of settings is in force, and each change is told.
func TestSettingsAreWatched(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cached, err := cache.New(cluster.Config, cache.Options{Scheme: cluster.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- cached.Start(ctx) }()
	installation, err := config.Read("")
	if err != nil {
		t.Fatal(err)
	}
	source := tenancy.NewSource(installation, cached, cluster.Client)
	changed := make(chan struct{}, 100)
	go func() {
		ended <- source.Watch(ctx, make(chan time.Time), func(context.Context) { changed <- struct{}{} })
	}()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "settings-", Labels: map[string]string{"tier": "gold"}}}
	if err := cluster.Client.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	until := func(what string, holds func(tenancy.Limits) bool) {
		t.Helper()
		for {
			limits, err := source.Limits(ctx, namespace.Name)
			if err != nil {
				t.Fatal(err)
			}
			if holds(limits) {
				return
			}
			select {
			case <-changed:
			case err := <-ended:
				t.Fatalf("the watch has ended: %v", err)
			case <-time.After(2 * time.Minute):
				t.Fatalf("%s is not in force: %+v", what, limits)
			}
		}
	}
	until("the installation", func(l tenancy.Limits) bool { return l.Registries == 20 && l.Weight == 1 })
	setting := &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Namespace: namespace.Name}}
	setting.Spec.Registry = &settingsv1alpha2.RegistryScanning{Quotas: &settingsv1alpha2.RegistryQuotas{Registries: new(int32(1))}}
	if err := cluster.Client.Create(ctx, setting); err != nil {
		t.Fatal(err)
	}
	until("the namespace's quota", func(l tenancy.Limits) bool { return l.Registries == 1 })
	above := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}
	above.Spec.Registry = &settingsv1alpha2.RegistryScanning{Denied: new(true)}
	above.Spec.Weights = []settingsv1alpha2.Weight{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}, Weight: 4}}
	if err := cluster.Client.Create(ctx, above); err != nil {
		t.Fatal(err)
	}
	until("what the cluster says", func(l tenancy.Limits) bool { return l.Denied && l.Weight == 4 && l.Registries == 1 })
	if err := cluster.Client.Delete(ctx, above); err != nil {
		t.Fatal(err)
	}
	until("the end of what the cluster says", func(l tenancy.Limits) bool { return !l.Denied && l.Weight == 1 })
}
