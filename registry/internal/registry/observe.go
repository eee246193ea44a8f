// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/schedule"
)

// observe reads; nil: there is nothing to do for the Registry.
func (r *Reconciler) observe(ctx context.Context, key client.ObjectKey) (*Observation, error) {
	o := &Observation{Now: r.Clock.Now(), Registry: &registryv1alpha1.Registry{}}
	if err := r.Client.Get(ctx, key, o.Registry); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil // the API server deletes what the Registry owns
		}
		return nil, fmt.Errorf("get Registry: %w", err)
	}
	if !o.Registry.DeletionTimestamp.IsZero() {
		return nil, nil // as above
	}
	registries := &registryv1alpha1.RegistryList{}
	if err := r.Client.List(ctx, registries, client.InNamespace(key.Namespace)); err != nil {
		return nil, fmt.Errorf("list Registries: %w", err)
	}
	for i := range registries.Items {
		if comesBefore(&registries.Items[i], o.Registry) {
			o.Older++
		}
	}
	if err := r.observeJobs(ctx, o); err != nil {
		return nil, err
	}
	o.ReportsAway, o.QueueAway = r.Away()
	return o, nil
}

func comesBefore(a, b *registryv1alpha1.Registry) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

func (r *Reconciler) observeJobs(ctx context.Context, o *Observation) error {
	discoveries := &registryv1alpha1.DiscoveryJobList{}
	if err := r.Client.List(ctx, discoveries, client.InNamespace(o.Registry.Namespace)); err != nil {
		return fmt.Errorf("list DiscoveryJobs: %w", err)
	}
	for i := range discoveries.Items {
		if j := &discoveries.Items[i]; j.Spec.Registry == o.Registry.Name {
			o.Jobs = append(o.Jobs, observed(schedule.Discovery, j, j.Spec.JobSpec, j.Status.JobStatus))
		}
	}
	scans := &registryv1alpha1.ScanJobList{}
	if err := r.Client.List(ctx, scans, client.InNamespace(o.Registry.Namespace)); err != nil {
		return fmt.Errorf("list ScanJobs: %w", err)
	}
	for i := range scans.Items {
		if j := &scans.Items[i]; j.Spec.Registry == o.Registry.Name {
			o.Jobs = append(o.Jobs, observed(schedule.Scan, j, j.Spec.JobSpec, j.Status.JobStatus))
		}
	}
	return nil
}

func observed(kind schedule.Kind, object client.Object, spec registryv1alpha1.JobSpec, status registryv1alpha1.JobStatus) Job {
	completed := meta.FindStatusCondition(status.Conditions, registryv1alpha1.ConditionCompleted)
	trigger := registryv1alpha1.Trigger(object.GetLabels()[registryv1alpha1.LabelTrigger])
	j := Job{UID: string(object.GetUID()), Active: completed == nil || completed.Status == metav1.ConditionUnknown}
	j.Name, j.Kind = object.GetName(), kind
	j.Scheduled = trigger != "" && trigger != registryv1alpha1.TriggerManual
	if j.Active {
		return j
	}
	j.Succeeded, j.Ended = completed.Status == metav1.ConditionTrue, completed.LastTransitionTime.Time
	if status.CompletionTime != nil {
		j.Ended = status.CompletionTime.Time
	}
	if spec.TTLSecondsAfterFinished != nil {
		j.TTL = new(time.Duration(*spec.TTLSecondsAfterFinished) * time.Second)
	}
	return j
}
