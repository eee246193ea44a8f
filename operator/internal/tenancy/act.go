// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/operator/internal/tenancy/inforce"
)

// maxNote is how long the note of an Event may be.
const maxNote = 1000

// act writes the status by one patch with a precondition, and sends the Event afterwards.
func (r *Reconciler) act(ctx context.Context, o *inforce.Observation, d *inforce.Decision) error {
	var old, changed client.Object
	switch {
	case d.Status != nil:
		s := o.Setting.DeepCopy()
		s.Status = *d.Status
		old, changed = o.Setting, s
	case d.ClusterStatus != nil:
		s := o.Cluster.DeepCopy()
		s.Status = *d.ClusterStatus
		old, changed = o.Cluster, s
	default:
		return nil
	}
	if err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if d.Event != nil {
		r.events.Eventf(old, nil, corev1.EventTypeWarning, d.Event.Reason, "Review", "%s", text.CutRunes(d.Event.Message, maxNote))
	}
	return nil
}
