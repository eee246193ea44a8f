// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScanSettingSpec says how the Scans of one namespace run. What is absent is inherited from
// the ClusterScanSetting. Bounds may only be tightened: one that is wider than the cluster's
// is refused.
type ScanSettingSpec struct {
	// limits bound how many Scans of this namespace run at a time.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// queue says in which order the waiting Scans of this namespace start.
	// +optional
	Queue *Queue `json:"queue,omitempty"`

	// ttl says how long ended Scans are kept.
	// +optional
	TTL *TTL `json:"ttl,omitempty"`

	// deadlines bound the phases of the Scans.
	// +optional
	Deadlines *Deadlines `json:"deadlines,omitempty"`

	// phases are defaults for the containers and pods of each phase.
	// +optional
	Phases *Phases `json:"phases,omitempty"`

	// jobs is added to every Job, beside what the cluster adds.
	// +optional
	Jobs *Jobs `json:"jobs,omitempty"`

	// storage says where the results of this namespace's Scans lie.
	// +optional
	Storage *Storage `json:"storage,omitempty"`

	// allowed says what Scans may use of the namespace.
	// +optional
	Allowed *Allowed `json:"allowed,omitempty"`

	// jobPatches change the Jobs of this namespace's Scans, after those of the cluster and in
	// this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	JobPatches []JobPatch `json:"jobPatches,omitempty"`

	// resultForwarding sends the results of this namespace's Scans to sinks of the namespace, beside
	// those of the cluster. Needs resultForwarding.allowNamespaces of the ClusterScanSetting.
	// +optional
	ResultForwarding *ResultForwarding `json:"resultForwarding,omitempty"`

	// exceptions bound the FindingExceptions of this namespace, within what the cluster's say.
	// +optional
	Exceptions *ExceptionLimits `json:"exceptions,omitempty"`

	// registry bounds what is done for the Registries of this namespace, within what the cluster's says.
	// +optional
	Registry *RegistryScanning `json:"registry,omitempty"`

	// targetScope says which targets the Scans of this namespace may name, beside what the cluster's says.
	// +optional
	TargetScope *TargetScope `json:"targetScope,omitempty"`
}

// ClusterScanSettingSpec bounds all namespaces, and says what they inherit.
type ClusterScanSettingSpec struct {
	// limits bound how many Scans run at a time.
	// +optional
	Limits *ClusterLimits `json:"limits,omitempty"`

	// weights share out the places of limits.maxRunning among the namespaces that have Scans
	// waiting: one of weight 2 gets twice as many as one of weight 1. The first entry that
	// fits a namespace counts; one without an entry has weight 1.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Weights []Weight `json:"weights,omitempty"`

	// queue says in which order the waiting Scans of a namespace start.
	// +optional
	Queue *Queue `json:"queue,omitempty"`

	// ttl says how long ended Scans are kept.
	// +optional
	TTL *TTL `json:"ttl,omitempty"`

	// deadlines bound the phases of all Scans.
	// +optional
	Deadlines *Deadlines `json:"deadlines,omitempty"`

	// schedules bound what ScheduledScans may ask for.
	// +optional
	Schedules *Schedules `json:"schedules,omitempty"`

	// phases are defaults for the containers and pods of each phase.
	// +optional
	Phases *Phases `json:"phases,omitempty"`

	// jobs is added to every Job. What it refers to has to exist in every namespace with Scans.
	// +optional
	Jobs *Jobs `json:"jobs,omitempty"`

	// storage says what namespaces may choose of where their results lie.
	// +optional
	Storage *ClusterStorage `json:"storage,omitempty"`

	// allowed says what the Scans of all namespaces may use.
	// +optional
	Allowed *Allowed `json:"allowed,omitempty"`

	// jobPatches change the Jobs of all Scans, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	JobPatches []JobPatch `json:"jobPatches,omitempty"`

	// resultForwarding sends the results of all Scans to sinks, and says which sinks namespaces
	// may have of their own.
	// +optional
	ResultForwarding *ClusterResultForwarding `json:"resultForwarding,omitempty"`

	// exceptions bound the FindingExceptions of all namespaces. maxDuration, requireSecondPerson and
	// allowedStatuses hold for ClusterFindingExceptions as well.
	// +optional
	Exceptions *ExceptionLimits `json:"exceptions,omitempty"`

	// registry bounds what is done for the Registries of each namespace, within what the installation
	// allows.
	// +optional
	Registry *RegistryScanning `json:"registry,omitempty"`

	// targetScope says which targets the Scans of all namespaces may name.
	// +optional
	TargetScope *TargetScope `json:"targetScope,omitempty"`
}

