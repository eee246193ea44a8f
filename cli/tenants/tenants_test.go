// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

func TestValues(t *testing.T) {
	cluster := &settingsv1alpha2.ClusterScanSettingSpec{
		Limits: &settingsv1alpha2.ClusterLimits{MaxRunning: ptr.To[int32](50), MaxRunningPerNamespace: ptr.To[int32](10)},
		TTL:    &settingsv1alpha2.TTL{MaxSeconds: ptr.To[int32](86400)},
	}
	own := &settingsv1alpha2.ScanSettingSpec{
		Limits: &settingsv1alpha2.Limits{MaxRunning: ptr.To[int32](4), ScanTypes: []settingsv1alpha2.ScanTypeLimit{{Name: "nmap", MaxRunning: 2}}},
		Queue:  &settingsv1alpha2.Queue{Order: ptr.To(settingsv1alpha2.OrderPriority)},
	}
	compute := func(c *settingsv1alpha2.ClusterScanSettingSpec, n *settingsv1alpha2.ScanSettingSpec) *settings.Effective {
		return settings.Compute(settings.Input{Namespace: "blue", Cluster: c, Setting: n})
	}
	for name, tc := range map[string]struct {
		cluster *settingsv1alpha2.ClusterScanSettingSpec
		own     *settingsv1alpha2.ScanSettingSpec
		want    []Value
	}{
		"Nothing": {nil, nil, nil},
		"Cluster": {cluster, nil, []Value{{"limits.maxRunning", "10", "cluster"}, {"cluster.limits.maxRunning", "50", "cluster"}, {"ttl.max", "24h0m0s", "cluster"}}},
		"Both": {cluster, own, []Value{
			{"limits.maxRunning", "4", "namespace"},
			{"limits.scanTypes[nmap]", "2", "namespace"},
			{"cluster.limits.maxRunning", "50", "cluster"},
			{"queue.order", "Priority", "namespace"},
			{"ttl.max", "24h0m0s", "cluster"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Values(compute(nil, nil), compute(tc.cluster, nil), compute(tc.cluster, tc.own))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQueueTable(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	waiting := func(name string, at int) executionv1.Scan {
		return executionv1.Scan{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
			Spec:       executionv1.ScanSpec{ScanType: "nmap"},
			Status: executionv1.ScanStatus{Conditions: []metav1.Condition{
				{Type: executionv1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: executionv1.ReasonNamespaceLimit, Message: "At most 1."},
			}, Queue: &executionv1.QueuePlace{Position: at, Of: 2, NamespacePosition: at, NamespaceOf: 2}},
		}
	}
	second, first := waiting("b", 2), waiting("a", 1)
	if byPlace(first, second) >= 0 {
		t.Error("they are not in the order of their places")
	}
	got := queueTable([]executionv1.Scan{first, second}, now)
	want := []any{"a", "nmap", "1", "60s", "NamespaceLimit", "0", "At most 1."}
	if diff := cmp.Diff(want, got.Rows[0].Cells); diff != "" {
		t.Error(diff)
	}
	other := waiting("c", 0)
	other.Status.Queue = nil // of an earlier version
	if got := queueTable([]executionv1.Scan{other}, now).Rows[0].Cells[2]; got != "?" {
		t.Errorf("a place is made up: %v", got)
	}
}
