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
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/schedule"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

// conflictRetry is when a pass is repeated whose object somebody else has written meanwhile.
const conflictRetry = time.Second

// Options are those of a Reconciler.
type Options struct {
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Bounds Bounds
	// Limits tells what is in force for a namespace.
	Limits func(ctx context.Context, namespace string) (tenancy.Limits, error)
	// Away tells what is wrong with the reports API and the queue; "": nothing.
	Away func() (reports, queue string)
	// Changed has Registries looked at of which the API server tells nothing new; nil: never.
	Changed <-chan event.GenericEvent
}

// Reconciler keeps Registries.
type Reconciler struct{ Options }

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler { return &Reconciler{o} }

// SetUp has the manager run the Reconciler.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	toRegistry := func(name func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name(o)}}}
		})
	}
	b := ctrl.NewControllerManagedBy(manager).Named("registry").For(&registryv1alpha1.Registry{}).
		Watches(&registryv1alpha1.DiscoveryJob{}, toRegistry(registryOf)).
		Watches(&registryv1alpha1.ScanJob{}, toRegistry(registryOf))
	if r.Changed != nil {
		b = b.WatchesRawSource(source.Channel(r.Changed, &handler.EnqueueRequestForObject{}))
	}
	return b.Complete(r)
}

func registryOf(o client.Object) string {
	switch job := o.(type) {
	case *registryv1alpha1.DiscoveryJob:
		return job.Spec.Registry
	case *registryv1alpha1.ScanJob:
		return job.Spec.Registry
	}
	return ""
}

// Reconcile observes a Registry once, and does what is to be done.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	limits, err := r.Limits(ctx, request.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := Decide(*o, r.Bounds.within(limits))
	log.FromContext(ctx).V(1).Info("Decided", "ready", d.Conditions[0].Reason, "start", len(d.Start), "delete", len(d.Delete))
	switch err := r.act(ctx, o, d); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil // the Registry is about to be deleted
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if d.Again.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(d.Again.Sub(r.Clock.Now()), time.Millisecond)}, nil
}

// observe reads; nil: there is nothing to do for the Registry.
func (r *Reconciler) observe(ctx context.Context, key client.ObjectKey) (*Observed, error) {
	o := &Observed{Now: r.Clock.Now(), Registry: &registryv1alpha1.Registry{}}
	if err := r.Client.Get(ctx, key, o.Registry); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // the API server deletes what the Registry owns
		}
		return nil, fmt.Errorf("get Registry: %w", err)
	}
	if !o.Registry.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // as above
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

func (r *Reconciler) observeJobs(ctx context.Context, o *Observed) error {
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

// act writes. Jobs come first: a controller that dies before it has written the status makes the same ones again, by their names.
func (r *Reconciler) act(ctx context.Context, o *Observed, d Decision) error {
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
func (r *Reconciler) delete(ctx context.Context, o *Observed, name string) error {
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
