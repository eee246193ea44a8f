// SPDX-License-Identifier: Apache-2.0

// Package results is what the operator's results endpoint and those who call it say to each other.
//
// The operator alone knows where the results of a Scan lie and with which credentials they are read. Who has the right get
// on scans/results gets a URL for one file; who has the right delete may have the results removed once they are elsewhere.
package results

import "time"

const (
	// URLPath answers a POST of a [URLRequest] with a [URLAnswer].
	URLPath = "/v1/results/url"
	// ReleasePath answers a POST of a [ReleaseRequest] with a [ReleaseAnswer].
	ReleasePath = "/v1/results/release"
	// Audience is that of the tokens that callers send.
	Audience = "scanyard-results"
	// Subresource of scans is what callers need a right on. No API server serves it: it is for RBAC only.
	Subresource = "results"
	// CAConfigMap is the ConfigMap in the operator's namespace that has the authority of the endpoint's certificate.
	CAConfigMap = "scanyard-results-ca"
	// CAKey is the key of CAConfigMap: one or more certificates, PEM.
	CAKey = "ca.crt"
)

// Files that can be asked for.
const (
	FileFindings = "findings"
	FileRaw      = "raw"
	// FileExceptions are the exceptions that held for the Scan when its last parser or hook began.
	FileExceptions = "exceptions"
)

// Reasons of refusals.
const (
	// ReasonBadRequest says that the body cannot be read.
	ReasonBadRequest = "BadRequest"
	// ReasonUnauthenticated says that there is no token that is valid for [Audience].
	ReasonUnauthenticated = "Unauthenticated"
	// ReasonForbidden says that the caller lacks the right on scans/results in the namespace.
	ReasonForbidden = "Forbidden"
	// ReasonScanNotFound says that there is no such Scan, or that the operator does not work in its namespace.
	ReasonScanNotFound = "ScanNotFound"
	// ReasonResultsMissing says that the Scan has not stored such a file.
	ReasonResultsMissing = "ResultsMissing"
	// ReasonUIDMismatch says that the Scan was deleted and made again under its name.
	ReasonUIDMismatch = "UIDMismatch"
	// ReasonTooManyCalls says that the operator answers as many calls as it can.
	ReasonTooManyCalls = "TooManyCalls"
	// ReasonStorageUnavailable says that object storage cannot be used now.
	ReasonStorageUnavailable = "StorageUnavailable"
	// ReasonUnavailable says that the API server cannot be asked now.
	ReasonUnavailable = "Unavailable"
)

// URLRequest asks for a file of a Scan.
type URLRequest struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// File is FileFindings, FileRaw or FileExceptions.
	File string `json:"file"`
}

// URLAnswer is where the file can be read.
type URLAnswer struct {
	// URL is presigned: whoever has it reads the file, for 15 minutes.
	URL string `json:"url"`
	// ETag tells one content of the file from another. It has no quotation marks.
	ETag         string    `json:"etag"`
	Size         int64     `json:"size"`
	LastModified time.Time `json:"lastModified"`
}

// Refusal is the body of every answer that is not a success.
type Refusal struct {
	// Reason is for programs, Message for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons why results are not released.
const (
	// ReasonModeIsKeep says that the settings keep results where they are.
	ReasonModeIsKeep = "ModeIsKeep"
	// ReasonNotSettled says that the Scan runs, is asked to run again, or is being deleted.
	ReasonNotSettled = "NotSettled"
	// ReasonRetained says that the Scan asks for its results to be kept.
	ReasonRetained = "Retained"
	// ReasonNotForwarded says that a sink lacks records of this run.
	ReasonNotForwarded = "NotForwarded"
	// ReasonNotProved says that no sink has proved that it has these records.
	ReasonNotProved = "NotProved"
	// ReasonNotHealthy says that a sink is not healthy.
	ReasonNotHealthy = "NotHealthy"
	// ReasonResultsChanged says that the results are others, or those of another run.
	ReasonResultsChanged = "ResultsChanged"
	// ReasonNeededForComparison says that this is the newest good run of its target, which the settings keep.
	ReasonNeededForComparison = "NeededForComparison"
)

// ReleaseRequest asks to remove the results of one run of a Scan, since its sinks have them.
type ReleaseRequest struct {
	// DryRun asks whether they would be removed.
	DryRun    bool   `json:"dryRun"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Revision is the run that the sinks have.
	Revision int32 `json:"revision"`
	// ETag is that of the findings that were sent; "" where there were none.
	ETag string `json:"etag"`
	// Records is how many a sink has proved to have, without the closing one, and Chain their digest in hexadecimal.
	Records int64  `json:"records"`
	Chain   string `json:"chain"`
	// Sinks are those that have them, by their IDs.
	Sinks []string `json:"sinks"`
}

// ReleaseAnswer says that nothing speaks against it, and whether it was done.
type ReleaseAnswer struct {
	// Released is true where the results are being removed now.
	Released bool `json:"released"`
}
