// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/inventory"
)

// act publishes a job, if one is due, and writes the condition.
func (r *Reconciler) act(ctx context.Context, o Observation, d *Decision) error {
	if d.Job != nil {
		made, err := r.publish(ctx, o, *d.Job)
		if err != nil {
			return err
		}
		d.Condition, d.RequeueAfter = made, lookAgain
		if made.Reason == registryv1alpha1.ReasonScanRejected {
			d.RequeueAfter = refusedAgain
		}
	}
	return r.writeStatus(ctx, o.Registry, *d)
}

// publish makes the Scan of a job, and gives the condition that tells of it.
func (r *Reconciler) publish(ctx context.Context, o Observation, j Job) (*metav1.Condition, error) {
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

// writeStatus patches the condition, and the job that it speaks of.
func (r *Reconciler) writeStatus(ctx context.Context, registry *registryv1alpha1.Registry, d Decision) error {
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
