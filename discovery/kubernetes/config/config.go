// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/scanyard/scanyard/discovery/internal/scanconfig"
)

// Values of apiVersion and kind of a configuration file.
const (
	ConfigAPIVersion = "config.securecodebox.io/v1"
	ConfigKind       = "AutoDiscoveryConfig"
)

// Config is the configuration file. A file of secureCodeBox's auto-discovery means here
// what it means there; fields that it does not know are marked as additions.
type Config struct {
	metav1.TypeMeta `json:",inline"`

	// Cluster is about the cluster as a whole.
	Cluster ClusterConfig `json:"cluster,omitzero"`
	// ResourceInclusion says what is looked at at all.
	ResourceInclusion InclusionConfig `json:"resourceInclusion,omitzero"`
	// ServiceAutoDiscovery has Services scanned.
	ServiceAutoDiscovery ServiceConfig `json:"serviceAutoDiscovery,omitzero"`
	// ContainerAutoDiscovery has container images scanned.
	ContainerAutoDiscovery ContainerConfig `json:"containerAutoDiscovery,omitzero"`
	// IngressAutoDiscovery has the hosts of Ingresses scanned. An addition.
	IngressAutoDiscovery RouteConfig `json:"ingressAutoDiscovery,omitzero"`
	// GatewayAutoDiscovery has the hosts of HTTPRoutes of the Gateway API scanned, where
	// the cluster serves it. An addition.
	GatewayAutoDiscovery RouteConfig `json:"gatewayAutoDiscovery,omitzero"`

	// ExistingScans says what happens to ScheduledScans whose target has not changed:
	// Update (default) makes them what the configuration says now, Keep leaves them, as
	// secureCodeBox does, until there is a new digest. An addition.
	ExistingScans ExistingPolicy `json:"existingScans,omitempty"`
	// Removal is about ScheduledScans that are not wanted any more. An addition.
	Removal RemovalConfig `json:"removal,omitzero"`
	// Limits bound what is started. An addition.
	Limits LimitsConfig `json:"limits,omitzero"`
	// Instance distinguishes several discoveries in one cluster: each removes only the objects that it
	// has made itself. An addition.
	Instance string `json:"instance,omitempty"`

	// Health is where the probes are served.
	Health HealthConfig `json:"health,omitzero"`
	// Metrics is where metrics are served.
	Metrics MetricsConfig `json:"metrics,omitzero"`
	// LeaderElection lets only one replica work.
	LeaderElection LeaderElectionConfig `json:"leaderElection,omitzero"`
}

// ClusterConfig is about the cluster.
type ClusterConfig struct {
	// Name of the cluster, for templates.
	Name string `json:"name,omitempty"`
}

// InclusionMode says which objects are looked at.
type InclusionMode string

const (
	// EnabledPerNamespace takes what is in a namespace with annotation enabled, without
	// what has annotation ignore.
	EnabledPerNamespace InclusionMode = "enabled-per-namespace"
	// EnabledPerResource takes what has annotation enabled itself.
	EnabledPerResource InclusionMode = "enabled-per-resource"
	// All takes everything that has no annotation ignore.
	All InclusionMode = "all"
)

