// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/operator/internal/exception/validity"
)

// act writes the status by one patch with a precondition, and sends the Events afterwards.
func (r *Reconciler) act(ctx context.Context, o *validity.Observation, d *validity.Decision) error {
	if d.Status == nil {
		return nil
	}
	var old, changed client.Object
	if o.Exception != nil {
		e := o.Exception.DeepCopy()
		d.Status.DeepCopyInto(&e.Status) // the cache owns what it points to
		old, changed = o.Exception, e
	} else {
		e := o.ClusterException.DeepCopy()
		d.Status.DeepCopyInto(&e.Status)
		old, changed = o.ClusterException, e
	}
	if err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	for _, e := range d.Events {
		r.events.Eventf(old, nil, e.Type, e.Reason, "Review", "%s", e.Message)
	}
	return nil
}
