// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/inventory"
)

// anyJob is a DiscoveryJob or a ScanJob; nothing after observe asks which.
type anyJob interface {
	object() client.Object
	spec() *registryv1alpha1.JobSpec
	status() *registryv1alpha1.JobStatus
	isEnded() bool
	// isDry: the job writes nothing but its status.
	isDry() bool
	copied() anyJob
	// complete adds what the kind wants.
	complete(j *inventory.Job)
	// count writes the sums.
	count(f *inventory.Found)
}

func ended(s registryv1alpha1.JobStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, registryv1alpha1.ConditionCompleted)
	return c != nil && c.Status != metav1.ConditionUnknown
}

type discoveryJob struct{ *registryv1alpha1.DiscoveryJob }

func (j discoveryJob) object() client.Object               { return j.DiscoveryJob }
func (j discoveryJob) spec() *registryv1alpha1.JobSpec     { return &j.Spec.JobSpec }
func (j discoveryJob) status() *registryv1alpha1.JobStatus { return &j.Status.JobStatus }
func (j discoveryJob) isEnded() bool                       { return ended(j.Status.JobStatus) }
func (j discoveryJob) isDry() bool                         { return j.Spec.DryRun }
func (j discoveryJob) copied() anyJob                      { return discoveryJob{j.DeepCopy()} }
func (j discoveryJob) complete(w *inventory.Job)           { w.StopAfter = j.Spec.StopAfter }

func (j discoveryJob) count(f *inventory.Found) {
	s := &j.Status
	s.Repositories, s.Tags, s.Images, s.SBOMs, s.Reports = &f.Repositories, &f.Tags, &f.Images, &f.SBOMs, &f.Reports
}

type scanJob struct{ *registryv1alpha1.ScanJob }

func (j scanJob) object() client.Object               { return j.ScanJob }
func (j scanJob) spec() *registryv1alpha1.JobSpec     { return &j.Spec.JobSpec }
func (j scanJob) status() *registryv1alpha1.JobStatus { return &j.Status.JobStatus }
func (j scanJob) isEnded() bool                       { return ended(j.Status.JobStatus) }
func (j scanJob) isDry() bool                         { return false }
func (j scanJob) copied() anyJob                      { return scanJob{j.DeepCopy()} }
func (j scanJob) count(f *inventory.Found)            { j.Status.Images = &f.Scanned }

func (j scanJob) complete(w *inventory.Job) {
	w.Images, w.Mode = j.Spec.Images, j.Spec.Mode
	if d := j.Status.Database; d != nil {
		w.Database.Version = d.Version
	}
}