// InclusionConfig says what is looked at.
type InclusionConfig struct {
	// Mode is enabled-per-namespace, enabled-per-resource or all.
	Mode InclusionMode `json:"mode"`
	// NamespaceSelector bounds the discovery to namespaces with these labels. An addition.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ServiceConfig is about Services.
type ServiceConfig struct {
	// Enabled switches it on.
	Enabled bool `json:"enabled,omitempty"`
	// PassiveReconcileInterval is how often everything is looked at even if nothing
	// has happened; 1m where absent.
	PassiveReconcileInterval metav1.Duration `json:"passiveReconcileInterval,omitzero"`
	// ScanConfigs say how.
	ScanConfigs []ScanConfig `json:"scanConfigs,omitempty"`
	// Ports says which ports are targets. An addition.
	Ports PortsConfig `json:"ports,omitzero"`
	// WithoutSelector takes Services that select no pods too, such as those with
	// Endpoints of their own. An addition.
	WithoutSelector bool `json:"withoutSelector,omitempty"`
}

// PortsConfig says which ports of Services are targets.
type PortsConfig struct {
	// HTTP are port numbers; 80, 8080, 3000, 5000 and 8000 where absent.
	HTTP []int32 `json:"http,omitempty"`
	// HTTPS are port numbers at which TLS is spoken; 443 and 8443 where absent.
	HTTPS []int32 `json:"https,omitempty"`
	// HTTPNames are names of ports; http where absent.
	HTTPNames []string `json:"httpNames,omitempty"`
	// HTTPSNames are names of ports; https where absent.
	HTTPSNames []string `json:"httpsNames,omitempty"`
	// AppProtocols takes ports whose appProtocol is http, https or kubernetes.io/h2c too.
	AppProtocols bool `json:"appProtocols,omitempty"`
	// Protocols bounds the ports to these transport protocols; all where absent.
	Protocols []corev1.Protocol `json:"protocols,omitempty"`
	// All takes every port. Ports of an unknown scheme count as http.
	All bool `json:"all,omitempty"`
	// Exclude are numbers or names of ports that are not targets.
	Exclude []intstr.IntOrString `json:"exclude,omitempty"`
}

// ContainerConfig is about container images.
type ContainerConfig struct {
	// Enabled switches it on.
	Enabled bool `json:"enabled,omitempty"`
	// PassiveReconcileInterval is as with Services.
	PassiveReconcileInterval metav1.Duration `json:"passiveReconcileInterval,omitzero"`
	// ImagePullSecretConfig lets scanners reach the registries of private images.
	ImagePullSecretConfig PullSecretConfig `json:"imagePullSecretConfig,omitzero"`
	// ScanConfigs say how.
	ScanConfigs []ScanConfig `json:"scanConfigs,omitempty"`
	// InitContainers takes the images of init containers too. An addition.
	InitContainers bool `json:"initContainers,omitempty"`
	// EphemeralContainers takes the images of ephemeral containers too. An addition.
	EphemeralContainers bool `json:"ephemeralContainers,omitempty"`
	// ImagesWithoutDigest says what happens to images that the container runtime knows by
	// no digest of a registry, such as those that were loaded into a node: Skip (default),
	// or ScanByTag, for registries that have them nevertheless. An addition.
	ImagesWithoutDigest DigestlessPolicy `json:"imagesWithoutDigest,omitempty"`
	// AllowMissingScanTypes starts the scans whose ScanType exists where that of another
	// scanConfig does not; false starts none then, as secureCodeBox. An addition.
	AllowMissingScanTypes bool `json:"allowMissingScanTypes,omitempty"`
}

// DigestlessPolicy is about images without a digest of a registry.
type DigestlessPolicy string

const (
	// SkipDigestless does not scan them.
	SkipDigestless DigestlessPolicy = "Skip"
	// ScanDigestlessByTag scans what the registry has under the name in the pod.
	ScanDigestlessByTag DigestlessPolicy = "ScanByTag"
)

// PullSecretConfig hands the pull secrets of a pod to the scanner of its images.
type PullSecretConfig struct {
	// MapImagePullSecretsToEnvironmentVariables switches it on.
	MapImagePullSecretsToEnvironmentVariables bool `json:"mapImagePullSecretsToEnvironmentVariables,omitempty"`
	// UsernameEnvironmentVariableName is where the scanner expects the user.
	UsernameEnvironmentVariableName string `json:"usernameEnvironmentVariableName,omitempty"`
	// PasswordNameEnvironmentVariableName is where the scanner expects the password.
	PasswordNameEnvironmentVariableName string `json:"passwordEnvironmentVariableName,omitempty"`
	// ExtractorImage is the image of the init container that finds the credentials of the
	// image's registry in the secrets. An addition.
	ExtractorImage string `json:"extractorImage,omitempty"`
	// ServiceAccountSecrets takes the secrets of the pod's ServiceAccount where the pod
	// has none. An addition.
	ServiceAccountSecrets bool `json:"serviceAccountSecrets,omitempty"`
}

// RouteConfig is about Ingresses or HTTPRoutes.
type RouteConfig struct {
	// Enabled switches it on.
	Enabled bool `json:"enabled,omitempty"`
	// PassiveReconcileInterval is as with Services.
	PassiveReconcileInterval metav1.Duration `json:"passiveReconcileInterval,omitzero"`
	// ScanConfigs say how.
	ScanConfigs []ScanConfig `json:"scanConfigs,omitempty"`
}

// ScanConfig is a scanConfig with what only Kubernetes has.
type ScanConfig struct {
	scanconfig.ScanConfig `json:",inline"`

	// NamespaceSelector bounds it to targets in namespaces with these labels. An addition.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// TargetSelector bounds it to Services, pods or routes with these labels. An addition.
	TargetSelector *metav1.LabelSelector `json:"targetSelector,omitempty"`
	// TargetNamespace is where the ScheduledScans are; absent is the target's own
	// namespace. An addition.
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// Ports bounds it to these ports of Services, by number or name. An addition.
	Ports []intstr.IntOrString `json:"ports,omitempty"`
}

// ExistingPolicy is about ScheduledScans that exist.
type ExistingPolicy string

const (
	// UpdateExisting brings changes of the configuration to them.
	UpdateExisting ExistingPolicy = "Update"
	// KeepExisting leaves them as they are until their target has another digest.
	KeepExisting ExistingPolicy = "Keep"
)

// RemovalConfig is about ScheduledScans that are not wanted any more.
type RemovalConfig struct {
	// Policy is Delete (default) or Keep. Deleting one deletes its Scans and their results.
	Policy RemovalPolicy `json:"policy,omitempty"`
	// Delay is how long a ScheduledScan must not have been wanted before it is deleted, so that a
	// restart of its last pod does not delete it; at once if absent.
	Delay metav1.Duration `json:"delay,omitzero"`
}

// RemovalPolicy says whether ScheduledScans that are not wanted are deleted.
type RemovalPolicy string

const (
	// DeleteUnwanted deletes it.
	DeleteUnwanted RemovalPolicy = "Delete"
	// KeepUnwanted leaves the ScheduledScan, which continues to scan.
	KeepUnwanted RemovalPolicy = "Keep"
)

// LimitsConfig bounds what is started. 0 means no bound.
type LimitsConfig struct {
	// StartsPerMinute is how many ScheduledScans are created or run again within a minute; the others
	// follow later.
	StartsPerMinute int `json:"startsPerMinute,omitempty"`
	// MaxScheduledScans is how many there may be in the cluster.
	MaxScheduledScans int `json:"maxScheduledScans,omitempty"`
	// MaxScheduledScansPerNamespace is how many there may be for one namespace.
	MaxScheduledScansPerNamespace int `json:"maxScheduledScansPerNamespace,omitempty"`
}

// HealthConfig is where the probes are served.
type HealthConfig struct {
	// HealthProbeBindAddress serves /healthz and /readyz; ":8081" where absent.
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
}

// MetricsConfig is where metrics are served.
type MetricsConfig struct {
	// BindAddress serves /metrics; "127.0.0.1:8080" where absent, "0" switches it off.
	BindAddress string `json:"bindAddress,omitempty"`
}

// LeaderElectionConfig lets only one replica work.
type LeaderElectionConfig struct {
	// LeaderElect switches it on.
	LeaderElect bool `json:"leaderElect,omitempty"`
	// ResourceName is the name of the Lease.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is the namespace of the Lease; the pod's own if absent.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// ResourceLock is accepted from files of secureCodeBox; only leases is possible.
	ResourceLock string `json:"resourceLock,omitempty"`
	// LeaseDuration is how long a lease counts without renewal; 15s where absent.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitzero"`
	// RenewDeadline is how long the leader tries to renew it; 10s where absent.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitzero"`
	// RetryPeriod is the time between tries; 2s where absent.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitzero"`
}
