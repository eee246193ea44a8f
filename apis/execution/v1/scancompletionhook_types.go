// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HookType says what a hook may do with the results of a Scan.
type HookType string

const (
	// ReadOnly hooks get the results to read; those of one priority run side by side.
	ReadOnly HookType = "ReadOnly"
	// ReadAndWrite hooks may replace the results; they run one after another, before
	// the ReadOnly hooks of their priority.
	ReadAndWrite HookType = "ReadAndWrite"
)

// HookFailurePolicy is what a failure of a hook means for its Scan.
type HookFailurePolicy string

// The failure policies of hooks.
const (
	// HookFail ends the Scan as Errored. It is the default.
	HookFail HookFailurePolicy = "Fail"
	// HookIgnore lets the Scan go on.
	HookIgnore HookFailurePolicy = "Ignore"
)

// HookRunOn is how a Scan must have gone for a hook to run.
type HookRunOn string

// When hooks run.
const (
	// RunOnSuccess is after the findings are stored. It is the default.
	RunOnSuccess HookRunOn = "Success"
	// RunOnFailure is after the Scan became Errored.
	RunOnFailure HookRunOn = "Failure"
	// RunOnAlways is both.
	RunOnAlways HookRunOn = "Always"
)

// ScanCompletionHookSpec says what runs after parsing.
type ScanCompletionHookSpec struct {
	// type is ReadOnly or ReadAndWrite.
	// +required
	// +kubebuilder:validation:XValidation:rule="self in ['ReadOnly', 'ReadAndWrite']",message="must be ReadOnly (the hook reads results) or ReadAndWrite (it may replace them)"
	// +kubebuilder:validation:MaxLength=64
	Type HookType `json:"type"`

	// priority orders hooks: those with a higher one run earlier.
	// +optional
	// +kubebuilder:default=0
	Priority int `json:"priority,omitempty"`

	// failurePolicy is what a failure of the hook means for the Scan: with Fail the Scan
	// is Errored and no further hook runs, with Ignore it goes on and says so in its
	// condition HooksCompleted. Absent is Fail.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Fail', 'Ignore']",message="must be Fail or Ignore"
	// +kubebuilder:validation:MaxLength=64
	FailurePolicy HookFailurePolicy `json:"failurePolicy,omitempty"`

	// runOn is how the Scan must have gone for the hook to run: Success (findings are
	// there), Failure (the Scan is Errored: its state and errorDescription say why, and
	// there may be no results to download), or Always. Absent is Success.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Success', 'Failure', 'Always']",message="must be Success, Failure or Always"
	// +kubebuilder:validation:MaxLength=64
	RunOn HookRunOn `json:"runOn,omitempty"`

	// outputs name further objects that the hook may write beside the results of the Scan,
	// as report.html. The hook gets presigned URLs to PUT them in the environment variable
	// OUTPUT_URLS, a JSON object of names and URLs. They are removed with the Scan.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=100
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	// +kubebuilder:validation:XValidation:rule="self.all(name, name != 'findings.json')",message="findings.json is the name of the findings in storage"
	// +kubebuilder:validation:XValidation:rule="self.all(name, name != 'scanyard-scanner.log')",message="scanyard-scanner.log is the name of the scanner's log in storage"
	Outputs []string `json:"outputs,omitempty"`

	// image is the hook's container image.
	// +optional
	Image string `json:"image,omitempty"`

	// imagePullSecrets name Secrets of the namespace where the hook runs.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// imagePullPolicy is when to pull the image; the cluster's default where absent.
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// scanAccess is how the image learns of its Scan and tells what it has done. API: it
	// reads the Scan by the Kubernetes API and writes counts into its status, as images of
	// secureCodeBox and of other people do. Handover: it finds the Scan in the environment
	// variable SCAN_OBJECT and leaves an outcome as its termination message; its pod has no
	// token, unless serviceAccountName gives it an account for something else. Scanyard's own
	// image knows both. Absent is API.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['API', 'Handover']",message="must be API or Handover"
	// +kubebuilder:validation:MaxLength=64
	ScanAccess ScanAccess `json:"scanAccess,omitempty"`

	// env is added to the environment of the hook.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes are added to the hook pod.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are added to the hook container.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// nodeSelector of the hook pod; spec.nodeSelector of the Scan is merged over it.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity of the hook pod, used where the Scan sets none.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations of the hook pod, used where the Scan sets none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// serviceAccountName is the ServiceAccount of the hook pod, in the namespace where
	// it runs. It needs get on scans and get and patch on scans/status, unless scanAccess
	// is Handover. Absent: one that the operator makes, which reaches the Scan that the
	// hook works for only; with Handover none.
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`

	// ttlSecondsAfterFinished removes the hook Job this long after its end.
	// +optional
	// +nullable
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// resources of the hook container.
	// +optional
	// +kubebuilder:default={requests:{cpu:"200m",memory:"100Mi"},limits:{cpu:"400m",memory:"200Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ScanCompletionHookStatus is empty; it stands in the schema for old clients.
type ScanCompletionHookStatus struct{}

// ScanCompletionHook runs after the Scans of its namespace are parsed.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=scancompletionhooks,singular=scancompletionhook,scope=Namespaced,shortName=hook,categories=scanyard
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="ScanCompletionHook Type"
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.spec.priority`,description="ScanCompletionHook Priority"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="ScanCompletionHook Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScanCompletionHook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what runs.
	// +optional
	Spec ScanCompletionHookSpec `json:"spec,omitzero"`
	// status is always empty.
	// +optional
	Status ScanCompletionHookStatus `json:"status,omitempty"`
}

// ScanCompletionHookList is a list of ScanCompletionHooks.
// +kubebuilder:object:root=true
type ScanCompletionHookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScanCompletionHook `json:"items"`
}

// ClusterScanCompletionHookSpec says what runs after parsing, and where.
type ClusterScanCompletionHookSpec struct {
	ScanCompletionHookSpec `json:",inline"`

	// executionNamespace is where the hook's Jobs run, so that its ServiceAccount,
	// Secrets and ConfigMaps need to exist in one namespace only. Absent: in the
	// namespace of each Scan. The operator gives the hook's ServiceAccount access to
	// each Scan for as long as the hook runs.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	ExecutionNamespace string `json:"executionNamespace,omitempty"`
}

// ClusterScanCompletionHook runs after Scans of resourceMode clusterWide are parsed,
// in every namespace. Cluster admins only write it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterscancompletionhooks,singular=clusterscancompletionhook,scope=Cluster,shortName=chook,categories=scanyard
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="ClusterScanCompletionHook Type"
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.spec.priority`,description="ClusterScanCompletionHook Priority"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="ClusterScanCompletionHook Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterScanCompletionHook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what runs, and where.
	// +optional
	Spec ClusterScanCompletionHookSpec `json:"spec,omitzero"`
	// status is always empty.
	// +optional
	Status ScanCompletionHookStatus `json:"status,omitempty"`
}

// ClusterScanCompletionHookList is a list of ClusterScanCompletionHooks.
// +kubebuilder:object:root=true
type ClusterScanCompletionHookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterScanCompletionHook `json:"items"`
}
