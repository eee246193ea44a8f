// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScanJobSpec says which images are looked at.
// +kubebuilder:validation:XValidation:rule="has(self.repositories) == has(oldSelf.repositories) && has(self.retry) == has(oldSelf.retry) && has(self.images) == has(oldSelf.images) && self.?retryOnly.orValue(false) == oldSelf.?retryOnly.orValue(false)",message="only suspend, cancel and ttlSecondsAfterFinished can be changed; make another job"
// +kubebuilder:validation:XValidation:rule="self.?cancel.orValue(false) || !oldSelf.?cancel.orValue(false)",message="cancel is for good; make another job",fieldPath=".cancel"
type ScanJobSpec struct {
	JobSpec `json:",inline"`

	// images are names of Images. Absent: all that the registry has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Images []string `json:"images,omitempty"`

	// mode Changed looks at SBOMs that new vulnerability data touches, Full at every one.
	// +optional
	// +kubebuilder:default=Changed
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Mode Mode `json:"mode,omitempty"`
}

// ScanJobStatus is how far the job has come.
type ScanJobStatus struct {
	JobStatus `json:",inline"`

	// database is the vulnerability data that the job counts by.
	// +optional
	Database *Database `json:"database,omitempty"`

	// images of the job.
	// +optional
	Images *ScannedImages `json:"images,omitempty"`
}

// ScannedImages are the images of a ScanJob: total = unaffected + wanted, and wanted is the sum of what follows it.
type ScannedImages struct {
	// total are present images with an SBOM.
	// +optional
	Total int64 `json:"total"`
	// unaffected ones need not be looked at.
	// +optional
	Unaffected int64 `json:"unaffected"`
	// wanted ones are looked at.
	// +optional
	Wanted int64 `json:"wanted"`
	// waiting for their turn.
	// +optional
	Waiting int64 `json:"waiting"`
	// working: a worker looks at them.
	// +optional
	Working int64 `json:"working"`
	// changed ones have another report than before.
	// +optional
	Changed int64 `json:"changed"`
	// unchanged ones have the report that they had.
	// +optional
	Unchanged int64 `json:"unchanged"`
	// failed ones.
	// +optional
	Failed int64 `json:"failed"`
	// quarantined ones have ended workers or adapters.
	// +optional
	Quarantined int64 `json:"quarantined"`
}

// ScanJob looks at the images of a Registry with the newest vulnerability data, once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scanjobs,singular=scanjob,scope=Namespaced,shortName=regscan,categories=scanyard
// +kubebuilder:printcolumn:name="Registry",type=string,JSONPath=`.spec.registry`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.progress.done`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.progress.total`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.progress.failed`
// +kubebuilder:printcolumn:name="Trigger",type=string,JSONPath=`.metadata.labels.registry\.scanyard\.io/trigger`,priority=1
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startTime`,priority=1
// +kubebuilder:printcolumn:name="Duration",type=string,JSONPath=`.status.progress.duration`,priority=1
// +kubebuilder:printcolumn:name="Warnings",type=string,JSONPath=`.status.warnings[*].code`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScanJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which images are looked at.
	// +required
	Spec ScanJobSpec `json:"spec"`
	// status is how far the job has come.
	// +optional
	Status ScanJobStatus `json:"status,omitempty"`
}

// ScanJobList is a list of ScanJobs.
// +kubebuilder:object:root=true
type ScanJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScanJob `json:"items"`
}
