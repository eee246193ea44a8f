// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RepositorySpec is which repository is meant. It never changes.
type RepositorySpec struct {
	// registry that has the repository.
	// +required
	Registry RegistryRef `json:"registry"`

	// repository is the whole name inside of the registry. Empty: this is the registry's catalogue.
	// +optional
	Repository string `json:"repository,omitempty"`
}

// States of a Repository.
const (
	// RepositoryWaiting says that a job wants the repository to be read.
	RepositoryWaiting = "Waiting"
	// RepositoryWorking says that a worker reads the repository.
	RepositoryWorking = "Working"
	// RepositoryDone says that the repository has been read to its end.
	RepositoryDone = "Done"
	// RepositoryFailed says that the repository could not be read.
	RepositoryFailed = "Failed"
)

// TagCounts are the numbers of tags of a repository.
type TagCounts struct {
	// listed is how many tags the registry has.
	// +optional
	Listed int64 `json:"listed,omitempty"`

	// selected is how many of them the filter takes.
	// +optional
	Selected int64 `json:"selected,omitempty"`

	// skipped is how many of them the filter leaves out.
	// +optional
	Skipped int64 `json:"skipped,omitempty"`
}

// RepositoryWarning tells of tags that something is wrong with.
type RepositoryWarning struct {
	// code of the warning, one word for programs.
	// +required
	Code string `json:"code"`

	// count is how many tags have it.
	// +optional
	Count int64 `json:"count,omitempty"`

	// examples are some of these tags, 5 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Examples []string `json:"examples,omitempty"`
}

// RepositoryStatus is what discovery knows of the repository. Workers write it.
type RepositoryStatus struct {
	// state of the discovery: Waiting, Working, Done or Failed.
	// +optional
	State string `json:"state,omitempty"`

	// reason of the state, one word for programs.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message explains the state to people.
	// +optional
	Message string `json:"message,omitempty"`

	// work is the present step, and who takes it.
	// +optional
	Work *Work `json:"work,omitempty"`

	// tags counts the tags.
	// +optional
	Tags *TagCounts `json:"tags,omitempty"`

	// byReason counts the tags that the filter leaves out, by its reasons.
	// +optional
	ByReason map[string]int64 `json:"byReason,omitempty"`

	// warnings, 20 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Warnings []RepositoryWarning `json:"warnings,omitempty"`

	// cursor is where an unfinished discovery goes on. Empty: it is finished, or has not begun.
	// +optional
	Cursor string `json:"cursor,omitempty"`

	// etag is what the registry called the catalogue's or the list's content. Empty: it gives none.
	// +optional
	ETag string `json:"etag,omitempty"`

	// refusals counts how often in a row the registry has refused to list.
	// +optional
	Refusals int32 `json:"refusals,omitempty"`

	// discoveredAt is when the repository was last read to its end.
	// +optional
	DiscoveredAt *metav1.Time `json:"discoveredAt,omitempty"`

	// filterGeneration is the generation of the Registry whose filter was used.
	// +optional
	FilterGeneration int64 `json:"filterGeneration,omitempty"`
}

// Repository is what discovery knows of one repository of a registry, or of the registry's catalogue.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Repository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which repository is meant. It cannot be changed.
	// +required
	Spec RepositorySpec `json:"spec"`

	// status is what discovery knows.
	// +optional
	Status RepositoryStatus `json:"status,omitempty"`
}

// RepositoryList is a list of Repositories.
// +kubebuilder:object:root=true
type RepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Repositories.
	Items []Repository `json:"items"`
}

// Tag is what discovery knows of one tag: an entry of the sub-resource tags of a Repository.
type Tag struct {
	// tag is its name.
	// +required
	Tag string `json:"tag"`

	// digest of the manifest or index that the tag points to.
	// +optional
	Digest string `json:"digest,omitempty"`

	// mediaType of the manifest or index.
	// +optional
	MediaType string `json:"mediaType,omitempty"`

	// etag is what the registry called the tag's content.
	// +optional
	ETag string `json:"etag,omitempty"`

	// created is when the newest of the tag's images was built.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`

	// firstSeen is when the tag was seen first.
	// +optional
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`

	// platforms that the tag has.
	// +optional
	// +listType=atomic
	Platforms []string `json:"platforms,omitempty"`

	// selected says that the filter takes the tag.
	// +optional
	Selected bool `json:"selected,omitempty"`

	// reason is why the filter leaves the tag out.
	// +optional
	Reason string `json:"reason,omitempty"`

	// images are the names of the tag's Images.
	// +optional
	// +listType=atomic
	Images []string `json:"images,omitempty"`
}
