// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Type is the kind of registry. It chooses how the catalogue is asked for, and the limits that the registry is known for.
// +kubebuilder:validation:Enum=oci;docker;ecr;gcr;acr;ghcr;quay;harbor;ECR;GCR;ACR;GHCR
type Type string

// The types of registries.
const (
	TypeOCI    Type = "oci"
	TypeDocker Type = "docker"
	TypeECR    Type = "ecr"
	TypeGCR    Type = "gcr"
	TypeACR    Type = "acr"
	TypeGHCR   Type = "ghcr"
	TypeQuay   Type = "quay"
	TypeHarbor Type = "harbor"
)

// Catalog says whether the registry is asked for the names of its repositories.
// +kubebuilder:validation:Enum=Auto;Always;Never
type Catalog string

// Whether a registry is asked for the names of its repositories.
const (
	// CatalogAuto goes by the type.
	CatalogAuto   Catalog = "Auto"
	CatalogAlways Catalog = "Always"
	// CatalogNever needs names in repositories.
	CatalogNever Catalog = "Never"
)

// Provider is a cloud whose identity the worker's pod has.
// +kubebuilder:validation:Enum=AWS;GCP;Azure
type Provider string

// The clouds.
const (
	ProviderAWS   Provider = "AWS"
	ProviderGCP   Provider = "GCP"
	ProviderAzure Provider = "Azure"
)

// Insecure is what is given up of TLS.
// +kubebuilder:validation:Enum=SkipVerify;PlainHTTP
type Insecure string

// What may be given up of TLS.
const (
	// SkipVerify takes any certificate.
	SkipVerify Insecure = "SkipVerify"
	// PlainHTTP speaks without TLS.
	PlainHTTP Insecure = "PlainHTTP"
)

// WindowPolicy says what becomes of a job that runs when a window begins.
// +kubebuilder:validation:Enum=Finish;Pause
type WindowPolicy string

// What may become of such a job.
const (
	// WindowFinish lets the job go on.
	WindowFinish WindowPolicy = "Finish"
	// WindowPause lets no further item of the job in until the window ends.
	WindowPause WindowPolicy = "Pause"
)

// ScanTrigger is what has images looked at besides the schedules.
// +kubebuilder:validation:Enum=NewImage;DatabaseChange
type ScanTrigger string

// What has images looked at.
const (
	// OnNewImage matches images as soon as they have an SBOM.
	OnNewImage ScanTrigger = "NewImage"
	// OnDatabaseChange looks again at what a new database touches.
	OnDatabaseChange ScanTrigger = "DatabaseChange"
)

// Format is a format of SBOMs.
// +kubebuilder:validation:Enum=SPDX;CycloneDX
type Format string

// The formats of SBOMs.
const (
	FormatSPDX      Format = "SPDX"
	FormatCycloneDX Format = "CycloneDX"
)

// Publish says which images go into the Scan of a Registry's findings.
// +kubebuilder:validation:Enum=All;Changed
type Publish string

// Which images go into the Scan.
const (
	// PublishAll takes every present image.
	PublishAll Publish = "All"
	// PublishChanged takes images whose report the job has changed.
	PublishChanged Publish = "Changed"
)

// Severity is how bad a vulnerability is, as its source says.
// +kubebuilder:validation:Enum=CRITICAL;HIGH;MEDIUM;LOW;UNKNOWN
type Severity string

