// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultSink is the name of the sink that the fields directly below resultForwarding describe.
const DefaultSink = "default"

// Provider is a kind of sink. The block of its name describes the sink.
// +kubebuilder:validation:Enum=grpc;http;kafka;nats;otlp;s3;file
// +kubebuilder:validation:MaxLength=8
type Provider string

// The providers.
const (
	// ProviderGRPC is a receiver of the API scanyard.forwarding.v1.
	ProviderGRPC Provider = "grpc"
	// ProviderHTTP is an HTTP endpoint that takes CloudEvents or lines of JSON.
	ProviderHTTP Provider = "http"
	// ProviderKafka is a topic of Kafka.
	ProviderKafka Provider = "kafka"
	// ProviderNATS is a subject of a stream of NATS JetStream.
	ProviderNATS Provider = "nats"
	// ProviderOTLP is a receiver of OpenTelemetry logs.
	ProviderOTLP Provider = "otlp"
	// ProviderS3 is a bucket.
	ProviderS3 Provider = "s3"
	// ProviderFile is a directory of the forwarder; only a ClusterScanSetting may have it.
	ProviderFile Provider = "file"
)

// ResultForwarding says where the results of a namespace's Scans go, beside the cluster. The
// fields directly below it describe one sink, which is called default; sinks has further ones.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || (has(self.grpc) == (self.provider == 'grpc') && has(self.http) == (self.provider == 'http') && has(self.kafka) == (self.provider == 'kafka') && has(self.nats) == (self.provider == 'nats') && has(self.otlp) == (self.provider == 'otlp') && has(self.s3) == (self.provider == 's3') && has(self.file) == (self.provider == 'file'))",messageExpression=`'provider is ' + self.provider + ': describe it in resultForwarding.' + self.provider + (has(self.grpc) && self.provider != 'grpc' ? ' and remove grpc' : "") + (has(self.http) && self.provider != 'http' ? ' and remove http' : "") + (has(self.kafka) && self.provider != 'kafka' ? ' and remove kafka' : "") + (has(self.nats) && self.provider != 'nats' ? ' and remove nats' : "") + (has(self.otlp) && self.provider != 'otlp' ? ' and remove otlp' : "") + (has(self.s3) && self.provider != 's3' ? ' and remove s3' : "") + (has(self.file) && self.provider != 'file' ? ' and remove file' : "")`,message="describe the sink in the block that is called like its provider, and remove the others",fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="has(self.provider) || !(has(self.grpc) || has(self.http) || has(self.kafka) || has(self.nats) || has(self.otlp) || has(self.s3) || has(self.file))",message="provider is missing: set it to the name of the block that describes the sink, one of grpc, http, kafka, nats, otlp, s3, file"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'file' || !has(self.provesStorage) || !self.provesStorage",message="a file never proves storage: remove provesStorage, or use another provider",fieldPath=".provesStorage"
// +kubebuilder:validation:XValidation:rule="!has(self.inClusterStorage) || !has(self.inClusterStorage.afterForwarding) || !(self.inClusterStorage.afterForwarding in ['Remove']) || has(self.provider) && (self.provider in ['grpc', 'kafka', 'nats', 's3'] && (!has(self.provesStorage) || self.provesStorage) || has(self.provesStorage) && self.provesStorage) || has(self.sinks) && self.sinks.exists(s, (s.provider in ['grpc', 'kafka', 'nats', 's3'] && (!has(s.provesStorage) || s.provesStorage) || has(s.provesStorage) && s.provesStorage))",message="results would be removed without proof that somebody has them: add a sink of provider grpc, kafka, nats or s3, or set provesStorage on one that keeps what it acknowledges",fieldPath=".inClusterStorage"
// +kubebuilder:validation:XValidation:rule="!has(self.failAfterSeconds) || has(self.failurePolicy) && self.failurePolicy == 'Fail'",message="failAfterSeconds counts with failurePolicy: Fail only: set that, or remove failAfterSeconds",fieldPath=".failAfterSeconds"
type ResultForwarding struct {
	Sink `json:",inline"`

	// sinks are further sinks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Sinks []NamedSink `json:"sinks,omitempty"`

	Delivery `json:",inline"`
}

