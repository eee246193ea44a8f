// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

// writer writes changes, and nothing else.
type writer struct {
	client client.Client
	owner  client.FieldOwner
}

// write does what a change says.
func (w *writer) write(ctx context.Context, c targets.Change, now time.Time) error {
	switch c.Action {
	case targets.Create:
		// Without force: an object of this name that another client has created since belongs to that client.
		return w.apply(ctx, c.Want)
	case targets.Update:
		if c.Restart {
			return w.renew(ctx, c, now)
		}
		return w.update(ctx, c.Have, c.Want)
	case targets.Delete:
		err := w.client.Delete(ctx, c.Have.ScheduledScan, client.Preconditions{UID: &c.Have.UID, ResourceVersion: &c.Have.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ScheduledScan: %w", err)
		}
	}
	return nil
}

// apply sets our fields by server-side apply: the fields of other managers stay.
func (w *writer) apply(ctx context.Context, want *executionv1.ScheduledScan, options ...client.ApplyOption) error {
	fields, err := targets.Applied(want)
	if err != nil {
		return fmt.Errorf("build ScheduledScan: %w", err)
	}
	configuration := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	if err := w.client.Apply(ctx, configuration, append(options, w.owner)...); err != nil {
		return fmt.Errorf("apply ScheduledScan: %w", err)
	}
	return nil
}

// update brings a ScheduledScan to what it should be. Labels that another discovery has
// set, apply does not take away.
func (w *writer) update(ctx context.Context, have *targets.Existing, want *executionv1.ScheduledScan) error {
	if err := w.apply(ctx, want, client.ForceOwnership); err != nil {
		return err
	}
	strays := targets.StrayLabels(have, want)
	if len(strays) == 0 {
		return nil
	}
	gone := map[string]any{}
	for _, k := range strays {
		gone[k] = nil
	}
	if err := w.patch(ctx, want, map[string]any{"metadata": map[string]any{"labels": gone}}); err != nil {
		return fmt.Errorf("remove labels of ScheduledScan: %w", err)
	}
	return nil
}

// renew has a new version scanned at once. The digests, by which it is known to be new,
// are written last: where something fails in between, the next pass does it again.
func (w *writer) renew(ctx context.Context, c targets.Change, now time.Time) error {
	before := c.Want.DeepCopy()
	maps.DeleteFunc(before.Labels, func(k, _ string) bool { _, digest := targets.DigestsOf(c.Want.Labels)[k]; return digest })
	maps.Copy(before.Labels, targets.DigestsOf(c.Have.Labels))
	if targets.Differs(c.Have, before) {
		if err := w.apply(ctx, before, client.ForceOwnership); err != nil {
			return err
		}
	}
	status := map[string]any{"status": map[string]any{"lastScheduleTime": metav1.NewTime(targets.RestartTime(c.Want, now)).UTC().Format(time.RFC3339)}}
	raw, err := json.Marshal(status)
	if err != nil {
		return err
	}
	if err := w.client.Status().Patch(ctx, reference(c.Want), client.RawPatch(types.MergePatchType, raw), w.owner); err != nil {
		return fmt.Errorf("set status.lastScheduleTime of ScheduledScan: %w", err)
	}
	return w.update(ctx, c.Have, c.Want)
}

func (w *writer) patch(ctx context.Context, o *executionv1.ScheduledScan, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return w.client.Patch(ctx, reference(o), client.RawPatch(types.MergePatchType, raw), w.owner)
}

// reference is an object with a name and nothing else, for patches.
func reference(o *executionv1.ScheduledScan) *executionv1.ScheduledScan {
	return &executionv1.ScheduledScan{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
}

// isRefused reports whether the API server rejects an object, so that only another configuration, or
// another policy of the cluster, helps.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err)
}