// RegistrySpec says which registry is looked at, what of it, and when.
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || has(self.insecure) && self.insecure == 'PlainHTTP'",message="an url with http:// needs insecure: PlainHTTP",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!has(self.discoveryPeriod) || !has(self.discoverySchedule) || size(self.discoverySchedule) == 0",message="discoveryPeriod and discoverySchedule cannot both be set",fieldPath=".discoverySchedule"
// +kubebuilder:validation:XValidation:rule="!has(self.scanPeriod) || !has(self.scanSchedule) || size(self.scanSchedule) == 0",message="scanPeriod and scanSchedule cannot both be set",fieldPath=".scanSchedule"
type RegistrySpec struct {
	Filter `json:",inline"`

	// url is where the registry answers: https://host or https://host:port. Docker Hub is https://registry-1.docker.io;
	// docker.io and index.docker.io are read as that. It cannot be changed: another registry is another Registry.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another Registry"
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?/?$')",message="must be https://host or https://host:port, without a path, a user, a query or a fragment"
	URL string `json:"url"`

	// type is the kind of registry; oci is any that follows the OCI Distribution API.
	// +optional
	// +kubebuilder:default=oci
	Type Type `json:"type,omitempty"`

	// catalog says whether the registry is asked for the names of its repositories, where repositories is absent or has a *
	// in a name. Auto goes by the type; Never needs names in repositories.
	// +optional
	// +kubebuilder:default=Auto
	Catalog Catalog `json:"catalog,omitempty"`

	// auth says who asks. Absent: nobody by name.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// caBundle are PEM certificates that are trusted beside those of the system, for this Registry only.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	CABundle string `json:"caBundle,omitempty"`

	// insecure gives up a part of TLS: SkipVerify takes any certificate, PlainHTTP speaks without TLS. It is never implied.
	// +optional
	Insecure Insecure `json:"insecure,omitempty"`

	// immutableTags are patterns of tags that always point to the same image: they are asked for once, and never again while
	// the registry lists them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	ImmutableTags []string `json:"immutableTags,omitempty"`

	// discoveryPeriod is the time between two looks for new images, such as 1h; at least 1m. Absent, and without
	// discoverySchedule: they are looked for by hand only.
	// +optional
	DiscoveryPeriod Period `json:"discoveryPeriod,omitempty"`

	// scanPeriod is the time between two looks at all images with the newest vulnerability data, such as 1d; at least 1m.
	// +optional
	ScanPeriod Period `json:"scanPeriod,omitempty"`

	// discoverySchedule is a cron expression instead of discoveryPeriod, read in timeZone.
	// +optional
	DiscoverySchedule Schedule `json:"discoverySchedule,omitempty"`

	// scanSchedule is a cron expression instead of scanPeriod, read in timeZone.
	// +optional
	ScanSchedule Schedule `json:"scanSchedule,omitempty"`

	// timeZone is the IANA name of the zone in which schedules and windows are read. Absent: that of the controller.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (self != 'Local' && self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$'))",message="must be the IANA name of a time zone, such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone,omitempty"`

	// jitter is the most by which a job may start later than planned. How much it is depends on the Registry and the planned
	// time only. Absent: a tenth of the period, 10m at most.
	// +optional
	Jitter Duration `json:"jitter,omitempty"`

	// windows are times in which no job starts. One that comes due in a window starts when the window ends.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Windows []Window `json:"windows,omitempty"`

	// windowPolicy says what becomes of a job that runs when a window begins: Finish goes on, Pause lets no further item in.
	// +optional
	// +kubebuilder:default=Finish
	WindowPolicy WindowPolicy `json:"windowPolicy,omitempty"`

	// scanOn is what has images looked at besides the schedules. Absent: both, new images and changes of the database.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={NewImage,DatabaseChange}
	ScanOn []ScanTrigger `json:"scanOn,omitzero"`

	// adapter is the name of the engine's adapter. Absent: that of the installation.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Adapter string `json:"adapter,omitempty"`

	// formats are those in which SBOMs are stored.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={SPDX}
	Formats []Format `json:"formats,omitempty"`

	// suspend starts no job, and lets no further item of running ones in. Afterwards one run makes up for what was missed.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`

	// priority orders the Registries of one namespace, higher ones first; never two namespaces.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// limits tighten what holds for the namespace. A wider one counts as the namespace's.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// retention says how long what left the registry is kept.
	// +optional
	Retention *Retention `json:"retention,omitempty"`

	// successfulJobsHistoryLimit is how many scheduled jobs of each kind are kept that ended well.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=3
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many scheduled jobs of each kind are kept that failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=3
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// findings has a Scan made of the Registry's findings when a job has changed a report, so that hooks see them.
	// +optional
	Findings *Findings `json:"findings,omitempty"`
}