// ClusterResultForwarding says where the results of all Scans go, beside the cluster. The fields
// directly below it describe one sink, which is called default; sinks has further ones.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || (has(self.grpc) == (self.provider == 'grpc') && has(self.http) == (self.provider == 'http') && has(self.kafka) == (self.provider == 'kafka') && has(self.nats) == (self.provider == 'nats') && has(self.otlp) == (self.provider == 'otlp') && has(self.s3) == (self.provider == 's3') && has(self.file) == (self.provider == 'file'))",messageExpression=`'provider is ' + self.provider + ': describe it in resultForwarding.' + self.provider + (has(self.grpc) && self.provider != 'grpc' ? ' and remove grpc' : "") + (has(self.http) && self.provider != 'http' ? ' and remove http' : "") + (has(self.kafka) && self.provider != 'kafka' ? ' and remove kafka' : "") + (has(self.nats) && self.provider != 'nats' ? ' and remove nats' : "") + (has(self.otlp) && self.provider != 'otlp' ? ' and remove otlp' : "") + (has(self.s3) && self.provider != 's3' ? ' and remove s3' : "") + (has(self.file) && self.provider != 'file' ? ' and remove file' : "")`,message="describe the sink in the block that is called like its provider, and remove the others",fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="has(self.provider) || !(has(self.grpc) || has(self.http) || has(self.kafka) || has(self.nats) || has(self.otlp) || has(self.s3) || has(self.file))",message="provider is missing: set it to the name of the block that describes the sink, one of grpc, http, kafka, nats, otlp, s3, file"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'file' || !has(self.provesStorage) || !self.provesStorage",message="a file never proves storage: remove provesStorage, or use another provider",fieldPath=".provesStorage"
// +kubebuilder:validation:XValidation:rule="!has(self.inClusterStorage) || !has(self.inClusterStorage.afterForwarding) || !(self.inClusterStorage.afterForwarding in ['Remove', 'KeepLastRun']) || has(self.provider) && (self.provider in ['grpc', 'kafka', 'nats', 's3'] && (!has(self.provesStorage) || self.provesStorage) || has(self.provesStorage) && self.provesStorage) || has(self.sinks) && self.sinks.exists(s, (s.provider in ['grpc', 'kafka', 'nats', 's3'] && (!has(s.provesStorage) || s.provesStorage) || has(s.provesStorage) && s.provesStorage))",message="results would be removed without proof that somebody has them: add a sink of provider grpc, kafka, nats or s3, or set provesStorage on one that keeps what it acknowledges",fieldPath=".inClusterStorage"
// +kubebuilder:validation:XValidation:rule="!has(self.failAfterSeconds) || has(self.failurePolicy) && self.failurePolicy == 'Fail'",message="failAfterSeconds counts with failurePolicy: Fail only: set that, or remove failAfterSeconds",fieldPath=".failAfterSeconds"
type ClusterResultForwarding struct {
	ClusterSink `json:",inline"`

	// sinks are further sinks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Sinks []NamedClusterSink `json:"sinks,omitempty"`

	Delivery `json:",inline"`

	// allowNamespaces lets namespaces have sinks of their own. Absent: they have none.
	// +optional
	AllowNamespaces *AllowNamespaces `json:"allowNamespaces,omitempty"`
}

// NamedSink is a sink of a namespace.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || (has(self.grpc) == (self.provider == 'grpc') && has(self.http) == (self.provider == 'http') && has(self.kafka) == (self.provider == 'kafka') && has(self.nats) == (self.provider == 'nats') && has(self.otlp) == (self.provider == 'otlp') && has(self.s3) == (self.provider == 's3') && has(self.file) == (self.provider == 'file'))",messageExpression=`'provider is ' + self.provider + ': describe it in sinks[].' + self.provider + (has(self.grpc) && self.provider != 'grpc' ? ' and remove grpc' : "") + (has(self.http) && self.provider != 'http' ? ' and remove http' : "") + (has(self.kafka) && self.provider != 'kafka' ? ' and remove kafka' : "") + (has(self.nats) && self.provider != 'nats' ? ' and remove nats' : "") + (has(self.otlp) && self.provider != 'otlp' ? ' and remove otlp' : "") + (has(self.s3) && self.provider != 's3' ? ' and remove s3' : "") + (has(self.file) && self.provider != 'file' ? ' and remove file' : "")`,message="describe the sink in the block that is called like its provider, and remove the others",fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="self.name != 'default'",message="the sink beside sinks is called default: choose another name",fieldPath=".name"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'file' || !has(self.provesStorage) || !self.provesStorage",message="a file never proves storage: remove provesStorage, or use another provider",fieldPath=".provesStorage"
// +kubebuilder:validation:XValidation:rule="has(self.provider)",message="provider is missing: set it to the name of the block that describes the sink, one of grpc, http, kafka, nats, otlp, s3, file"
type NamedSink struct {
	// name of the sink: a DNS label, not default.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	Sink `json:",inline"`
}

