// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/caches"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/settings"
)

// fed keeps the limits that a Feeder has handed over.
type fed struct {
	mu    sync.Mutex
	times int
	last  fair.Limits
}

func (f *fed) set(l fair.Limits) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times++
	f.last = l
}

func (f *fed) get() (fair.Limits, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.times
}

// feed runs a Feeder until the test ends. Namespaces are the only ones that it works in.
func (w *world) feed(namespaces ...string) *fed {
	w.Helper()
	o := cache.Options{ByObject: tenancy.CacheOptions(), DefaultNamespaces: caches.Namespaces(namespaces), ReaderFailOnMissingInformer: true}
	mgr, err := ctrl.NewManager(rest.CopyConfig(cluster.Config), ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Cache: o,
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	w.Expect(err).NotTo(HaveOccurred())
	f := &fed{}
	source := tenancy.NewSource(mgr.GetCache(), settings.Defaults{}, namespaces)
	w.Expect(queue.NewFeeder(mgr.GetCache(), source, namespaces, f.set).SetupWithManager(mgr)).To(Succeed())
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the manager ended: %v", err)
		}
	})
	return f
}

// Limits follow the settings: they are set once without settings, and when settings are created,
// changed and deleted, but not after a change that makes no difference to them.
func TestFeederFollowsSettings(t *testing.T) {
	w := newWorld(t)
	f := w.feed()
	limits := func() fair.Limits { l, _ := f.get(); return l }
	w.Eventually(func() int { _, n := f.get(); return n }).Should(Equal(1))
	none := limits()
	w.Expect(none.None()).To(BeTrue())

	c := clusterSetting(settingsv1alpha2.ClusterScanSettingSpec{
		Limits:  &settingsv1alpha2.ClusterLimits{MaxRunning: new(int32(7)), MaxRunningPerNamespace: new(int32(3))},
		Weights: []settingsv1alpha2.Weight{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}, Weight: 4}},
	})
	w.create(c)
	w.Eventually(func() *int32 { return limits().Cluster.MaxRunning }).Should(HaveValue(BeEquivalentTo(7)))
	w.Eventually(func() int32 { return limits().Namespaces[w.Namespace].Weight }).Should(BeEquivalentTo(4))
	w.Expect(limits().Default.MaxRunning).To(HaveValue(BeEquivalentTo(3)))

	w.create(w.setting(settingsv1alpha2.ScanSettingSpec{
		Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(2))},
		Queue:  &settingsv1alpha2.Queue{Order: new(settingsv1alpha2.OrderPriority)},
	}))
	w.Eventually(func() *int32 { return limits().Namespaces[w.Namespace].MaxRunning }).Should(HaveValue(BeEquivalentTo(2)))
	w.Expect(limits().Namespaces[w.Namespace].ByPriority).To(BeTrue())

	_, before := f.get()
	w.set(settingsv1alpha2.ScanSettingSpec{
		Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(2))},
		Queue:  &settingsv1alpha2.Queue{Order: new(settingsv1alpha2.OrderPriority)},
		TTL:    &settingsv1alpha2.TTL{DefaultSeconds: new(int32(60))},
	})
	w.Consistently(func() int { _, n := f.get(); return n }, "500ms").Should(Equal(before))

	w.Expect(w.Client.Delete(t.Context(), w.get())).To(Succeed())
	w.Expect(w.Client.Delete(t.Context(), c)).To(Succeed())
	w.Eventually(func() bool { l := limits(); return l.None() && len(l.Namespaces) == 0 }).Should(BeTrue())
}

// An operator that works in one namespace reads neither the others nor Namespaces.
func TestFeederOfOneNamespace(t *testing.T) {
	w := newWorld(t)
	f := w.feed(w.Namespace)
	w.Eventually(func() int { _, n := f.get(); return n }).Should(Equal(1))
	w.create(w.setting(settingsv1alpha2.ScanSettingSpec{Limits: &settingsv1alpha2.Limits{MaxRunning: new(int32(2))}}))
	w.Eventually(func() *int32 { l, _ := f.get(); return l.Namespaces[w.Namespace].MaxRunning }).Should(HaveValue(BeEquivalentTo(2)))
}
