// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/settings"
)

func TestLimitsOf(t *testing.T) {
	cluster := settings.Limits{MaxRunning: new(int32(50)), ScanTypes: map[string]int32{"zap": 2}}
	without := &settings.Effective{Cluster: cluster, Namespace: settings.Limits{MaxRunning: new(int32(5))}, Weight: 1, Order: settingsv1alpha2.OrderFIFO}
	all := map[string]*settings.Effective{
		"plain": {Cluster: cluster, Namespace: settings.Limits{MaxRunning: new(int32(5)), ScanTypes: map[string]int32{}}, Order: settingsv1alpha2.OrderFIFO},
		"heavy": {Cluster: cluster, Namespace: without.Namespace, Weight: 3, Order: settingsv1alpha2.OrderFIFO},
		"own": {
			Cluster: cluster, Namespace: settings.Limits{MaxRunning: new(int32(1)), Targets: map[string]int32{"host": 1}},
			Weight: 1, Order: settingsv1alpha2.OrderPriority, MaxPriority: new(int32(9)),
		},
	}
	want := fair.Limits{
		Cluster: fair.Bounds{MaxRunning: new(int32(50)), ScanTypes: map[string]int32{"zap": 2}},
		Default: fair.Tenant{Bounds: fair.Bounds{MaxRunning: new(int32(5))}, Weight: 1},
		Namespaces: map[string]fair.Tenant{
			"heavy": {Bounds: fair.Bounds{MaxRunning: new(int32(5))}, Weight: 3},
			"own": {
				Bounds: fair.Bounds{MaxRunning: new(int32(1)), Targets: map[string]int32{"host": 1}},
				Weight: 1, ByPriority: true, MaxPriority: new(int32(9)),
			},
		},
	}
	if diff := cmp.Diff(want, LimitsOf(without, all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
