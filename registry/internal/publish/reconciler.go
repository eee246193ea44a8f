// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/results"
)

const (
	// account is whose rights the scanner has; role are its rights where the installation is for the whole cluster.
	account = "registry-findings"
	role    = "scanyard-registry-findings"
	// conflictRetry is when a pass is repeated whose object somebody else has written meanwhile.
	conflictRetry = time.Second
)

// Options are those of a Reconciler.
type Options struct {
	// Client reads from the cache. Direct has none: it asks for Scans, Images, accounts.
	Client, Direct client.Client
	Clock          clock.PassiveClock
}

// Reconciler publishes the findings of Registries.
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
	return ctrl.NewControllerManagedBy(manager).Named("publish").For(&registryv1alpha1.Registry{}).
		Watches(&registryv1alpha1.DiscoveryJob{}, toRegistry(func(o client.Object) string { return o.(*registryv1alpha1.DiscoveryJob).Spec.Registry })).
		Watches(&registryv1alpha1.ScanJob{}, toRegistry(func(o client.Object) string { return o.(*registryv1alpha1.ScanJob).Spec.Registry })).
		Complete(r)
}

// Reconcile observes a Registry once, and does what is to be done.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	registry := &registryv1alpha1.Registry{}
	if err := r.Client.Get(ctx, request.NamespacedName, registry); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	published := meta.FindStatusCondition(registry.Status.Conditions, registryv1alpha1.ConditionFindingsPublished)
	last := registry.Status.Findings
	if !registry.DeletionTimestamp.IsZero() || registry.Spec.Findings == nil && published == nil && last == nil {
		return reconcile.Result{}, nil
	}
	o := Observed{Now: r.Clock.Now(), Registry: registry, Published: published, Last: last}
	if err := r.observe(ctx, &o); err != nil {
		return reconcile.Result{}, err
	}
	d := Decide(o)
	if d.Job != nil {
		made, err := r.publish(ctx, o, *d.Job)
		if err != nil {
			return reconcile.Result{}, err
		}
		d.Condition, d.Again = made, o.Now.Add(lookAgain)
		if made.Reason == registryv1alpha1.ReasonScanRejected {
			d.Again = o.Now.Add(refusedAgain)
		}
	}
	switch err := r.write(ctx, registry, d); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if d.Again.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(d.Again.Sub(o.Now), time.Millisecond)}, nil
}

func (r *Reconciler) observe(ctx context.Context, o *Observed) error {
	registry := o.Registry
	if registry.Spec.Findings == nil {
		return nil
	}
	within := client.InNamespace(registry.Namespace)
	discoveries, scans := &registryv1alpha1.DiscoveryJobList{}, &registryv1alpha1.ScanJobList{}
	if err := r.Client.List(ctx, discoveries, within); err != nil {
		return fmt.Errorf("list DiscoveryJobs: %w", err)
	}
	if err := r.Client.List(ctx, scans, within); err != nil {
		return fmt.Errorf("list ScanJobs: %w", err)
	}
	for i := range discoveries.Items {
		j := &discoveries.Items[i]
		changed := j.Status.Reports != nil && j.Status.Reports.Made > 0 && !j.Spec.DryRun
		o.add(j.ObjectMeta, j.Spec.Registry, j.Status.JobStatus, changed)
	}
	for i := range scans.Items {
		j := &scans.Items[i]
		o.add(j.ObjectMeta, j.Spec.Registry, j.Status.JobStatus, j.Status.Images != nil && j.Status.Images.Changed > 0)
	}
	made := &executionv1.ScanList{}
	switch err := r.Direct.List(ctx, made, within, client.MatchingLabels(labels(registry))); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil // there is no such kind; creating a Scan tells
	case err != nil:
		return fmt.Errorf("list Scans: %w", err)
	}
	for i := range made.Items {
		s := &made.Items[i]
		if !metav1.IsControlledBy(s, registry) {
			continue
		}
		scanned := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionScanned)
		o.Scans = append(o.Scans, Scan{
			Name: s.Name, Active: s.Status.State != executionv1.ScanStateDone && s.Status.State != executionv1.ScanStateErrored,
			NoScanType: scanned != nil && scanned.Reason == executionv1.ReasonScanTypeNotFound,
		})
	}
	return nil
}

