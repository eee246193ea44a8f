// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Limits bound how many Scans of a namespace run at a time. A Scan runs from the creation of
// its scanner Job until it is Done or Errored; the others wait and say so. 0 lets none start.
type Limits struct {
	// maxRunning is how many Scans of this namespace run at a time. Absent: the cluster's
	// limits.maxRunningPerNamespace; more than that is refused.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunning *int32 `json:"maxRunning,omitempty"`

	// scanTypes bound how many Scans of one ScanType run at a time in this namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	ScanTypes []ScanTypeLimit `json:"scanTypes,omitempty"`

	// targets bound how many Scans of one target run at a time in this namespace.
	// +optional
	// +listType=map
	// +listMapKey=label
	// +kubebuilder:validation:MaxItems=16
	Targets []TargetLimit `json:"targets,omitempty"`
}

// ClusterLimits bound how many Scans run at a time. 0 lets none start.
// +kubebuilder:validation:XValidation:rule="!has(self.maxRunning) || !has(self.maxRunningPerNamespace) || self.maxRunningPerNamespace <= self.maxRunning",message="maxRunningPerNamespace is more than maxRunning, which bounds the whole cluster: lower it",fieldPath=".maxRunningPerNamespace"
type ClusterLimits struct {
	// maxRunning is how many Scans of all namespaces together run at a time. Absent: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunning *int32 `json:"maxRunning,omitempty"`

	// maxRunningPerNamespace is how many Scans of one namespace run at a time; a namespace may
	// lower it for itself. Absent: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunningPerNamespace *int32 `json:"maxRunningPerNamespace,omitempty"`

	// scanTypes bound how many Scans of one ScanType run at a time in all namespaces together.
	// ScanTypes and ClusterScanTypes of one name count together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	ScanTypes []ScanTypeLimit `json:"scanTypes,omitempty"`

	// targets bound how many Scans of one target run at a time in all namespaces together.
	// +optional
	// +listType=map
	// +listMapKey=label
	// +kubebuilder:validation:MaxItems=16
	Targets []TargetLimit `json:"targets,omitempty"`
}

// ScanTypeLimit bounds the Scans of one ScanType.
type ScanTypeLimit struct {
	// name of the ScanType or ClusterScanType, as Scans have it in spec.scanType.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// maxRunning is how many of its Scans run at a time.
	// +required
	// +kubebuilder:validation:Minimum=0
	MaxRunning int32 `json:"maxRunning"`
}

// TargetLimit bounds the Scans that have the same value of a label, so that one target is not
// scanned by too many at a time. Scans without the label are not bounded.
type TargetLimit struct {
	// label is the key of the label of Scans that names the target.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Label string `json:"label"`

	// maxRunning is how many Scans of each value of the label run at a time.
	// +required
	// +kubebuilder:validation:Minimum=0
	MaxRunning int32 `json:"maxRunning"`
}

// Weight is the share of some namespaces.
// +kubebuilder:validation:XValidation:rule="has(self.namespace) != has(self.namespaceSelector)",message="name either a namespace or a namespaceSelector"
type Weight struct {
	// namespace is the name of one namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// namespaceSelector selects namespaces by their labels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// weight of each of these namespaces.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight int32 `json:"weight"`
}

// QueueOrder is how the waiting Scans of a namespace are ordered.
// +kubebuilder:validation:Enum=FIFO;Priority
type QueueOrder string

const (
	// OrderFIFO starts the Scan first that has waited longest; spec.priority of Scans does not count.
	OrderFIFO QueueOrder = "FIFO"
	// OrderPriority starts the Scan first that has the highest spec.priority, and among equals
	// the one that has waited longest.
	OrderPriority QueueOrder = "Priority"
)

// Queue says in which order the waiting Scans of a namespace start. Between namespaces the
// weights of the cluster decide.
type Queue struct {
	// order is FIFO or Priority. Absent: FIFO.
	// +optional
	Order *QueueOrder `json:"order,omitempty"`

	// maxPriority is the highest spec.priority that counts; a higher one of a Scan counts as
	// this. A namespace may lower it. Absent: no bound.
	// +optional
	MaxPriority *int32 `json:"maxPriority,omitempty"`
}

