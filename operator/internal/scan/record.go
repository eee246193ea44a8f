// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// hasStored reports whether storage has results of a Scan whose status says that it has ended and that
// has a record and no Job: another client has deleted the Jobs while no operator ran.
func (r *Reconciler) hasStored(ctx context.Context, b *life.Belief) (bool, error) {
	_, kept := life.RecordOf(b.Scan)
	if !kept || !life.SettledState(&b.Scan.Status) || len(b.Jobs) > 0 || b.BelievesEnd() {
		return false, nil
	}
	if life.HasReleaseAnnotation(b.Scan) {
		return true, nil // it had some, until they were forwarded
	}
	owner := store.OwnerOf(b.Scan)
	found, err := r.store.Exists(ctx, owner, executionv1.FindingsFile)
	if file := b.Scan.Status.RawResultFile; err == nil && !found && names.CheckFile(file) == nil {
		found, err = r.store.Exists(ctx, owner, file)
	}
	if errors.Is(err, store.ErrNoPlace) {
		return false, nil
	}
	return found, err
}

// writeRecord writes the record if it has changed, and removes the annotation of released results if the Scan begins
// anew. The status, which is written afterwards, is not believed without the record.
func (r *Reconciler) writeRecord(ctx context.Context, o *life.Observation, d *life.Decision) error {
	s, stays := d.Status, false
	if s == nil {
		s, stays = &o.Scan.Status, true
	}
	next, changed := life.NextRecord(o, s, stays || life.SettledState(s) && life.IsSettled(o) && !life.HasFailureHooks(o))
	annotations := map[string]any{}
	if changed {
		annotations[executionv1.AnnotationRecord] = next.Text()
	}
	if d.ForgetReleased {
		annotations[executionv1.AnnotationReleased] = nil
	}
	if len(annotations) == 0 || life.IsDeleted(o) || d.DeleteScan {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.Scan.UID, "resourceVersion": o.Scan.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	changedScan := o.Scan.DeepCopy()
	if err := r.client.Patch(ctx, changedScan, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return client.IgnoreNotFound(err)
	}
	o.Scan.ResourceVersion = changedScan.ResourceVersion
	return nil
}