// NamedClusterSink is a sink of the cluster.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || (has(self.grpc) == (self.provider == 'grpc') && has(self.http) == (self.provider == 'http') && has(self.kafka) == (self.provider == 'kafka') && has(self.nats) == (self.provider == 'nats') && has(self.otlp) == (self.provider == 'otlp') && has(self.s3) == (self.provider == 's3') && has(self.file) == (self.provider == 'file'))",messageExpression=`'provider is ' + self.provider + ': describe it in sinks[].' + self.provider + (has(self.grpc) && self.provider != 'grpc' ? ' and remove grpc' : "") + (has(self.http) && self.provider != 'http' ? ' and remove http' : "") + (has(self.kafka) && self.provider != 'kafka' ? ' and remove kafka' : "") + (has(self.nats) && self.provider != 'nats' ? ' and remove nats' : "") + (has(self.otlp) && self.provider != 'otlp' ? ' and remove otlp' : "") + (has(self.s3) && self.provider != 's3' ? ' and remove s3' : "") + (has(self.file) && self.provider != 'file' ? ' and remove file' : "")`,message="describe the sink in the block that is called like its provider, and remove the others",fieldPath=".provider"
// +kubebuilder:validation:XValidation:rule="self.name != 'default'",message="the sink beside sinks is called default: choose another name",fieldPath=".name"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'file' || !has(self.provesStorage) || !self.provesStorage",message="a file never proves storage: remove provesStorage, or use another provider",fieldPath=".provesStorage"
// +kubebuilder:validation:XValidation:rule="has(self.provider)",message="provider is missing: set it to the name of the block that describes the sink, one of grpc, http, kafka, nats, otlp, s3, file"
type NamedClusterSink struct {
	// name of the sink: a DNS label, not default.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	ClusterSink `json:",inline"`
}

// ClusterSink is a sink, and the namespaces whose results it gets.
type ClusterSink struct {
	Sink `json:",inline"`

	// namespaceSelector selects the namespaces, by their labels, whose results this sink gets.
	// Absent: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// Sink is a far end that gets results.
type Sink struct {
	// provider is the kind of the sink. The block of the same name describes it.
	// +optional
	Provider Provider `json:"provider,omitempty"`

	// grpc describes a receiver of the API scanyard.forwarding.v1.
	// +optional
	GRPC *GRPCSink `json:"grpc,omitempty"`
	// http describes an HTTP endpoint.
	// +optional
	HTTP *HTTPSink `json:"http,omitempty"`
	// kafka describes a topic of Kafka.
	// +optional
	Kafka *KafkaSink `json:"kafka,omitempty"`
	// nats describes a subject of a stream of NATS JetStream.
	// +optional
	NATS *NATSSink `json:"nats,omitempty"`
	// otlp describes a receiver of OpenTelemetry logs.
	// +optional
	OTLP *OTLPSink `json:"otlp,omitempty"`
	// s3 describes a bucket.
	// +optional
	S3 *S3Sink `json:"s3,omitempty"`
	// file describes a directory of the forwarder. Only a ClusterScanSetting may have it.
	// +optional
	File *FileSink `json:"file,omitempty"`

	// records say what is sent. RawReference adds key, size and ETag of raw result and findings
	// to the summary; their bodies are never sent. Absent: Summary, Results and Exceptions.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	Records []RecordKind `json:"records,omitempty"`

	// minSeverity passes over findings below it; the closing record says so.
	// Absent: INFORMATIONAL.
	// +optional
	MinSeverity Severity `json:"minSeverity,omitempty"`

	// since is New for Scans that ended after the sink was first in force, and All for
	// everything that is still stored. Absent: New.
	// +optional
	Since Since `json:"since,omitempty"`

	// epoch sends all results again when it is raised, as after the far end lost its data.
	// Absent: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int32 `json:"epoch,omitempty"`

	// extraMetadata is sent along with each result. Directly below resultForwarding it holds for
	// all sinks; what a sink of sinks says goes over that, and what the cluster says over what a
	// namespace says. Keys begin with a letter and have up to 63 letters, digits and "_.-"; those
	// that begin with scanyard are refused. Values have up to 1024 bytes.
	// +optional
	ExtraMetadata Metadata `json:"extraMetadata,omitempty"`

	// batch bounds what is sent at a time.
	// +optional
	Batch *Batch `json:"batch,omitempty"`

	// timeoutSeconds is how long the far end may be silent on one request, or between
	// acknowledgements. Absent: 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// maxRecordsPerSecond bounds this sink. Absent: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxRecordsPerSecond *int32 `json:"maxRecordsPerSecond,omitempty"`

	// retry says how long to wait between attempts. Neither their number nor the time that they
	// take together is bounded.
	// +optional
	Retry *Retry `json:"retry,omitempty"`

	// provesStorage says that the far end keeps what it acknowledges. true is for providers http
	// and otlp with a durable far end, and for kafka whatever min.insync.replicas says.
	// Absent: what the provider says.
	// +optional
	ProvesStorage *bool `json:"provesStorage,omitempty"`
}

// Metadata are texts by key.
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('scanyard'))",message="keys that begin with scanyard are Scanyard's own: choose another key"
type Metadata map[string]string

