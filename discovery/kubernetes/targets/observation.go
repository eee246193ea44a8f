// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Observation is everything that a pass over a namespace may look at. It is read only.
type Observation struct {
	Now time.Time

	Namespace       *corev1.Namespace
	Pods            []*corev1.Pod
	Services        []*corev1.Service
	Ingresses       []*networkingv1.Ingress
	HTTPRoutes      []*gatewayv1.HTTPRoute
	Gateways        map[types.NamespacedName]*gatewayv1.Gateway
	ServiceAccounts map[string]*corev1.ServiceAccount

	// ScanTypes are the names of the ScanTypes of the namespace and of target namespaces.
	ScanTypes map[string]sets.Set[string]
	// ClusterScanTypes are the names of the ClusterScanTypes.
	ClusterScanTypes sets.Set[string]

	// Existing are the ScheduledScans of the namespace, and those in target namespaces
	// that are for it.
	Existing map[types.NamespacedName]*Existing
	// Taken are the ScheduledScans of the namespace and of target namespaces that are for
	// other namespaces: by which.
	Taken map[types.NamespacedName]string
	// UnwantedSince is since when a ScheduledScan has not been wanted, if that was seen.
	UnwantedSince map[types.NamespacedName]time.Time
	// Total is how many ScheduledScans of ours there are in the cluster.
	Total int
}

// Existing is a ScheduledScan that exists.
type Existing struct {
	*executionv1.ScheduledScan

	// Ours holds where this discovery has written it.
	Ours bool
	// Upstream holds where secureCodeBox's auto-discovery has.
	Upstream bool
	// Owned are the fields that this discovery has set; nil where it has set none.
	Owned *fieldpath.Set
}

// Kind is what a target is.
type Kind string

const (
	// KindService is a port of a Service.
	KindService Kind = "Service"
	// KindContainer is a container image.
	KindContainer Kind = "Image"
	// KindIngress is a host of an Ingress.
	KindIngress Kind = "Ingress"
	// KindHTTPRoute is a host of an HTTPRoute.
	KindHTTPRoute Kind = "HTTPRoute"
)

// Outcome is what a pass has decided about a target.
type Outcome string

const (
	// Scanned means that there is, or is going to be, a ScheduledScan.
	Scanned Outcome = "Scanned"
	// Waiting means that something has to happen first; what exists stays.
	Waiting Outcome = "Waiting"
	// Skipped means that there is none.
	Skipped Outcome = "Skipped"
)

// Reason says why a target is not scanned.
type Reason string

const (
	// NotEnabled is set where the annotation that includes is missing.
	NotEnabled Reason = "NotEnabled"
	// Ignored is set where the object has the annotation that excludes.
	Ignored Reason = "Ignored"
	// NamespaceNotSelected is set where resourceInclusion.namespaceSelector leaves the namespace out.
	NamespaceNotSelected Reason = "NamespaceNotSelected"
	// NamespaceTerminating is set where the namespace is being deleted.
	NamespaceTerminating Reason = "NamespaceTerminating"
	// ManagedByScanner is set for pods of scans.
	ManagedByScanner Reason = "ManagedByScanner"
	// NoPort is set where a Service has no port that is a target.
	NoPort Reason = "NoPort"
	// NoSelector is set where a Service selects no pods.
	NoSelector Reason = "NoSelector"
	// NoReadyPod is set while no pod of a Service is ready.
	NoReadyPod Reason = "NoReadyPod"
	// DigestsDiffer is set while pods of a Service run different versions.
	DigestsDiffer Reason = "DigestsDiffer"
	// ImageUnknown is set while the kubelet has not said which image a container runs.
	ImageUnknown Reason = "ImageUnknown"
	// NoDigest is set where the image has no digest of a registry.
	NoDigest Reason = "NoDigest"
	// NoHost is set where a route has no host that can be scanned.
	NoHost Reason = "NoHost"
	// NotSelected is set where no scanConfig selects the target.
	NotSelected Reason = "NotSelected"
	// NoScanConfig is set where there are no scanConfigs.
	NoScanConfig Reason = "NoScanConfig"
	// ScanTypeMissing is set where the ScanType does not exist; an Event has this reason too.
	ScanTypeMissing Reason = "ScanTypeMissing"
	// TemplateFailed is set where a template of the scanConfig fails for this target.
	TemplateFailed Reason = "TemplateFailed"
	// NameTaken is set where a ScheduledScan of that name belongs to another client.
	NameTaken Reason = "NameTaken"
	// Unwanted is set for ScheduledScans that no target wants any longer.
	Unwanted Reason = "Unwanted"
	// LimitReached is set where limits allow no further ScheduledScan.
	LimitReached Reason = "LimitReached"
)

// Result is the decision about a target and a scanConfig.
type Result struct {
	Kind Kind
	// Name of the object, or the image.
	Name string
	// Detail is the port, the host, or the pod that an image was seen in.
	Detail string
	// ScanConfig is its name; empty where the target is left out before one is looked at.
	ScanConfig string
	// ScheduledScan is its name, with the namespace where it is another one.
	ScheduledScan string

	Outcome Outcome
	Reason  Reason
	Message string
}

// Missing is a ScanType that a target needs and that does not exist.
type Missing struct {
	// Object is a target that needs it, for the Event.
	Object corev1.ObjectReference
	Mode   executionv1.ResourceMode
	Name   string
}

// Message is the text of the Event.
func (m Missing) Message() string {
	if m.Mode == executionv1.ClusterWide {
		return "Cluster requires ClusterScanType '" + m.Name + "' to properly start automatic scans."
	}
	return "Namespace requires ScanType '" + m.Name + "' to properly start automatic scans."
}

// objectReference names an object for an Event.
func objectReference(apiVersion, kind string, o metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}
