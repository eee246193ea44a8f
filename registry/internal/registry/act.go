// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/schedule"
)

// act writes. Jobs come first: a controller that dies before it has written the status makes the same ones again, by their names.
func (r *Reconciler) act(ctx context.Context, o *Observation, d Decision) error {
	for _, start := range d.Start {
		if err := r.start(ctx, o.Registry, start); err != nil {
			return err
		}
	}
	for _, name := range d.Delete {
		if err := r.delete(ctx, o, name); err != nil {
			return err
		}
	}
	if err := r.writeStatus(ctx, o.Registry, d); err != nil {
		return err
	}
	if ready := d.Conditions[0]; ready.Reason == registryv1alpha1.ReasonQuotaExceeded {
		before := meta.FindStatusCondition(o.Registry.Status.Conditions, registryv1alpha1.ConditionReady)
		if before == nil || before.Reason != ready.Reason {
			r.Events.Eventf(o.Registry, nil, corev1.EventTypeWarning, ready.Reason, "Observe", "%s", ready.Message)
		}
	}
	for _, kind := range d.Skipped {
		r.Events.Eventf(o.Registry, nil, corev1.EventTypeNormal, "Skipped", "Schedule", "a %s was due while another one waited or worked", kindNames[kind])
	}
	return nil
}

var kindNames = map[schedule.Kind]string{schedule.Discovery: "DiscoveryJob", schedule.Scan: "ScanJob"}

// newJob makes an empty object of a kind.
func newJob(kind schedule.Kind) client.Object {
	if kind == schedule.Scan {
		return &registryv1alpha1.ScanJob{}
	}
	return &registryv1alpha1.DiscoveryJob{}
}

// start makes a job. One that is there is ours, if the Registry owns it.
func (r *Reconciler) start(ctx context.Context, registry *registryv1alpha1.Registry, s Start) error {
	job := build(registry, s)
	err := r.Client.Create(ctx, job)
	if err == nil || !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create %s: %w", kindNames[s.Kind], err)
		}
		return nil
	}
	there := newJob(s.Kind)
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(job), there); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // the cache does not know it yet; the next planned time has another name
		}
		return fmt.Errorf("get %s: %w", kindNames[s.Kind], err)
	}
	if !metav1.IsControlledBy(there, registry) {
		return fmt.Errorf("%s %s exists and is not one of this Registry: delete or rename it", kindNames[s.Kind], s.Name)
	}
	return nil
}

// build makes the job of a planned time.
func build(registry *registryv1alpha1.Registry, s Start) client.Object {
	object := metav1.ObjectMeta{
		Name: s.Name, Namespace: registry.Namespace, Labels: map[string]string{registryv1alpha1.LabelTrigger: string(registryv1alpha1.TriggerSchedule)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(registry, registryv1alpha1.SchemeGroupVersion.WithKind("Registry"))},
	}
	// What has failed before is taken up by the next scheduled job.
	spec := registryv1alpha1.JobSpec{Registry: registry.Name, Priority: registryv1alpha1.Scheduled, Retry: []registryv1alpha1.Retry{registryv1alpha1.RetryFailed}}
	if s.Kind == schedule.Scan {
		return &registryv1alpha1.ScanJob{ObjectMeta: object, Spec: registryv1alpha1.ScanJobSpec{JobSpec: spec}}
	}
	job := &registryv1alpha1.DiscoveryJob{ObjectMeta: object, Spec: registryv1alpha1.DiscoveryJobSpec{JobSpec: spec, StopAfter: registryv1alpha1.StopAfterSBOM}}
	for _, trigger := range registry.Spec.ScanOn {
		if trigger == registryv1alpha1.OnNewImage {
			job.Spec.StopAfter = registryv1alpha1.StopAfterMatch
		}
	}
	return job
}

// delete deletes an ended job, if it is still the one that was seen.
func (r *Reconciler) delete(ctx context.Context, o *Observation, name string) error {
	for _, j := range o.Jobs {
		if j.Name != name || j.Active {
			continue
		}
		job := newJob(j.Kind)
		job.SetName(name)
		job.SetNamespace(o.Registry.Namespace)
		err := r.Client.Delete(ctx, job, client.Preconditions{UID: new(types.UID(j.UID))}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", kindNames[j.Kind], err)
		}
	}
	return nil
}

// writeStatus patches what has changed, and nothing where nothing has.
func (r *Reconciler) writeStatus(ctx context.Context, registry *registryv1alpha1.Registry, d Decision) error {
	changed := registry.DeepCopy()
	for _, c := range d.Conditions {
		c.ObservedGeneration = registry.Generation
		c.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&changed.Status.Conditions, c)
	}
	changed.Status.ObservedGeneration = registry.Generation
	changed.Status.NextDiscoveryTime, changed.Status.NextScanTime = timeOf(d.NextDiscovery), timeOf(d.NextScan)
	patch := client.MergeFromWithOptions(registry, client.MergeFromWithOptimisticLock{})
	if equality.Semantic.DeepEqual(registry.Status, changed.Status) {
		return nil
	}
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, changed, patch)); err != nil {
		return fmt.Errorf("write the status of the Registry: %w", err)
	}
	return nil
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}