// RecordKind is a kind of record that a sink gets.
// +kubebuilder:validation:Enum=Summary;Results;Exceptions;RawReference
type RecordKind string

// The kinds of records.
const (
	// RecordSummary is one record about each Scan.
	RecordSummary RecordKind = "Summary"
	// RecordResults is a record for each finding.
	RecordResults RecordKind = "Results"
	// RecordExceptions marks findings that an accepted risk covers.
	RecordExceptions RecordKind = "Exceptions"
	// RecordRawReference adds to the summary where raw result and findings lie.
	RecordRawReference RecordKind = "RawReference"
)

// Severity is the severity of a finding.
// +kubebuilder:validation:Enum=INFORMATIONAL;LOW;MEDIUM;HIGH
type Severity string

// The severities.
const (
	SeverityInformational Severity = "INFORMATIONAL"
	SeverityLow           Severity = "LOW"
	SeverityMedium        Severity = "MEDIUM"
	SeverityHigh          Severity = "HIGH"
)

// Since says which Scans a new sink gets.
// +kubebuilder:validation:Enum=New;All
type Since string

const (
	// SinceNew is for Scans that ended after the sink was first in force.
	SinceNew Since = "New"
	// SinceAll is for everything that is still stored.
	SinceAll Since = "All"
)

// Batch bounds what is sent at a time.
type Batch struct {
	// maxRecords in a batch. Absent: 500.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxRecords *int32 `json:"maxRecords,omitempty"`

	// maxBytes of a batch, uncompressed. Absent: 1048576.
	// +optional
	// +kubebuilder:validation:Minimum=16384
	// +kubebuilder:validation:Maximum=4194304
	MaxBytes *int32 `json:"maxBytes,omitempty"`
}

// Retry says how long to wait between attempts: the wait doubles each time, and a random part of
// it is waited.
type Retry struct {
	// initialMilliseconds is the first wait. Absent: 500.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=60000
	InitialMilliseconds *int32 `json:"initialMilliseconds,omitempty"`

	// maxSeconds is the longest wait. Absent: 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	MaxSeconds *int32 `json:"maxSeconds,omitempty"`
}

// Delivery says what depends on delivery.
type Delivery struct {
	// inClusterStorage says what becomes of the results in the cluster once they have been sent.
	// +optional
	InClusterStorage *InClusterStorage `json:"inClusterStorage,omitempty"`

	// holdSeconds is how long the deletion of a Scan waits for its delivery. 0 does not wait.
	// Absent: 3600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	HoldSeconds *int32 `json:"holdSeconds,omitempty"`

	// failurePolicy is Ignore where a Scan is Done whatever becomes of its delivery, and Fail
	// where it is Done only when all sinks have its results. Absent: Ignore.
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// failAfterSeconds is how long a Scan waits for its delivery before it is Errored; only with
	// failurePolicy: Fail. Absent: 3600.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	FailAfterSeconds *int32 `json:"failAfterSeconds,omitempty"`
}