// add notes a job that has ended and has changed a report.
func (o *Observed) add(m metav1.ObjectMeta, registry string, status registryv1alpha1.JobStatus, changed bool) {
	if registry != o.Registry.Name || !changed || status.CompletionTime == nil || status.RegistryUID != string(o.Registry.UID) {
		return
	}
	o.Jobs = append(o.Jobs, Job{Name: m.Name, UID: string(m.UID), Ended: status.CompletionTime.Time})
}

// labels are those by which the Scans of a Registry are found. Labels are for people, so the owner decides.
func labels(r *registryv1alpha1.Registry) map[string]string {
	return results.Labels(r.Name, r.Namespace, "", "", "")
}

// publish makes the Scan of a job, and gives the condition that tells of it.
func (r *Reconciler) publish(ctx context.Context, o Observed, j Job) (*metav1.Condition, error) {
	registry := o.Registry
	wanted := inventory.Job{Namespace: registry.Namespace, Registry: registry, Name: j.Name, UID: j.UID}
	changedOnly := registry.Spec.Findings.Publish == registryv1alpha1.PublishChanged
	count, err := inventory.Reader{Client: r.Direct}.Findings(ctx, wanted, registry.Spec.Findings.MinSeverity, changedOnly)
	if err != nil {
		return nil, err
	}
	if count > MostFindings {
		return tooMany(o, j, count), nil
	}
	if registry.Spec.Findings.ResourceMode == string(executionv1.ClusterWide) {
		if err := r.ensureAccount(ctx, registry); err != nil {
			return nil, err
		}
	}
	scan := Build(registry, j, labels(registry))
	switch err := r.Direct.Create(ctx, scan); {
	case err == nil, apierrors.IsAlreadyExists(err):
		return condition(o, metav1.ConditionTrue, registryv1alpha1.ReasonPublished, scan.Name+" holds the findings of job "+j.Name), nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return condition(o, metav1.ConditionFalse, registryv1alpha1.ReasonScanRejected,
			scan.Name+" was not made: the cluster knows no Scans; install the chart scanyard"), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, fmt.Errorf("create Scan: %w", err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return condition(o, metav1.ConditionFalse, registryv1alpha1.ReasonScanRejected, scan.Name+" was not made: "+err.Error()), nil
	default:
		return nil, fmt.Errorf("create Scan: %w", err)
	}
}

// ensureAccount makes the account of the scanner where nobody has. It goes with the Registry.
func (r *Reconciler) ensureAccount(ctx context.Context, registry *registryv1alpha1.Registry) error {
	owner := []metav1.OwnerReference{{
		APIVersion: registryv1alpha1.SchemeGroupVersion.String(), Kind: "Registry", Name: registry.Name, UID: registry.UID,
	}}
	object := metav1.ObjectMeta{Name: account, Namespace: registry.Namespace, OwnerReferences: owner}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: *object.DeepCopy()},
		&rbacv1.RoleBinding{
			ObjectMeta: *object.DeepCopy(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: registry.Namespace}},
		},
	} {
		if err := r.Direct.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make the account of the scanner: %w", err)
		}
	}
	return nil
}

// write patches the condition, and the job that it speaks of.
func (r *Reconciler) write(ctx context.Context, registry *registryv1alpha1.Registry, d Decision) error {
	changed := registry.DeepCopy()
	if d.Remove {
		meta.RemoveStatusCondition(&changed.Status.Conditions, registryv1alpha1.ConditionFindingsPublished)
		changed.Status.Findings = nil
	}
	if d.Condition != nil {
		meta.SetStatusCondition(&changed.Status.Conditions, *d.Condition)
	}
	if d.Job != nil {
		changed.Status.Findings = &registryv1alpha1.PublishedFindings{Job: d.Job.UID, Scan: NameOf(registry.Name, d.Job.UID), Ended: metav1.NewTime(d.Job.Ended)}
	}
	if equality.Semantic.DeepEqual(registry.Status, changed.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(registry, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.Client.Status().Patch(ctx, changed, patch)); err != nil {
		return fmt.Errorf("write the status of the Registry: %w", err)
	}
	return nil
}