// ScanSettingStatus says whether the settings of a namespace are in force.
type ScanSettingStatus struct {
	// conditions say whether the spec is in force and, if not, why (type Ready), and whether
	// all sinks are healthy (type ForwardingHealthy).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// inForce is the last spec without a mistake. It applies while spec has one. It has the fields
	// of spec, and no schema of its own: a copy of that would make the CRD too large for plain
	// "kubectl apply".
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	InForce *ScanSettingSpec `json:"inForce,omitempty"`

	// inForceGeneration is the metadata.generation that inForce was taken from.
	// +optional
	InForceGeneration int64 `json:"inForceGeneration,omitempty"`

	// sinks say how delivery to each sink of this namespace stands. The forwarder writes them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=17
	Sinks []SinkStatus `json:"sinks,omitempty"`
}

// ClusterScanSettingStatus says whether the settings of the cluster are in force.
type ClusterScanSettingStatus struct {
	// conditions say whether the spec is in force and, if not, why (type Ready), and whether
	// all sinks are healthy (type ForwardingHealthy).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// inForce is the last spec without a mistake. It applies while spec has one. It has the fields
	// of spec, and no schema of its own: a copy of that would make the CRD too large for plain
	// "kubectl apply".
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	InForce *ClusterScanSettingSpec `json:"inForce,omitempty"`

	// inForceGeneration is the metadata.generation that inForce was taken from.
	// +optional
	InForceGeneration int64 `json:"inForceGeneration,omitempty"`

	// sinks say how delivery to each sink of the cluster stands. The forwarder writes them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=17
	Sinks []SinkStatus `json:"sinks,omitempty"`
}

// ScanSetting says how the Scans of its namespace run, inside the bounds that the
// ClusterScanSetting sets. Its name is "default".
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=scansettings,singular=scansetting,scope=Namespaced,shortName=sset,categories=scanyard
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.spec.limits.maxRunning`,description="How many Scans may run at a time"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the spec is in force"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a namespace has one ScanSetting, which is called default: set metadata.name to default"
type ScanSetting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the Scans of the namespace run.
	// +optional
	Spec ScanSettingSpec `json:"spec,omitzero"`
	// status says whether the spec is in force.
	// +optional
	Status ScanSettingStatus `json:"status,omitzero"`
}

// ScanSettingList is a list of ScanSettings.
// +kubebuilder:object:root=true
type ScanSettingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScanSetting `json:"items"`
}

// ClusterScanSetting bounds how the Scans of all namespaces run, and says what namespaces
// inherit. Its name is "default". Cluster admins only write it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterscansettings,singular=clusterscansetting,scope=Cluster,shortName=csset,categories=scanyard
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.spec.limits.maxRunning`,description="How many Scans may run at a time"
// +kubebuilder:printcolumn:name="Per Namespace",type=integer,JSONPath=`.spec.limits.maxRunningPerNamespace`,description="How many Scans of one namespace may run at a time"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the spec is in force"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is or is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a cluster has one ClusterScanSetting, which is called default: set metadata.name to default"
type ClusterScanSetting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec bounds the Scans of all namespaces.
	// +optional
	Spec ClusterScanSettingSpec `json:"spec,omitzero"`
	// status says whether the spec is in force.
	// +optional
	Status ClusterScanSettingStatus `json:"status,omitzero"`
}

// ClusterScanSettingList is a list of ClusterScanSettings.
// +kubebuilder:object:root=true
type ClusterScanSettingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterScanSetting `json:"items"`
}