// Auth says who asks the registry.
// +kubebuilder:validation:XValidation:rule="!(has(self.secretName) && has(self.provider))",message="secretName and provider cannot both be set"
type Auth struct {
	// secretName is a Secret of this namespace, of type kubernetes.io/dockerconfigjson, or Opaque with username and password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// provider takes the cloud identity of the worker's pod, where the installation allows that to the namespace.
	// +optional
	Provider Provider `json:"provider,omitempty"`
}

// Limits bound the work for a Registry.
type Limits struct {
	// imageBytes is the largest image, compressed; 16Gi where absent.
	// +optional
	ImageBytes *resource.Quantity `json:"imageBytes,omitempty"`

	// uncompressedBytes is the largest image, uncompressed; 64Gi where absent.
	// +optional
	UncompressedBytes *resource.Quantity `json:"uncompressedBytes,omitempty"`

	// timeout of an image's SBOM; 30m where absent.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// concurrent is how many items of the Registry are worked on at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Concurrent *int32 `json:"concurrent,omitempty"`

	// requestsPerSecond to the registry.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RequestsPerSecond *int32 `json:"requestsPerSecond,omitempty"`

	// bytesPerDay are fetched from the registry in 24 hours at most.
	// +optional
	BytesPerDay *resource.Quantity `json:"bytesPerDay,omitempty"`
}

// Retention says how long what left the registry is kept.
type Retention struct {
	// gone is how long an Image that left the registry, or whose tag points elsewhere, is kept with its SBOM and its report.
	// +optional
	// +kubebuilder:default="7d"
	Gone Period `json:"gone,omitempty"`
}

