// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/results"
)

// observe reads a Registry, its jobs and its Scans; nil: there is nothing to publish, and nothing was.
func (r *Reconciler) observe(ctx context.Context, key client.ObjectKey) (*Observation, error) {
	registry := &registryv1alpha1.Registry{}
	if err := r.Client.Get(ctx, key, registry); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	published := meta.FindStatusCondition(registry.Status.Conditions, registryv1alpha1.ConditionFindingsPublished)
	o := &Observation{Now: r.Clock.Now(), Registry: registry, Published: published, Last: registry.Status.Findings}
	switch {
	case !registry.DeletionTimestamp.IsZero(), registry.Spec.Findings == nil && published == nil && o.Last == nil:
		return nil, nil
	case registry.Spec.Findings == nil:
		return o, nil
	}
	if err := r.observeJobs(ctx, o); err != nil {
		return nil, err
	}
	return o, r.observeScans(ctx, o)
}

func (r *Reconciler) observeJobs(ctx context.Context, o *Observation) error {
	within := client.InNamespace(o.Registry.Namespace)
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
	return nil
}

func (r *Reconciler) observeScans(ctx context.Context, o *Observation) error {
	registry, made := o.Registry, &executionv1.ScanList{}
	switch err := r.Direct.List(ctx, made, client.InNamespace(registry.Namespace), client.MatchingLabels(labels(registry))); {
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
func (o *Observation) add(m metav1.ObjectMeta, registry string, status registryv1alpha1.JobStatus, changed bool) {
	if registry != o.Registry.Name || !changed || status.CompletionTime == nil || status.RegistryUID != string(o.Registry.UID) {
		return
	}
	o.Jobs = append(o.Jobs, Job{Name: m.Name, UID: string(m.UID), Ended: status.CompletionTime.Time})
}

// labels are those by which the Scans of a Registry are found. Labels are for people, so the owner decides.
func labels(r *registryv1alpha1.Registry) map[string]string {
	return results.Labels(r.Name, r.Namespace, "", "", "")
}