// TTL says how long ended Scans are kept, with their Jobs and stored results. It holds for
// Scans that have ended already as well.
// +kubebuilder:validation:XValidation:rule="!has(self.maxSeconds) || !has(self.defaultSeconds) || self.defaultSeconds <= self.maxSeconds",message="defaultSeconds is more than maxSeconds: lower it",fieldPath=".defaultSeconds"
type TTL struct {
	// defaultSeconds holds for Scans without spec.ttlSecondsAfterFinished. Absent: these are
	// kept for ever, or for maxSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DefaultSeconds *int32 `json:"defaultSeconds,omitempty"`

	// maxSeconds is the longest that any ended Scan is kept, whatever it asks for. A namespace
	// may lower it. Absent: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxSeconds *int32 `json:"maxSeconds,omitempty"`
}

// Deadlines bound the phases of Scans, in seconds. Each holds for Scans that set none in
// spec.deadlines, and is the most that counts of what a Scan sets. A namespace may lower it.
// Absent: the flags of the operator hold for Scans that set none.
type Deadlines struct {
	// startSeconds bounds how long the pod of any phase may take to start.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	StartSeconds *int64 `json:"startSeconds,omitempty"`

	// scannerSeconds bounds the scanner Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ScannerSeconds *int64 `json:"scannerSeconds,omitempty"`

	// parserSeconds bounds the parser Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ParserSeconds *int64 `json:"parserSeconds,omitempty"`

	// hookSeconds bounds each hook Job, retries included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	HookSeconds *int64 `json:"hookSeconds,omitempty"`
}

// Schedules bound what ScheduledScans may ask for. One that asks for more is not refused: it gets
// the bound, and its condition Ready says so.
type Schedules struct {
	// minIntervalSeconds is the least time between two planned runs of a ScheduledScan; 10 where
	// absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	MinIntervalSeconds *int32 `json:"minIntervalSeconds,omitempty"`

	// maxHistory is how many Done and how many Errored Scans a ScheduledScan may keep; 1000
	// where absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxHistory *int32 `json:"maxHistory,omitempty"`
}

// Phases are defaults for each phase. What a namespace sets for a phase replaces, field by
// field, what the cluster sets.
type Phases struct {
	// scanner is for scanner Jobs: their first container and their pod.
	// +optional
	Scanner *PhaseDefaults `json:"scanner,omitempty"`
	// parser is for parser Jobs.
	// +optional
	Parser *PhaseDefaults `json:"parser,omitempty"`
	// hook is for hook Jobs.
	// +optional
	Hook *PhaseDefaults `json:"hook,omitempty"`
}

// PhaseDefaults hold where ScanType and Scan, ParseDefinition or hook say nothing.
type PhaseDefaults struct {
	// resources of the container. They hold where neither requests nor limits are set.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// securityContext of the container. For scanners, fields hold where the ScanType does not
	// set them. Parsers and hooks cannot set one: there the fields replace those of the
	// restricted Pod Security level that the operator sets.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// podSecurityContext of the pod. Fields hold where the ScanType does not set them.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
}

// Jobs is added to every Job: to all containers but the lurker, which gets proxy and
// certificate only.
type Jobs struct {
	// imagePullSecrets are added to those of the pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []PullSecret `json:"imagePullSecrets,omitempty"`

	// env is added to the environment. A variable that a container sets already stays; a
	// namespace's replaces the cluster's of the same name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []corev1.EnvVar `json:"env,omitempty"`

	// proxy sets the variables by which programs find an HTTP proxy.
	// +optional
	Proxy *Proxy `json:"proxy,omitempty"`

	// caCertificate is a certificate to trust, beside those of the images.
	// +optional
	CACertificate *CACertificate `json:"caCertificate,omitempty"`

	// phases is Separate if parsers must have pods of their own. Fused, or absent: they may run in the
	// scanner's pod where ScanType and ParseDefinition allow it. Separate of the cluster holds for all
	// namespaces.
	// +optional
	Phases executionv1.Phases `json:"phases,omitempty"`
}

