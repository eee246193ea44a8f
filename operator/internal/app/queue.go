// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
)

// kueueGroup is the API group of Kueue.
const kueueGroup = "kueue.x-k8s.io"

// newQueue returns what Scans wait before, with the limits that the settings say.
func newQueue(mgr ctrl.Manager, config *rest.Config, settings *tenancy.Source, o *Options, metrics prometheus.Registerer) (*queue.Queue, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	q := queue.New(queue.Options{
		Clock: clock.RealClock{}, AwaitLimits: true,
		Kueue: func(ctx context.Context) (bool, error) { return servesGroup(ctx, d, kueueGroup) },
	})
	if err := metrics.Register(queue.NewCollector(q)); err != nil {
		return nil, err
	}
	return q, queue.NewFeeder(mgr.GetCache(), settings, o.WatchNamespaces, q.SetLimits).SetupWithManager(mgr)
}

// servesGroup says whether the API server has an API group.
func servesGroup(ctx context.Context, d discovery.ServerGroupsInterfaceWithContext, name string) (bool, error) {
	groups, err := d.ServerGroupsWithContext(ctx)
	if err != nil {
		return false, err
	}
	for i := range groups.Groups {
		if groups.Groups[i].Name == name {
			return true, nil
		}
	}
	return false, nil
}