// Findings describes the Scan of a Registry's findings.
type Findings struct {
	// publish says which images go into the Scan: All present ones, or those whose report the job has Changed.
	// +optional
	// +kubebuilder:default=All
	Publish Publish `json:"publish,omitempty"`

	// minSeverity leaves out what is less bad.
	// +optional
	// +kubebuilder:default=LOW
	MinSeverity Severity `json:"minSeverity,omitempty"`

	// scanType of the Scan.
	// +optional
	// +kubebuilder:default=registry-findings
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ScanType string `json:"scanType,omitempty"`

	// resourceMode of the Scan: namespaceLocal or clusterWide.
	// +optional
	// +kubebuilder:validation:Enum=namespaceLocal;clusterWide
	ResourceMode string `json:"resourceMode,omitempty"`

	// hookSelector of the Scan. Absent or empty selects all hooks.
	// +optional
	HookSelector *metav1.LabelSelector `json:"hookSelector,omitempty"`

	// priority of the Scan.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// ttlSecondsAfterFinished of the Scan.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=604800
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RegistryStatus is where a Registry stands. The registry controller writes it.
type RegistryStatus struct {
	// conditions: Ready, Reachable, CatalogAvailable, Secure, UpToDate and, with spec.findings, FindingsPublished.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// repositories that are selected.
	// +optional
	Repositories int64 `json:"repositories,omitempty"`

	// tags that are selected.
	// +optional
	Tags int64 `json:"tags,omitempty"`

	// images by their state.
	// +optional
	Images *ImageCounts `json:"images,omitempty"`

	// vulnerabilities of the present images. An image with several tags counts once.
	// +optional
	Vulnerabilities *VulnerabilityCounts `json:"vulnerabilities,omitempty"`

	// lastDiscovery is the DiscoveryJob that ended last.
	// +optional
	LastDiscovery *LastJob `json:"lastDiscovery,omitempty"`

	// lastScan is the ScanJob that ended last.
	// +optional
	LastScan *LastJob `json:"lastScan,omitempty"`

	// nextDiscoveryTime is when the next DiscoveryJob starts.
	// +optional
	NextDiscoveryTime *metav1.Time `json:"nextDiscoveryTime,omitempty"`

	// nextScanTime is when the next ScanJob starts.
	// +optional
	NextScanTime *metav1.Time `json:"nextScanTime,omitempty"`

	// database is the vulnerability data that all reports are good for.
	// +optional
	Database *Database `json:"database,omitempty"`

	// findings is the job whose findings were published last, or could not be; FindingsPublished says which. Absent without
	// spec.findings.
	// +optional
	Findings *PublishedFindings `json:"findings,omitempty"`

	// rateLimit is what the registry has told of its limits.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`

	// warnings of the last discovery.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Warnings []Warning `json:"warnings,omitempty"`
}

// ImageCounts are images by their state.
type ImageCounts struct {
	// present in the registry.
	// +optional
	Present int64 `json:"present"`
	// scanned ones have a report.
	// +optional
	Scanned int64 `json:"scanned"`
	// waiting for their SBOM or their report.
	// +optional
	Waiting int64 `json:"waiting"`
	// failed ones are tried again by the next job.
	// +optional
	Failed int64 `json:"failed"`
	// quarantined ones have ended workers or adapters.
	// +optional
	Quarantined int64 `json:"quarantined"`
	// skipped ones are too large, or nothing that can be looked at.
	// +optional
	Skipped int64 `json:"skipped"`
}

// VulnerabilityCounts are vulnerabilities by how bad they are. Suppressed ones count as such only.
type VulnerabilityCounts struct {
	// critical ones.
	// +optional
	Critical int64 `json:"critical"`
	// high ones.
	// +optional
	High int64 `json:"high"`
	// medium ones.
	// +optional
	Medium int64 `json:"medium"`
	// low ones.
	// +optional
	Low int64 `json:"low"`
	// unknown ones have no severity.
	// +optional
	Unknown int64 `json:"unknown"`
	// fixable ones are fixed in a newer version of their package.
	// +optional
	Fixable int64 `json:"fixable"`
	// suppressed by an exception or a VEX statement.
	// +optional
	Suppressed int64 `json:"suppressed"`
}

// LastJob is a job that has ended.
type LastJob struct {
	// job is its name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// time of its end.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// result is the reason of its condition Completed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Result string `json:"result,omitempty"`
}

// PublishedFindings is a job whose findings are published as a Scan.
type PublishedFindings struct {
	// job is the UID of the DiscoveryJob or ScanJob.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Job string `json:"job"`

	// scan is the name of the Scan, also where it could not be made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Scan string `json:"scan"`

	// ended is when the job ended.
	// +required
	Ended metav1.Time `json:"ended"`
}

// RateLimit is what a registry has told of its limits.
type RateLimit struct {
	// host that told it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Host string `json:"host,omitempty"`
	// remaining requests until resetTime. Absent: not told.
	// +optional
	Remaining *int64 `json:"remaining,omitempty"`
	// resetTime is when the host may be asked again as usual.
	// +optional
	ResetTime *metav1.Time `json:"resetTime,omitempty"`
}

// Types of the conditions of a Registry.
const (
	// ConditionReady is True where jobs may run.
	ConditionReady = "Ready"
	// ConditionReachable is True where the registry answered as a registry.
	ConditionReachable = "Reachable"
	// ConditionCatalogAvailable is True where the registry told the names of its repositories.
	ConditionCatalogAvailable = "CatalogAvailable"
	// ConditionSecure is False where spec.insecure gives up TLS.
	ConditionSecure = "Secure"
	// ConditionUpToDate is True where every present image has a report of the newest data.
	ConditionUpToDate = "UpToDate"
	// ConditionFindingsPublished is True where the Scan of the findings was made. Absent without spec.findings.
	ConditionFindingsPublished = "FindingsPublished"
)

// Reasons of the condition Ready of a Registry.
const (
	// ReasonAccepted is set where jobs may run.
	ReasonAccepted = "Accepted"
	// ReasonInvalid is set where a field can never work; the message names the field and what to write.
	ReasonInvalid = "Invalid"
	// ReasonSecretNotFound is set where auth.secretName names no Secret of the namespace; create it.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretForbidden is set where the worker may not read the Secret; the message holds the command that grants it.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonHostNotAllowed is set where the installation does not allow the host of the url.
	ReasonHostNotAllowed = "HostNotAllowed"
	// ReasonAdapterUnknown is set where no worker has spec.adapter.
	ReasonAdapterUnknown = "AdapterUnknown"
	// ReasonQuotaExceeded is set where the namespace has more Registries than it may; younger ones wait.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonReportsUnavailable is set while the reports API does not answer.
	ReasonReportsUnavailable = "ReportsUnavailable"
	// ReasonQueueUnavailable is set while the queue of work is not to be had.
	ReasonQueueUnavailable = "QueueUnavailable"
	// ReasonSuspended is set while spec.suspend is.
	ReasonSuspended = "Suspended"
)

// Reasons of the other conditions of a Registry.
const (
	ReasonAnswered            = "Answered"
	ReasonUnauthorized        = "Unauthorized"
	ReasonForbidden           = "Forbidden"
	ReasonNotFound            = "NotFound"
	ReasonTLSFailed           = "TLSFailed"
	ReasonNameNotResolved     = "NameNotResolved"
	ReasonUnreachable         = "Unreachable"
	ReasonRateLimited         = "RateLimited"
	ReasonNoRegistry          = "NoRegistry"
	ReasonListed              = "Listed"
	ReasonCatalogNotSupported = "CatalogNotSupported"
	ReasonCatalogForbidden    = "CatalogForbidden"
	ReasonCatalogLoop         = "CatalogLoop"
	ReasonNotAsked            = "NotAsked"
	ReasonVerified            = "Verified"
	ReasonScanned             = "Scanned"
	ReasonWaiting             = "Waiting"
	ReasonImagesFailed        = "ImagesFailed"
	ReasonDatabaseStale       = "DatabaseStale"
	ReasonDatabaseMissing     = "DatabaseMissing"
	ReasonNeverDiscovered     = "NeverDiscovered"
	ReasonPublished           = "Published"
	ReasonTooManyFindings     = "TooManyFindings"
	ReasonScanTypeNotFound    = "ScanTypeNotFound"
	ReasonScanRejected        = "ScanRejected"
)

// Registry is a container registry that is looked at: its images are listed, each gets an SBOM once, and the SBOMs are
// matched with vulnerability data again and again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=registries,singular=registry,scope=Namespaced,shortName=reg,categories=scanyard
// +kubebuilder:selectablefield:JSONPath=.spec.url
// +kubebuilder:selectablefield:JSONPath=.spec.type
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Images",type=integer,JSONPath=`.status.images.present`,description="Images that the registry has"
// +kubebuilder:printcolumn:name="Critical",type=integer,JSONPath=`.status.vulnerabilities.critical`
// +kubebuilder:printcolumn:name="High",type=integer,JSONPath=`.status.vulnerabilities.high`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Last Discovery",type=date,JSONPath=`.status.lastDiscovery.time`
// +kubebuilder:printcolumn:name="Last Scan",type=date,JSONPath=`.status.lastScan.time`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.images.failed`,priority=1
// +kubebuilder:printcolumn:name="Next Discovery",type=string,JSONPath=`.status.nextDiscoveryTime`,priority=1
// +kubebuilder:printcolumn:name="Next Scan",type=string,JSONPath=`.status.nextScanTime`,priority=1
// +kubebuilder:printcolumn:name="Database",type=date,JSONPath=`.status.database.builtAt`,description="Age of the data that all reports are good for",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Registry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which registry is looked at, what of it, and when.
	// +required
	Spec RegistrySpec `json:"spec"`
	// status is where the Registry stands.
	// +optional
	Status RegistryStatus `json:"status,omitempty"`
}

// RegistryList is a list of Registries.
// +kubebuilder:object:root=true
type RegistryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Registry `json:"items"`
}
