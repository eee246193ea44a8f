// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContentType says how a parser SDK hands the raw result to its parser.
// +kubebuilder:validation:Enum=Text;Binary
type ContentType string

const (
	// ContentTypeText hands it over as UTF-8 text.
	ContentTypeText ContentType = "Text"
	// ContentTypeBinary hands it over as bytes.
	ContentTypeBinary ContentType = "Binary"
)

// ScanAccess says how the image of a parser or hook learns of the Scan that it works for, and
// tells what it has done.
type ScanAccess string

const (
	// ScanAccessAPI means that the image reads the Scan by the Kubernetes API and writes the
	// counts of findings into its status, as images of secureCodeBox do. It is the default.
	ScanAccessAPI ScanAccess = "API"
	// ScanAccessHandover means that the Scan is handed over in the environment, and that the
	// operator reads the outcome from the container's termination message.
	ScanAccessHandover ScanAccess = "Handover"
)

// ParseDefinitionSpec says how the parser of one result type runs. The name of the
// object is the result type.
type ParseDefinitionSpec struct {
	// scopeLimiterAliases are mustache templates that scope limiters of cascading
	// Scans may refer to by name.
	// +optional
	ScopeLimiterAliases map[string]string `json:"scopeLimiterAliases,omitempty"`

	// image is the parser's container image.
	// +optional
	Image string `json:"image,omitempty"`

	// imagePullSecrets name Secrets of the Scan's namespace to pull the image with.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// imagePullPolicy is when to pull the image; the cluster's default where absent.
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// scanAccess is how the image learns of its Scan and tells what it has done. API: it
	// reads the Scan by the Kubernetes API and writes the counts into its status, with an
	// account that the operator makes for each Scan; images of secureCodeBox and of other
	// people do so. Handover: it finds the Scan in the environment variable SCAN_OBJECT and
	// leaves an outcome as its termination message; its pod has no account and no token.
	// Scanyard's own image knows both. Absent is API.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['API', 'Handover']",message="must be API or Handover"
	// +kubebuilder:validation:MaxLength=64
	ScanAccess ScanAccess `json:"scanAccess,omitempty"`

	// phases is Fused if the image can also run in the scanner's pod: it knows how to wait until the
	// scanner has ended and reads the raw result from a file. Scanyard's own image does, and images
	// built with its SDK. It needs scanAccess Handover. Absent is Separate.
	// An addition to the secureCodeBox contract.
	// +optional
	Phases Phases `json:"phases,omitempty"`

	// ttlSecondsAfterFinished removes the parser Job this long after its end.
	// +optional
	// +nullable
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// contentType says how the parser SDK hands over the raw result.
	// +optional
	// +kubebuilder:default=Text
	ContentType ContentType `json:"contentType,omitempty"`

	// env is added to the environment of the parser.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumes are added to the parser pod.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are added to the parser container.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// nodeSelector of the parser pod; spec.nodeSelector of the Scan is merged over it.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity of the parser pod, used where the Scan sets none.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations of the parser pod, used where the Scan sets none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// resources of the parser container.
	// +optional
	// +kubebuilder:default={requests:{cpu:"200m",memory:"100Mi"},limits:{cpu:"400m",memory:"200Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ParseDefinitionStatus is empty; it stands in the schema for old clients.
type ParseDefinitionStatus struct{}

// ParseDefinition is the parser of one result type for Scans of its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=parsedefinitions,singular=parsedefinition,scope=Namespaced,shortName=pdef,categories=scanyard
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="Parser Container Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ParseDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the parser runs.
	// +optional
	Spec ParseDefinitionSpec `json:"spec,omitempty"`
	// status is always empty.
	// +optional
	Status ParseDefinitionStatus `json:"status,omitempty"`
}

// ParseDefinitionList is a list of ParseDefinitions.
// +kubebuilder:object:root=true
type ParseDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ParseDefinition `json:"items"`
}

// ClusterParseDefinition is the parser of one result type for Scans of resourceMode
// clusterWide in every namespace. Cluster admins only write it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterparsedefinitions,singular=clusterparsedefinition,scope=Cluster,shortName=cpdef,categories=scanyard
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="Parser Container Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterParseDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the parser runs.
	// +optional
	Spec ParseDefinitionSpec `json:"spec,omitempty"`
	// status is always empty.
	// +optional
	Status ParseDefinitionStatus `json:"status,omitempty"`
}

// ClusterParseDefinitionList is a list of ClusterParseDefinitions.
// +kubebuilder:object:root=true
type ClusterParseDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterParseDefinition `json:"items"`
}
