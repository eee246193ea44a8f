// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Registries hear once that their vulnerability data is stale or cannot be had, and again when that happens anew.
func TestEventsOfDatabases(t *testing.T) {
	c, err := config.Read("")
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	d := &databases{config: c, events: recorder, told: map[string]string{}}
	registries := []registryv1alpha1.Registry{{ObjectMeta: metav1.ObjectMeta{Name: "hub"}}, {Spec: registryv1alpha1.RegistrySpec{Adapter: "trivy"}}}
	built := metav1.NewTime(begin)
	data := reportsv1.VulnerabilityDatabase{ObjectMeta: metav1.ObjectMeta{Name: config.Mini}, Status: reportsv1.VulnerabilityDatabaseStatus{BuiltAt: &built}}
	look := func(after time.Duration, available metav1.ConditionStatus) string {
		data.Status.Conditions = []metav1.Condition{{Type: conditionAvailable, Status: available, Reason: "Rollback", Message: "it is older"}}
		d.tell([]reportsv1.VulnerabilityDatabase{data}, registries, begin.Add(after))
		var all []string
		for len(recorder.Events) > 0 {
			all = append(all, <-recorder.Events)
		}
		return strings.Join(all, "; ")
	}
	for _, step := range []struct {
		after     time.Duration
		available metav1.ConditionStatus
		want      string
	}{
		{time.Hour, metav1.ConditionTrue, ""},
		{time.Hour, metav1.ConditionFalse, "Warning DatabaseUnavailable no newer vulnerability data of mini can be had, the old data stays in use: Rollback: it is older"},
		{2 * time.Hour, metav1.ConditionFalse, ""},
		{3 * time.Hour, metav1.ConditionTrue, ""},
		{73 * time.Hour, metav1.ConditionTrue, "Warning DatabaseStale the vulnerability data of mini is older than 72h"},
		{74 * time.Hour, metav1.ConditionTrue, ""},
	} {
		if got := look(step.after, step.available); got != step.want {
			t.Errorf("after %v, available %s: %q, want %q", step.after, step.available, got, step.want)
		}
	}
}

// The alerts of the chart go by these names.
func TestMetrics(t *testing.T) {
	f := feeder.New(feeder.Options{Clock: clocktesting.NewFakePassiveClock(begin), Bounds: feeder.Bounds{Bytes: 1000}})
	c := newCounts()
	c.feeder = f
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	c.maxAge.Set(5)
	c.buried(queue.SBOM)
	c.ended(queue.Ended{Step: queue.Discover, Outcome: "Refused"})
	c.unaffected.Add(4)
	c.admitted(true, 3*time.Second)
	c.registries([]registryv1alpha1.Registry{
		{Status: registryv1alpha1.RegistryStatus{Images: &registryv1alpha1.ImageCounts{Scanned: 3, Quarantined: 1}}},
		{},
		{Status: registryv1alpha1.RegistryStatus{Images: &registryv1alpha1.ImageCounts{Scanned: 2, Quarantined: 1}}},
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := []string{strings.TrimPrefix(family.GetName(), prefix)}
			for _, label := range m.GetLabel() {
				name = append(name, label.GetValue())
			}
			got[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	for name, want := range map[string]float64{
		"database_max_age_seconds": 5, "dead_total sbom": 1, "ended_total Refused discover": 1, "quarantined": 2, "images scanned": 5, "unaffected_total": 4,
		"quota_used_ratio bytesPerDay": 0, "host_paused": 0, "workers": 0, "backlog sbom": 0, "admission_wait_seconds Interactive": 3,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, there, want)
		}
	}
}