// InClusterStorage says what becomes of the results in the cluster.
type InClusterStorage struct {
	// afterForwarding is Keep, KeepLastRun or Remove. KeepLastRun keeps the newest Done run of
	// each target, so that hooks can compare with it; with Remove everything is new to them.
	// Results are removed only on proof that a sink has stored them. Absent: Keep.
	// +optional
	AfterForwarding AfterForwarding `json:"afterForwarding,omitempty"`
}

// AfterForwarding says what becomes of the results of a Scan that were sent.
// +kubebuilder:validation:Enum=Keep;KeepLastRun;Remove
type AfterForwarding string

const (
	// AfterForwardingKeep keeps them.
	AfterForwardingKeep AfterForwarding = "Keep"
	// AfterForwardingKeepLastRun keeps those of the newest Done run of a target.
	AfterForwardingKeepLastRun AfterForwarding = "KeepLastRun"
	// AfterForwardingRemove removes them.
	AfterForwardingRemove AfterForwarding = "Remove"
)

// FailurePolicy says what a failed delivery means for a Scan.
// +kubebuilder:validation:Enum=Ignore;Fail
type FailurePolicy string

const (
	// FailurePolicyIgnore leaves the Scan as it is.
	FailurePolicyIgnore FailurePolicy = "Ignore"
	// FailurePolicyFail makes the Scan Errored.
	FailurePolicyFail FailurePolicy = "Fail"
)

// AllowNamespaces says which sinks namespaces may have of their own.
type AllowNamespaces struct {
	// providers that a namespace may use. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Providers []Provider `json:"providers,omitempty"`

	// endpoints that a namespace may name: host, *.domain, host:port, or networks in CIDR form.
	// Addresses of the node, of the link and of the API server are dialled only where a network
	// contains them. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=260
	Endpoints []string `json:"endpoints,omitempty"`

	// maxSinks is how many sinks a namespace may have. Absent: 4.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=17
	MaxSinks *int32 `json:"maxSinks,omitempty"`

	// inClusterStorage lets namespaces set inClusterStorage to what is less strict than the
	// cluster's. Absent: they may not.
	// +optional
	InClusterStorage bool `json:"inClusterStorage,omitempty"`

	// failurePolicy lets namespaces set failurePolicy to what is less strict than the cluster's.
	// Absent: they may not.
	// +optional
	FailurePolicy bool `json:"failurePolicy,omitempty"`
}

// TLS says how the connection is protected.
type TLS struct {
	// insecure sends in plain text. Only cluster admins may set it. Absent: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// serverName is the name that the far end's certificate has to have, and that is asked for.
	// Absent: the host of the endpoint.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// minVersion is TLS12 or TLS13. Absent: TLS13.
	// +optional
	MinVersion TLSVersion `json:"minVersion,omitempty"`
}

// TLSVersion is a version of TLS.
// +kubebuilder:validation:Enum=TLS12;TLS13
type TLSVersion string

// The versions of TLS.
const (
	TLS12 TLSVersion = "TLS12"
	TLS13 TLSVersion = "TLS13"
)

// GRPCTLS says how the connection to a receiver is protected.
type GRPCTLS struct {
	TLS `json:",inline"`

	// dynamic is refused, field by field: a sender must not hold private keys of others.
	// +optional
	Dynamic *DynamicTLS `json:"dynamic,omitempty"`
}

// DynamicTLS are fields that are refused with the remedy.
// +kubebuilder:validation:XValidation:rule="!has(self.caSecretName)",message="holds the CA's private key, which no sender may have: put the certificate alone into a ConfigMap and name it in authentication.serverCA",fieldPath=".caSecretName"
// +kubebuilder:validation:XValidation:rule="!has(self.serverSecretName)",message="is the receiver's private key: it belongs to the receiver only; remove it",fieldPath=".serverSecretName"
// +kubebuilder:validation:XValidation:rule="!has(self.clientSecretName)",message="is called authentication.mtlsClientCert",fieldPath=".clientSecretName"
type DynamicTLS struct {
	// caSecretName is refused: it holds a CA's private key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CASecretName *string `json:"caSecretName,omitempty"`
	// serverSecretName is refused: it holds the receiver's private key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerSecretName *string `json:"serverSecretName,omitempty"`
	// clientSecretName is refused: it is called authentication.mtlsClientCert.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClientSecretName *string `json:"clientSecretName,omitempty"`
}

