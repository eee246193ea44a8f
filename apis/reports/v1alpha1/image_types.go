// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RegistryRef names the Registry that an image was found in.
type RegistryRef struct {
	// name of the Registry, in the same namespace. Empty: the image is external, and no Registry has it.
	// +optional
	Name string `json:"name,omitempty"`

	// uid of the Registry: one that was made anew under the same name has other images.
	// +optional
	UID string `json:"uid,omitempty"`

	// host is the registry's host, with its port where it has one. Example: "ghcr.io".
	// +optional
	Host string `json:"host,omitempty"`
}

// ImageLayer is one layer of an image.
type ImageLayer struct {
	// digest of the stored, most often compressed layer. Example: "sha256:0a1b…".
	// +optional
	Digest string `json:"digest,omitempty"`

	// diffID is the digest of the layer once uncompressed.
	// +optional
	DiffID string `json:"diffID,omitempty"`

	// mediaType of the stored layer.
	// +optional
	MediaType string `json:"mediaType,omitempty"`

	// bytes is the size of the stored layer.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// command made the layer, from the history of the image; cut to 512 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Command string `json:"command,omitempty"`
}

// ImageConfig is what the image's configuration says of how it runs.
type ImageConfig struct {
	// user that the image's programs run as. Empty: root.
	// +optional
	User string `json:"user,omitempty"`

	// labels of the image, 32 at most, with values of 256 characters at most.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ImageSpec is what an image is. It never changes: another digest is another Image.
type ImageSpec struct {
	// registry is where the image was found.
	// +optional
	Registry RegistryRef `json:"registry,omitempty"`

	// repository is the whole name inside of the registry. Example: "prod/api".
	// +required
	Repository string `json:"repository"`

	// tag that the image was found by. Empty: it was found by its digest.
	// +optional
	Tag string `json:"tag,omitempty"`

	// digest of the image's manifest for this platform. Example: "sha256:0a1b…".
	// +required
	Digest string `json:"digest"`

	// indexDigest is the digest of the index that named the manifest, where there was one.
	// +optional
	IndexDigest string `json:"indexDigest,omitempty"`

	// platform is operating system, architecture and variant. Example: "linux/arm64/v8".
	// +optional
	Platform string `json:"platform,omitempty"`

	// mediaType of the manifest.
	// +optional
	MediaType string `json:"mediaType,omitempty"`

	// configDigest is the digest of the image's configuration.
	// +optional
	ConfigDigest string `json:"configDigest,omitempty"`

	// created is when the image was built, as its configuration says.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`

	// compressedBytes is the size of all stored layers.
	// +optional
	CompressedBytes int64 `json:"compressedBytes,omitempty"`

	// layers, the lowest first; 512 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Layers []ImageLayer `json:"layers,omitempty"`

	// config is what the image's configuration says.
	// +optional
	Config *ImageConfig `json:"config,omitempty"`

	// flags tell what is special about the image, such as layers that cannot be read.
	// +optional
	// +listType=set
	Flags []string `json:"flags,omitempty"`

	// external says that nobody found the image in a registry: its SBOM was brought along.
	// +optional
	External bool `json:"external,omitempty"`
}

// ImagePresence says whether an image is still there.
// +kubebuilder:validation:Enum=Present;Superseded;Gone
// +enum
type ImagePresence string

// Whether an image is still there.
const (
	// ImagePresent says that the registry has the image, under its tag.
	ImagePresent ImagePresence = "Present"
	// ImageSuperseded says that the tag points to another digest now.
	ImageSuperseded ImagePresence = "Superseded"
	// ImageGone says that the registry has neither tag nor digest any more.
	ImageGone ImagePresence = "Gone"
)

// ImagePresences are all that an image may have.
var ImagePresences = []ImagePresence{ImagePresent, ImageSuperseded, ImageGone}

// JobRef names the job that works on an image.
type JobRef struct {
	// kind of the job. Example: "ScanJob".
	// +optional
	Kind string `json:"kind,omitempty"`

	// name of the job.
	// +optional
	Name string `json:"name,omitempty"`

	// uid of the job.
	// +optional
	UID string `json:"uid,omitempty"`
}

// Work is the present step on the way to a report, and who takes it.
type Work struct {
	// step that is taken or waited for.
	// +optional
	Step string `json:"step,omitempty"`

	// job that asked for the step.
	// +optional
	Job *JobRef `json:"job,omitempty"`

	// attempt counts the tries of the step, from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// crashes counts the tries that ended with the death of a worker or an adapter.
	// +optional
	Crashes int32 `json:"crashes,omitempty"`

	// lost counts the tries whose lease ran out.
	// +optional
	Lost int32 `json:"lost,omitempty"`

	// claim identifies the try: what comes under another claim is refused.
	// +optional
	Claim string `json:"claim,omitempty"`

	// worker that has the claim.
	// +optional
	Worker string `json:"worker,omitempty"`

	// startedAt is when the try began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// leaseExpiresAt is when the claim ends, unless the worker renews it.
	// +optional
	LeaseExpiresAt *metav1.Time `json:"leaseExpiresAt,omitempty"`

	// notBefore is the earliest time of the next try.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

// Engine is the program that made a document.
type Engine struct {
	// name of the program. Example: "trivy".
	// +optional
	Name string `json:"name,omitempty"`

	// version of the program.
	// +optional
	Version string `json:"version,omitempty"`
}

// ImageSBOM tells of the image's SBOM.
type ImageSBOM struct {
	// sha256 of the canonical document, in hexadecimal digits.
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// packages is how many packages the document holds.
	// +optional
	Packages int64 `json:"packages,omitempty"`

	// formats that the document can be read in.
	// +optional
	// +listType=set
	Formats []string `json:"formats,omitempty"`

	// engine that made the document.
	// +optional
	Engine *Engine `json:"engine,omitempty"`

	// generatedAt is when it was made in this namespace.
	// +optional
	GeneratedAt *metav1.Time `json:"generatedAt,omitempty"`
}

// VulnerabilitySummary counts vulnerabilities. Suppressed ones count in suppressed only.
type VulnerabilitySummary struct {
	// critical is the number of CRITICAL ones.
	// +optional
	Critical *int64 `json:"critical,omitempty"`

	// high is the number of HIGH ones.
	// +optional
	High *int64 `json:"high,omitempty"`

	// medium is the number of MEDIUM ones.
	// +optional
	Medium *int64 `json:"medium,omitempty"`

	// low is the number of LOW ones.
	// +optional
	Low *int64 `json:"low,omitempty"`

	// unknown is the number of ones without a severity.
	// +optional
	Unknown *int64 `json:"unknown,omitempty"`

	// fixable is the number of ones that a newer version of the package fixes.
	// +optional
	Fixable *int64 `json:"fixable,omitempty"`

	// suppressed is the number of ones that an exception or a VEX statement accepts.
	// +optional
	Suppressed *int64 `json:"suppressed,omitempty"`
}

// DatabaseRef names the vulnerability data that a report was made with.
type DatabaseRef struct {
	// name of the VulnerabilityDatabase.
	// +optional
	Name string `json:"name,omitempty"`

	// version is the digest of the data.
	// +optional
	Version string `json:"version,omitempty"`

	// builtAt is when the data was built.
	// +optional
	BuiltAt *metav1.Time `json:"builtAt,omitempty"`
}

// ImageStatus is how far the work on an image has come. Workers and the registry controller write it.
type ImageStatus struct {
	// presence says whether the image is still in its registry.
	// +optional
	Presence ImagePresence `json:"presence,omitempty"`

	// firstSeenTime is when the image was seen first.
	// +optional
	FirstSeenTime *metav1.Time `json:"firstSeenTime,omitempty"`

	// goneTime is when the image was no longer found.
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`

	// state of the work.
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

	// sbom tells of the image's SBOM.
	// +optional
	SBOM *ImageSBOM `json:"sbom,omitempty"`

	// vulnerabilities counts those of the image's VulnerabilityReport.
	// +optional
	Vulnerabilities *VulnerabilitySummary `json:"vulnerabilities,omitempty"`

	// scannedAt is when the VulnerabilityReport was made or confirmed.
	// +optional
	ScannedAt *metav1.Time `json:"scannedAt,omitempty"`

	// database is the vulnerability data of the report.
	// +optional
	Database *DatabaseRef `json:"database,omitempty"`

	// conditions: Ready, with the state's reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Image is one image of a registry, for one platform.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Image struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the image is. It cannot be changed.
	// +required
	Spec ImageSpec `json:"spec"`

	// status is how far the work on the image has come.
	// +optional
	Status ImageStatus `json:"status,omitempty"`
}

// ImageList is a list of Images.
// +kubebuilder:object:root=true
type ImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Images.
	Items []Image `json:"items"`
}
