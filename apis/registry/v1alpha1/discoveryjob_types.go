// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DiscoveryJobSpec says what is looked for.
// +kubebuilder:validation:XValidation:rule="!has(self.override) || self.?dryRun.orValue(false)",message="override needs dryRun: true",fieldPath=".override"
// +kubebuilder:validation:XValidation:rule="has(self.repositories) == has(oldSelf.repositories) && has(self.retry) == has(oldSelf.retry) && has(self.override) == has(oldSelf.override) && self.?retryOnly.orValue(false) == oldSelf.?retryOnly.orValue(false) && self.?force.orValue(false) == oldSelf.?force.orValue(false) && self.?dryRun.orValue(false) == oldSelf.?dryRun.orValue(false)",message="only suspend, cancel and ttlSecondsAfterFinished can be changed; make another job"
// +kubebuilder:validation:XValidation:rule="self.?cancel.orValue(false) || !oldSelf.?cancel.orValue(false)",message="cancel is for good; make another job",fieldPath=".cancel"
type DiscoveryJobSpec struct {
	JobSpec `json:",inline"`

	// force reads known digests again and makes SBOMs anew.
	// +optional
	Force bool `json:"force,omitempty"`

	// dryRun lists and filters, and writes nothing but the status of the job, with preview.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// override is a filter instead of the Registry's. It needs dryRun.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Override *Filter `json:"override,omitempty"`

	// stopAfter says how far new images are taken: they are found, they get an SBOM, or they get a report too.
	// +optional
	// +kubebuilder:default=Match
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	StopAfter StopAfter `json:"stopAfter,omitempty"`
}

// DiscoveryJobStatus is how far the job has come.
type DiscoveryJobStatus struct {
	JobStatus `json:",inline"`

	// repositories of the job.
	// +optional
	Repositories *RepositoryCounts `json:"repositories,omitempty"`

	// tags of the repositories that are done.
	// +optional
	Tags *TagCounts `json:"tags,omitempty"`

	// images of the repositories that are done.
	// +optional
	Images *FoundImages `json:"images,omitempty"`

	// sboms that the job has had made.
	// +optional
	SBOMs *DocumentCounts `json:"sboms,omitempty"`

	// reports that the job has had made.
	// +optional
	Reports *DocumentCounts `json:"reports,omitempty"`

	// requests to the registry.
	// +optional
	Requests *RequestCounts `json:"requests,omitempty"`

	// bytes of layers that were fetched.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// preview of a dry run.
	// +optional
	Preview *Preview `json:"preview,omitempty"`
}

// RepositoryCounts are repositories by their state.
type RepositoryCounts struct {
	// total of them.
	// +optional
	Total int64 `json:"total"`
	// waiting for their turn.
	// +optional
	Waiting int64 `json:"waiting"`
	// working: a worker lists them.
	// +optional
	Working int64 `json:"working"`
	// done ones.
	// +optional
	Done int64 `json:"done"`
	// failed ones.
	// +optional
	Failed int64 `json:"failed"`
}

// TagCounts are tags.
type TagCounts struct {
	// listed by the registry.
	// +optional
	Listed int64 `json:"listed"`
	// selected by the filter.
	// +optional
	Selected int64 `json:"selected"`
	// skipped by the filter, or since they have no image.
	// +optional
	Skipped int64 `json:"skipped"`
	// byReason counts why tags were skipped.
	// +optional
	ByReason map[string]int64 `json:"byReason,omitempty"`
}

// FoundImages are images that a discovery has found.
type FoundImages struct {
	// found in all.
	// +optional
	Found int64 `json:"found"`
	// new ones.
	// +optional
	New int64 `json:"new"`
	// unchanged ones were known.
	// +optional
	Unchanged int64 `json:"unchanged"`
	// gone ones were known and are not there any more.
	// +optional
	Gone int64 `json:"gone"`
}

// DocumentCounts are SBOMs or reports.
type DocumentCounts struct {
	// wanted ones.
	// +optional
	Wanted int64 `json:"wanted"`
	// made ones.
	// +optional
	Made int64 `json:"made"`
	// reused ones were there already for the same digest.
	// +optional
	Reused int64 `json:"reused"`
	// failed ones.
	// +optional
	Failed int64 `json:"failed"`
}

// RequestCounts are requests to a registry.
type RequestCounts struct {
	// head requests for manifests.
	// +optional
	Head int64 `json:"head"`
	// get requests for lists, manifests and configs.
	// +optional
	Get int64 `json:"get"`
	// cached answers cost no request.
	// +optional
	Cached int64 `json:"cached"`
}

// Preview is what a filter takes, and what it does not.
type Preview struct {
	// selected tags, as repository:tag.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Selected []string `json:"selected,omitempty"`
	// skipped tags, each with the reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Skipped []SkippedTag `json:"skipped,omitempty"`
}

// SkippedTag is a tag that a filter does not take.
type SkippedTag struct {
	// tag, as repository:tag.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Tag string `json:"tag"`
	// reason of the filter.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
}

// DiscoveryJob looks for the images of a Registry, once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=discoveryjobs,singular=discoveryjob,scope=Namespaced,shortName=discjob,categories=scanyard
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
type DiscoveryJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is looked for.
	// +required
	Spec DiscoveryJobSpec `json:"spec"`
	// status is how far the job has come.
	// +optional
	Status DiscoveryJobStatus `json:"status,omitempty"`
}

// DiscoveryJobList is a list of DiscoveryJobs.
// +kubebuilder:object:root=true
type DiscoveryJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DiscoveryJob `json:"items"`
}