// ServerTrust says which certificates of the far end are trusted.
type ServerTrust struct {
	// serverCA is the name of a ConfigMap with a bundle of certificates, PEM: the only roots
	// that are trusted. Absent: those of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerCA string `json:"serverCA,omitempty"`

	// serverCAKey is the key of the bundle in the ConfigMap. Absent: ca.crt.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerCAKey string `json:"serverCAKey,omitempty"`
}

// ClientTrust says how both ends know each other: names of a ConfigMap and of a Secret, never
// their content. They are in the namespace of the setting; those of a ClusterScanSetting in that
// of the forwarder.
type ClientTrust struct {
	ServerTrust `json:",inline"`

	// mtlsClientCert is the name of a Secret of type kubernetes.io/tls with the certificate that
	// the far end asks for. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	MTLSClientCert string `json:"mtlsClientCert,omitempty"`
}

// Authentication says how both ends know each other: names of ConfigMaps and Secrets, never
// their content.
type Authentication struct {
	ClientTrust `json:",inline"`

	// token is sent with each request. It may be combined with a client certificate.
	// +optional
	Token *TokenReference `json:"token,omitempty"`
}

// TokenReference names a token in a Secret.
type TokenReference struct {
	// secretName is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// key of the token in the Secret. Absent: token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// secretNamespace is the namespace of the Secret. The Secret has to list the namespace of
	// the setting in its annotation forwarding.scanyard.io/allowed-namespaces.
	// Absent: the namespace of the setting, or of the forwarder for a ClusterScanSetting.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	SecretNamespace string `json:"secretNamespace,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// secretName is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// GRPCSink is a receiver of the API scanyard.forwarding.v1.
// +kubebuilder:validation:XValidation:rule="!(self.endpoint.startsWith('http://') || self.endpoint.startsWith('grpc://') || self.endpoint.startsWith('nats://')) || has(self.tls) && has(self.tls.insecure) && self.tls.insecure",message="would send findings in plain text: use https, or set tls.insecure where that is meant",fieldPath=".endpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.token) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the token in plain text: remove token or tls.insecure",fieldPath=".authentication"
type GRPCSink struct {
	// endpoint is https://host[:port], grpcs://host[:port] or host:port; the port is 443 where
	// absent. http:// and grpc:// need tls.insecure. Path, query and user info are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint"`

	// version of the API. Absent: v1.
	// +optional
	Version WireVersion `json:"version,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *GRPCTLS `json:"tls,omitempty"`

	// authentication says how both ends know each other.
	// +optional
	Authentication *Authentication `json:"authentication,omitempty"`

	// extraMetadata goes over that of the sink. clusterName becomes the subject of each result
	// in place of the ID of the cluster; clusterType and any other key become extra fields.
	// +optional
	ExtraMetadata Metadata `json:"extraMetadata,omitempty"`

	// compression is None, Gzip or Zstd. Absent: Zstd where the receiver lists it, else Gzip
	// where it lists that, else None.
	// +optional
	Compression Compression `json:"compression,omitempty"`
}

// WireVersion is a version of the API scanyard.forwarding.
// +kubebuilder:validation:Enum=v1
type WireVersion string

// WireV1 is the only version.
const WireV1 WireVersion = "v1"

// Compression is how batches are compressed.
// +kubebuilder:validation:Enum=None;Gzip;Zstd
type Compression string

// The compressions.
const (
	CompressionNone Compression = "None"
	CompressionGzip Compression = "Gzip"
	CompressionZstd Compression = "Zstd"
)

// HTTPSink is an HTTP endpoint.
// +kubebuilder:validation:XValidation:rule="!(self.url.startsWith('http://') || self.url.startsWith('grpc://') || self.url.startsWith('nats://')) || has(self.tls) && has(self.tls.insecure) && self.tls.insecure",message="would send findings in plain text: use https, or set tls.insecure where that is meant",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.token) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the token in plain text: remove token or tls.insecure",fieldPath=".authentication"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.basic) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the password in plain text: remove basic or tls.insecure",fieldPath=".authentication"
type HTTPSink struct {
	// url that is posted to, https://…; http:// needs tls.insecure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`

	// format is CloudEventsBatch, CloudEvents or NDJSON. Absent: CloudEventsBatch.
	// +optional
	Format HTTPFormat `json:"format,omitempty"`

	// headers are added to each request. Authorization, Cookie and those that concern one
	// connection only are refused: use authentication.
	// +optional
	Headers Headers `json:"headers,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// authentication says how both ends know each other.
	// +optional
	Authentication *HTTPAuthentication `json:"authentication,omitempty"`
}

// Headers are headers of a request by name.
// +kubebuilder:validation:MaxProperties=32
type Headers map[string]string

// HTTPFormat is how records stand in a request.
// +kubebuilder:validation:Enum=CloudEventsBatch;CloudEvents;NDJSON
type HTTPFormat string

const (
	// FormatCloudEventsBatch sends a list of events.
	FormatCloudEventsBatch HTTPFormat = "CloudEventsBatch"
	// FormatCloudEvents sends one event a request.
	FormatCloudEvents HTTPFormat = "CloudEvents"
	// FormatNDJSON sends one event a line.
	FormatNDJSON HTTPFormat = "NDJSON"
)

// HTTPAuthentication says how both ends of an HTTP request know each other.
type HTTPAuthentication struct {
	Authentication `json:",inline"`

	// basic names a Secret with the keys username and password.
	// +optional
	Basic *SecretReference `json:"basic,omitempty"`

	// signing names a Secret with the key secret, or secret-1 and further ones: requests are
	// signed as Standard Webhooks says.
	// +optional
	Signing *SecretReference `json:"signing,omitempty"`
}

// KafkaSink is a topic of Kafka.
// +kubebuilder:validation:XValidation:rule="!has(self.sasl) || !(self.sasl.mechanism in ['PLAIN', 'OAUTHBEARER']) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the password in plain text: use a mechanism SCRAM-…, or remove tls.insecure",fieldPath=".sasl.mechanism"
type KafkaSink struct {
	// brokers to begin with, host:port.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=260
	Brokers []string `json:"brokers"`

	// topic that records are produced to.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:validation:MaxLength=249
	Topic string `json:"topic"`

	// sasl says who the forwarder is.
	// +optional
	SASL *SASL `json:"sasl,omitempty"`

	// format is CloudEventsJSON or Protobuf. Absent: CloudEventsJSON.
	// +optional
	Format KafkaFormat `json:"format,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// authentication says whom to trust, and has the client certificate.
	// +optional
	Authentication *ClientTrust `json:"authentication,omitempty"`
}

// SASL says who the forwarder is.
type SASL struct {
	// mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	// +required
	Mechanism SASLMechanism `json:"mechanism"`

	// secretName is the name of a Secret with the keys username and password, or token for
	// OAUTHBEARER.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// SASLMechanism is a mechanism of SASL.
// +kubebuilder:validation:Enum=PLAIN;SCRAM-SHA-256;SCRAM-SHA-512;OAUTHBEARER
type SASLMechanism string

// The mechanisms.
const (
	SASLPlain       SASLMechanism = "PLAIN"
	SASLSCRAM256    SASLMechanism = "SCRAM-SHA-256"
	SASLSCRAM512    SASLMechanism = "SCRAM-SHA-512"
	SASLOAuthBearer SASLMechanism = "OAUTHBEARER"
)

// KafkaFormat is how a record stands in a message.
// +kubebuilder:validation:Enum=CloudEventsJSON;Protobuf
type KafkaFormat string

// The formats.
const (
	FormatCloudEventsJSON KafkaFormat = "CloudEventsJSON"
	FormatProtobuf        KafkaFormat = "Protobuf"
)

// NATSSink is a subject of a stream of NATS JetStream. The stream has to exist.
// +kubebuilder:validation:XValidation:rule="!(self.url.startsWith('http://') || self.url.startsWith('grpc://') || self.url.startsWith('nats://')) || has(self.tls) && has(self.tls.insecure) && self.tls.insecure",message="would send findings in plain text: use https, or set tls.insecure where that is meant",fieldPath=".url"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.token) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the token in plain text: remove token or tls.insecure",fieldPath=".authentication"
type NATSSink struct {
	// url of the server: tls://host[:port]; nats:// needs tls.insecure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`

	// subject that records are published to; {cluster}, {tenant} and {kind} are filled in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Subject string `json:"subject"`

	// ordered has one record in flight at a time, so that their order is kept. Absent: false.
	// +optional
	Ordered bool `json:"ordered,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// authentication says how both ends know each other.
	// +optional
	Authentication *NATSAuthentication `json:"authentication,omitempty"`
}

// NATSAuthentication says how both ends of a connection of NATS know each other.
type NATSAuthentication struct {
	Authentication `json:",inline"`

	// credentialsSecret is the name of a Secret with the key creds.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// OTLPSink is a receiver of OpenTelemetry logs.
// +kubebuilder:validation:XValidation:rule="!(self.endpoint.startsWith('http://') || self.endpoint.startsWith('grpc://') || self.endpoint.startsWith('nats://')) || has(self.tls) && has(self.tls.insecure) && self.tls.insecure",message="would send findings in plain text: use https, or set tls.insecure where that is meant",fieldPath=".endpoint"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.authentication.token) || !(has(self.tls) && has(self.tls.insecure) && self.tls.insecure)",message="would send the token in plain text: remove token or tls.insecure",fieldPath=".authentication"
type OTLPSink struct {
	// endpoint is https://host[:port] or host:port, and with protocol http may have a path.
	// http:// needs tls.insecure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint"`

	// protocol is grpc or http. Absent: grpc.
	// +optional
	Protocol OTLPProtocol `json:"protocol,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// authentication says how both ends know each other.
	// +optional
	Authentication *Authentication `json:"authentication,omitempty"`
}

// OTLPProtocol is how OpenTelemetry logs are sent.
// +kubebuilder:validation:Enum=grpc;http
type OTLPProtocol string

// The protocols.
const (
	OTLPGRPC OTLPProtocol = "grpc"
	OTLPHTTP OTLPProtocol = "http"
)

// S3Sink is a bucket.
// +kubebuilder:validation:XValidation:rule="!(self.endpoint.startsWith('http://') || self.endpoint.startsWith('grpc://') || self.endpoint.startsWith('nats://')) || has(self.tls) && has(self.tls.insecure) && self.tls.insecure",message="would send findings in plain text: use https, or set tls.insecure where that is meant",fieldPath=".endpoint"
type S3Sink struct {
	// endpoint is https://host[:port]; http:// needs tls.insecure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint"`

	// bucket that objects are put into.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	Bucket string `json:"bucket"`

	// prefix is put in front of the keys, with a slash between.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`
	// +kubebuilder:validation:MaxLength=256
	Prefix string `json:"prefix,omitempty"`

	// region of the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`

	// pathStyle puts the bucket into the path of the URL. Absent: false.
	// +optional
	PathStyle bool `json:"pathStyle,omitempty"`

	// credentialsSecret is the name of a Secret with the keys accessKey and secretKey.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// objectLock is for how many days objects are locked. Absent: they are not.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	ObjectLock *int32 `json:"objectLock,omitempty"`

	// tls says how the connection is protected.
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// authentication says whom to trust.
	// +optional
	Authentication *ServerTrust `json:"authentication,omitempty"`
}

// FileSink is a directory of the forwarder.
type FileSink struct {
	// directory below the forwarder's --file-root.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Directory string `json:"directory"`
}

// ConditionForwardingHealthy is True when all sinks are healthy.
const ConditionForwardingHealthy = "ForwardingHealthy"

// AnnotationAllowedNamespaces stands on a Secret and lists, with commas between, the namespaces whose settings may name it.
const AnnotationAllowedNamespaces = "forwarding.scanyard.io/allowed-namespaces"

// SinkStatus says how delivery to a sink stands. The forwarder writes it.
type SinkStatus struct {
	// name of the sink.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// provider of the sink.
	// +optional
	Provider Provider `json:"provider,omitempty"`

	// healthy is True, False or Unknown.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Healthy corev1.ConditionStatus `json:"healthy,omitempty"`

	// reason for that, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says the same to people, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`

	// since is when the sink was first in force. Where the sink says since: New, it gets what
	// ended later.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// lastAcknowledgedTime is when the far end last acknowledged something.
	// +optional
	LastAcknowledgedTime *metav1.Time `json:"lastAcknowledgedTime,omitempty"`

	// pendingScans is how many Scans have not been delivered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PendingScans int32 `json:"pendingScans,omitempty"`

	// oldestPendingTime is when the oldest of these ended.
	// +optional
	OldestPendingTime *metav1.Time `json:"oldestPendingTime,omitempty"`

	// deadLetters is how many records the far end refused.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeadLetters int64 `json:"deadLetters,omitempty"`

	// proving says whether an acknowledgement of this sink proves that the results are stored.
	// +optional
	Proving bool `json:"proving,omitempty"`
}
