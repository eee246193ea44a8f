// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Need is what an image lacks.
// +kubebuilder:validation:Enum=SBOM;Match;Any
// +enum
type Need string

// What an image lacks.
const (
	// NeedSBOM asks for present images that have no SBOM yet: those in the state Pending.
	NeedSBOM Need = "SBOM"
	// NeedMatch asks for present images that wait for a match, or whose report is missing, of another engine, older than the
	// SBOM, or touched by newer data.
	NeedMatch Need = "Match"
	// NeedAny asks for all images.
	NeedAny Need = "Any"
)

// ImageQuerySpec is a question over the images of one namespace. All that is given must hold.
type ImageQuerySpec struct {
	// registryUID keeps images of this Registry.
	// +optional
	RegistryUID string `json:"registryUID,omitempty"`

	// jobUID keeps images that this job works on, or has worked on last.
	// +optional
	JobUID string `json:"jobUID,omitempty"`

	// need is what the images lack. Absent: Any.
	// +optional
	Need Need `json:"need,omitempty"`

	// states keeps images in these states.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	States []string `json:"states,omitempty"`

	// adapter that is to match. Required with the need Match.
	// +optional
	Adapter string `json:"adapter,omitempty"`

	// engineVersion is that of the adapter's engine: reports of another one are wanted anew. Empty: any is good.
	// +optional
	EngineVersion string `json:"engineVersion,omitempty"`

	// databaseVersion is the data that is to be matched against. Empty: the newest that the server knows of the adapter.
	// +optional
	DatabaseVersion string `json:"databaseVersion,omitempty"`

	// now leaves out images whose notBefore is later than this. Absent: they are not left out.
	// +optional
	Now *metav1.Time `json:"now,omitempty"`

	// limit is the most items of the answer, 1000 at most. Absent: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`

	// continue is that of the status of the page before.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// ImageItem is one image of an answer.
type ImageItem struct {
	// name of the Image.
	// +required
	Name string `json:"name"`

	// uid of the Image.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// digest of the image.
	// +optional
	Digest string `json:"digest,omitempty"`

	// bytes is the size of the image's stored layers.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// state of the work.
	// +optional
	State string `json:"state,omitempty"`

	// attempt counts the tries of the present step.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// lost counts the tries whose lease ran out.
	// +optional
	Lost int32 `json:"lost,omitempty"`

	// notBefore is the earliest time of the next try.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

// ImageQueryStatus is the answer. The server writes it.
type ImageQueryStatus struct {
	// items are the images, ordered by name.
	// +optional
	// +listType=atomic
	Items []ImageItem `json:"items,omitempty"`

	// total is how many images there are in all pages.
	// +optional
	Total int64 `json:"total"`

	// byState counts them by their states.
	// +optional
	ByState map[string]int64 `json:"byState,omitempty"`

	// continue asks for the next page. Empty: this is the last one.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// ImageQuery asks what is to be done for the images of one namespace. Create one to ask; the answer is the created object
// with its status, and nothing is stored.
// +kubebuilder:object:root=true
type ImageQuery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	// +optional
	Spec ImageQuerySpec `json:"spec,omitempty"`

	// status is the answer.
	// +optional
	Status ImageQueryStatus `json:"status,omitempty"`
}
