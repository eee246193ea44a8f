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

// Health tells whether object storage can be used. Without one only a pass that needs the
// storage finds out.
type Health interface {
	// Outage says why it could not be used a moment ago; nil where it could.
	Outage() error
	// OnChange has a function called whenever that has changed.
	OnChange(f func())
}

// observeOutage notes that storage is away, which the pods of a Scan may wait for without a word.
func (r *Reconciler) observeOutage(o *life.Observation) {
	if r.health == nil {
		return
	}
	if err := r.health.Outage(); err != nil {
		o.Outage = err.Error()
	}
}

// connectHealth is the source of the controller that brings the Scans that go on when storage
// goes away and when it is back.
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
