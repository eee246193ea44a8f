// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// Health reports whether object storage can be used. Without a Health, a pass finds an outage only
// when it needs the storage.
type Health interface {
	// Outage returns why storage could not be used at the last check; nil where it could.
	Outage() error
	// OnChange sets a function that is called when the result of Outage changes.
	OnChange(f func())
}

// observeOutage notes an outage of storage, for which the pods of a Scan may be waiting silently.
func (r *Reconciler) observeOutage(o *life.Observation) {
	if r.health == nil {
		return
	}
	if err := r.health.Outage(); err != nil {
		o.Outage = err.Error()
	}
}

// connectHealth is the source of the controller that enqueues the running Scans when storage becomes
// unavailable and when it is available again.
func (r *Reconciler) connectHealth(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if r.health == nil {
		return nil
	}
	r.health.OnChange(func() {
		var list executionv1.ScanList
		if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
			log.FromContext(ctx).Error(err, "List Scans that may wait for object storage")
			return
		}
		for i := range list.Items {
			if life.GoesOn(&list.Items[i].Status) {
				queue.Add(q, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, 0)
			}
		}
	})
	return nil
}
