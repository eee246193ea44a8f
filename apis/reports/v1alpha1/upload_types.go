// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Headers of uploads.
const (
	// HeaderSHA256 is the SHA-256 of the uncompressed body, in hexadecimal digits.
	HeaderSHA256 = "Scanyard-Sha256"
	// HeaderClaim is the claim of status.work, which the upload ends.
	HeaderClaim = "Scanyard-Claim"
	// HeaderSpec is what the body does not say, as the base64 of the JSON of an SBOMUpload, a FindingsUpload or a TagsUpload.
	HeaderSpec = "Scanyard-Spec"
)

// States of an Image.
const (
	// ImagePending says that the image has no SBOM yet.
	ImagePending = "Pending"
	// ImageGeneratingSBOM says that a worker makes the SBOM.
	ImageGeneratingSBOM = "GeneratingSBOM"
	// ImageWaitingForMatch says that the SBOM has not been matched yet.
	ImageWaitingForMatch = "WaitingForMatch"
	// ImageMatching says that a worker matches the SBOM.
	ImageMatching = "Matching"
	// ImageScanned says that there is a report.
	ImageScanned = "Scanned"
	// ImageFailed says that the attempts are used up.
	ImageFailed = "Failed"
	// ImageQuarantined says that work on the image has killed adapters or workers.
	ImageQuarantined = "Quarantined"
	// ImageSkipped says that the image cannot be scanned.
	ImageSkipped = "Skipped"
)

// ReasonChanged of an Image in the state Scanned says that its report is the first, or that findings came or went with it.
const ReasonChanged = "Changed"

// Reasons for which uploads and reuse are refused, in details.causes[].reason of the Status.
const (
	// ReasonClaimLost says that the claim is not the stored one. The result is to be dropped.
	ReasonClaimLost = "ClaimLost"
	// ReasonNotNewer says that the stored report was made with newer data, or with the same where no claim was given.
	ReasonNotNewer = "NotNewer"
	// ReasonSumMismatch says that the body is not the one that the header names.
	ReasonSumMismatch = "SumMismatch"
	// ReasonTooLarge says that the body exceeds a bound.
	ReasonTooLarge = "TooLarge"
	// ReasonNotSPDX says that the body is no SPDX document in JSON.
	ReasonNotSPDX = "NotSPDX"
	// ReasonNotFindings says that the body is not lines of findings and keys.
	ReasonNotFindings = "NotFindings"
	// ReasonNothingToReuse says that there is nothing that the image may share.
	ReasonNothingToReuse = "NothingToReuse"
)

// SBOMUpload is what the worker knows of a document besides what is in it.
type SBOMUpload struct {
	// engine that made the document.
	// +optional
	Engine *Engine `json:"engine,omitempty"`

	// os is the distribution inside of the image.
	// +optional
	OS *OperatingSystem `json:"os,omitempty"`

	// completeness of the document. Absent: Full.
	// +optional
	Completeness Completeness `json:"completeness,omitempty"`

	// missing says what a Partial document leaves out.
	// +optional
	// +listType=atomic
	Missing []string `json:"missing,omitempty"`

	// shareable says that the content may be shared with other namespaces: dedupe is Host, and the Registry verifies TLS with
	// the system's roots, or its host is one of dedupeHosts.
	// +optional
	Shareable bool `json:"shareable,omitempty"`
}

// FindingsUpload is what the worker knows of findings besides what is in them.
type FindingsUpload struct {
	// provenance tells how the findings were made.
	// +required
	Provenance Provenance `json:"provenance"`

	// shareable says that the content may be shared with other namespaces, as for an SBOM.
	// +optional
	Shareable bool `json:"shareable,omitempty"`
}

// TagsUpload is what goes into the status of a Repository together with its tags.
type TagsUpload struct {
	// status replaces that of the Repository, without work: a checkpoint keeps the claim, and renews it, and a status in the
	// state Done or Failed ends it.
	// +required
	Status RepositoryStatus `json:"status"`
}

// PackageKeys are the keys under which an adapter would look for a package: a line of an upload of findings.
type PackageKeys struct {
	// purl of the package.
	// +required
	PURL string `json:"purl"`

	// keys such as "npm|lodash", in lower case.
	// +optional
	// +listType=atomic
	Keys []string `json:"keys,omitempty"`
}

// UploadAnswer tells what became of an upload.
type UploadAnswer struct {
	// changed says that the content is another one than that stored before.
	// +optional
	Changed bool `json:"changed"`

	// sha256 of the content.
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// packages is how many packages an SBOM holds.
	// +optional
	Packages int64 `json:"packages,omitempty"`

	// findings is how many findings were stored.
	// +optional
	Findings int64 `json:"findings,omitempty"`
}

// Dedupe says with whom content is shared.
// +kubebuilder:validation:Enum=Host;Namespace;Off
// +enum
type Dedupe string

// With whom content is shared.
const (
	// DedupeHost shares with other namespaces what comes from the same host.
	DedupeHost Dedupe = "Host"
	// DedupeNamespace shares inside of a namespace only.
	DedupeNamespace Dedupe = "Namespace"
	// DedupeOff shares nothing.
	DedupeOff Dedupe = "Off"
)

// ReuseRequest asks for an SBOM and a report that are there already: the body of a POST to the sub-resource reuse of an Image.
type ReuseRequest struct {
	// dedupe says with whom content is shared. Absent: Off.
	// +optional
	Dedupe Dedupe `json:"dedupe,omitempty"`

	// shareable says that this Registry verifies TLS with the system's roots, or that its host is one of dedupeHosts.
	// Without it nothing of other namespaces is found.
	// +optional
	Shareable bool `json:"shareable,omitempty"`

	// engine of the adapter: only what was made by it is found.
	// +required
	Engine Engine `json:"engine"`

	// adapter that would match. Empty: no report is asked for.
	// +optional
	Adapter *Adapter `json:"adapter,omitempty"`

	// database that would be matched against. Absent: no report is asked for.
	// +optional
	Database *DatabaseUsed `json:"database,omitempty"`

	// job is the UID of the job that asks.
	// +optional
	Job string `json:"job,omitempty"`

	// at is when the step began, as provenance of a report says it. Absent: the time of the request.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// ReuseAnswer tells what was attached to an Image.
type ReuseAnswer struct {
	// sbom says that an SBOM was attached.
	// +optional
	SBOM bool `json:"sbom"`

	// report says that a report was attached.
	// +optional
	Report bool `json:"report"`
}
