// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ImageRef tells which image a document is about, so that the document can be selected by it.
type ImageRef struct {
	// registry is where the image was found.
	// +optional
	Registry *RegistryRef `json:"registry,omitempty"`

	// repository is the whole name inside of the registry.
	// +optional
	Repository string `json:"repository,omitempty"`

	// tag that the image was found by.
	// +optional
	Tag string `json:"tag,omitempty"`

	// digest of the image's manifest for this platform.
	// +required
	Digest string `json:"digest"`

	// indexDigest is the digest of the index that named the manifest.
	// +optional
	IndexDigest string `json:"indexDigest,omitempty"`

	// platform is operating system, architecture and variant. Example: "linux/amd64".
	// +optional
	Platform string `json:"platform,omitempty"`
}

// OperatingSystem is the distribution inside of an image.
type OperatingSystem struct {
	// family of the distribution. Example: "debian".
	// +optional
	Family string `json:"family,omitempty"`

	// version of the distribution. Example: "12.5".
	// +optional
	Version string `json:"version,omitempty"`

	// eol says that the distribution gets no more fixes.
	// +optional
	EOL bool `json:"eol,omitempty"`
}

// Completeness says whether an SBOM covers the whole image.
// +kubebuilder:validation:Enum=Full;Partial
// +enum
type Completeness string

// Whether an SBOM covers the whole image.
const (
	// CompletenessFull says that every layer was read.
	CompletenessFull Completeness = "Full"
	// CompletenessPartial says that missing names what was not read.
	CompletenessPartial Completeness = "Partial"
)

// Origin says where an SBOM comes from.
// +kubebuilder:validation:Enum=Generated;Imported
// +enum
type Origin string

// Where an SBOM comes from.
const (
	// OriginGenerated says that a worker read the image.
	OriginGenerated Origin = "Generated"
	// OriginImported says that somebody brought the document along.
	OriginImported Origin = "Imported"
)

// SBOMSpec is the software bill of materials of one image.
type SBOMSpec struct {
	ImageRef `json:",inline"`

	// image is the name of the Image, in the same namespace.
	// +required
	Image string `json:"image"`

	// format of the document: spdx-json (2.3).
	// +optional
	Format string `json:"format,omitempty"`

	// sha256 of the canonical document, in hexadecimal digits.
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// bytes is the size of the canonical document.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// packages is how many packages the document holds.
	// +optional
	Packages int64 `json:"packages,omitempty"`

	// os is the distribution inside of the image.
	// +optional
	OS *OperatingSystem `json:"os,omitempty"`

	// engine that made the document.
	// +optional
	Engine *Engine `json:"engine,omitempty"`

	// completeness says whether the document covers the whole image.
	// +optional
	Completeness Completeness `json:"completeness,omitempty"`

	// missing says what a Partial document leaves out: encrypted, foreign or unknown layers.
	// +optional
	// +listType=atomic
	Missing []string `json:"missing,omitempty"`

	// origin says where the document comes from.
	// +optional
	Origin Origin `json:"origin,omitempty"`

	// sbom is the document itself, up to 4 MiB. Lists and watches never hold it. It cannot be changed.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	SBOM *runtime.RawExtension `json:"sbom,omitempty"`

	// sbomOmitted says that there is a document which this answer does not hold. The server writes it.
	// +optional
	SBOMOmitted bool `json:"sbomOmitted,omitempty"`
}

// SBOM is what one image is made of. It has the name of its Image.
// +kubebuilder:object:root=true
type SBOM struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the software bill of materials.
	// +required
	Spec SBOMSpec `json:"spec"`
}

// SBOMList is a list of SBOMs.
// +kubebuilder:object:root=true
type SBOMList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the SBOMs.
	Items []SBOM `json:"items"`
}
