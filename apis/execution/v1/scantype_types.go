// SPDX-License-Identifier: Apache-2.0

package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScanTypeSpec says how a scanner runs and where it leaves its result.
type ScanTypeSpec struct {
	// extractResults says where the scanner leaves its result and in which format.
	// +optional
	ExtractResults ExtractResults `json:"extractResults,omitempty"`

	// jobTemplate is the Job that runs the scanner. Its first container is the scanner:
	// the parameters of the Scan are appended to its command, and its args are not
	// used. Labels and annotations of the pod template are kept.
	// +optional
	JobTemplate batchv1.Job `json:"jobTemplate,omitempty"`

	// phases is Separate if the result of this scanner must be parsed in a pod of its own. Fused, or
	// absent: the parser runs in the scanner's pod where the settings, the ParseDefinition and the pod
	// allow it; docs/fused-phases.md says when they do.
	// An addition to the secureCodeBox contract.
	// +optional
	Phases Phases `json:"phases,omitempty"`
}

// Phases says whether scanner and parser of a Scan share a pod.
// +kubebuilder:validation:XValidation:rule="self in ['Fused', 'Separate']",message="must be Fused or Separate"
// +kubebuilder:validation:MaxLength=64
type Phases string

const (
	// PhasesFused means that the parser runs in the scanner's pod, after the scanner has ended.
	PhasesFused Phases = "Fused"
	// PhasesSeparate means that the parser has a pod of its own.
	PhasesSeparate Phases = "Separate"
)

// ExtractResults says where a scanner leaves its result and in which format.
type ExtractResults struct {
	// type is the format of the result and the name of the ParseDefinition that reads
	// it, such as "nmap-xml".
	// +optional
	Type string `json:"type,omitempty"`

	// location is the absolute path of the result below /home/securecodebox/, the
	// folder that the scanner shares with the uploading container.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (self.startsWith('/home/securecodebox/') && !self.endsWith('/') && !self.contains('/../') && !self.endsWith('/..') && !self.endsWith('/.'))",message="must be a file below /home/securecodebox/, such as /home/securecodebox/nmap-results.xml: only that folder is shared with the container that uploads the result"
	// +kubebuilder:validation:Pattern=`^[^\\\x00-\x1f\x7f]*$`
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('/findings.json')",message="must not be called findings.json: that name is taken by the findings in storage"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('/scanyard-scanner.log')",message="must not be called scanyard-scanner.log: that name is taken by the scanner's log in storage"
	Location string `json:"location,omitempty"`
}

// ScanTypeStatus is empty; it stands in the schema for old clients.
type ScanTypeStatus struct{}

// ScanType is a scanner that teams of its namespace can use.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=scantypes,singular=scantype,scope=Namespaced,shortName=stype,categories=scanyard
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.jobTemplate.spec.template.spec.containers[0].image`,description="Scanner Container Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScanType struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the scanner runs.
	// +optional
	Spec ScanTypeSpec `json:"spec,omitempty"`
	// status is always empty.
	// +optional
	Status ScanTypeStatus `json:"status,omitempty"`
}

// ScanTypeList is a list of ScanTypes.
// +kubebuilder:object:root=true
type ScanTypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScanType `json:"items"`
}

// ClusterScanType is a scanner that Scans of resourceMode clusterWide use in every
// namespace. Writing one means running code in every namespace: cluster admins only.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterscantypes,singular=clusterscantype,scope=Cluster,shortName=cstype,categories=scanyard
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.jobTemplate.spec.template.spec.containers[0].image`,description="Scanner Container Image"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterScanType struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the scanner runs.
	// +optional
	Spec ScanTypeSpec `json:"spec,omitempty"`
	// status is always empty.
	// +optional
	Status ScanTypeStatus `json:"status,omitempty"`
}

// ClusterScanTypeList is a list of ClusterScanTypes.
// +kubebuilder:object:root=true
type ClusterScanTypeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterScanType `json:"items"`
}