// PullSecret names a Secret with which images are pulled.
type PullSecret struct {
	// name of the Secret, in the namespace of the Job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Proxy sets HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper and lower case. The API server
// and names below .svc are always reached without it.
type Proxy struct {
	// http is the URL of the proxy for http. Do not put a password into it: whoever may read
	// pods reads it; use jobs.env with a Secret for that.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	HTTP string `json:"http,omitempty"`
	// https is the URL of the proxy for https.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	HTTPS string `json:"https,omitempty"`
	// noProxy are hosts, domains and networks that are reached without the proxy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	NoProxy []string `json:"noProxy,omitempty"`
}

// CACertificate is a certificate in a ConfigMap of the Job's namespace. It takes the place of
// the one that the operator's CUSTOM_CA_CERTIFICATE_EXISTING_CERTIFICATE names.
type CACertificate struct {
	// configMap is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap"`
	// key of the certificate, PEM, in it; the file below /etc/ssl/certs has this name.
	// +required
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Storage says where the results of a namespace's Scans lie. A Scan keeps the place that holds
// when it is taken up: a later change is for later Scans.
type Storage struct {
	// bucket for the results, at the endpoint of the operator. Needs storage.allowNamespaces of
	// the cluster and, unless credentialsSecret is set, a place in its storage.buckets.
	// Absent: the bucket of the operator.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket,omitempty"`

	// prefix is put in front of the keys, with a slash between. Needs storage.allowNamespaces
	// of the cluster. Example: team-a/scans
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`
	// +kubebuilder:validation:MaxLength=256
	Prefix string `json:"prefix,omitempty"`

	// credentialsSecret is the name of a Secret of this namespace with the keys accessKey and
	// secretKey. The operator needs a Role that lets it get this Secret. Needs
	// storage.allowNamespaces of the cluster, and bucket.
	// Absent: the credentials of the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// linksInStatus says whether presigned download links are written into the status of Scans.
	// A namespace may switch them off, not on where the cluster has them off.
	// +optional
	LinksInStatus *bool `json:"linksInStatus,omitempty"`
}

// ClusterStorage says what namespaces may choose of where their results lie.
type ClusterStorage struct {
	// allowNamespaces lets namespaces set bucket, prefix and credentialsSecret. Absent: they
	// may not.
	// +optional
	AllowNamespaces *bool `json:"allowNamespaces,omitempty"`

	// buckets are those that a namespace may choose without credentials of its own, beside the
	// operator's. A bucket that is taken off the list is out of reach for the Scans that have
	// their results there.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Buckets []string `json:"buckets,omitempty"`

	// linksInStatus says whether presigned download links are written into the status of Scans.
	// Whoever may read a Scan can then read its findings. Absent: as the operator's
	// --status-links says.
	// +optional
	LinksInStatus *bool `json:"linksInStatus,omitempty"`
}

// VolumeType is a type of volume, as its field in a pod is called.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type VolumeType string

// Allowed says what a Scan, and the ScanTypes, ParseDefinitions and hooks of its namespace,
// may use. What Cluster* kinds bring is not asked: cluster admins write them. A Scan that uses
// something else ends Errored with reason NotAllowed.
type Allowed struct {
	// volumeTypes are the types of volumes that pods may have, such as emptyDir, configMap,
	// secret, persistentVolumeClaim. An empty list allows none. A namespace may leave out of
	// the cluster's. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	VolumeTypes *[]VolumeType `json:"volumeTypes,omitempty"`

	// serviceAccounts are the ServiceAccounts that pods may run as, beside those that the
	// operator makes. An empty list allows only those. A namespace may leave out of the
	// cluster's. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	ServiceAccounts *[]string `json:"serviceAccounts,omitempty"`
}

// Phase is a kind of Job of a Scan.
// +kubebuilder:validation:Enum=Scanner;Parser;Hook
type Phase string

const (
	// PhaseScanner is the Job that scans.
	PhaseScanner Phase = "Scanner"
	// PhaseParser is the Job that makes findings of the raw result.
	PhaseParser Phase = "Parser"
	// PhaseHook is a Job that does something with the findings.
	PhaseHook Phase = "Hook"
)

// JobPatch changes Jobs in what no field of ours is for. What the contract or isolation depends
// on cannot be changed: names, owner, our labels, command and arguments, the lurker, the
// ServiceAccount, API tokens, restart policy, and volumes that the operator brings.
type JobPatch struct {
	// target selects Jobs; all that is given has to hold. Absent: all Jobs.
	// +optional
	Target *PatchTarget `json:"target,omitempty"`

	// patch is a strategic merge patch of the Job, as YAML or JSON, or a list of JSON 6902
	// operations (add, remove, replace, move, copy, test).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Patch string `json:"patch"`
}

// PatchTarget selects Jobs.
type PatchTarget struct {
	// phases are Scanner, Parser and Hook. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Phases []Phase `json:"phases,omitempty"`

	// scanTypes are names of ScanTypes or ClusterScanTypes of the Scans. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	ScanTypes []string `json:"scanTypes,omitempty"`

	// hooks are names of ScanCompletionHooks or ClusterScanCompletionHooks; only hook Jobs have
	// one. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Hooks []string `json:"hooks,omitempty"`

	// labelSelector selects by the labels of the Scan. Absent: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
