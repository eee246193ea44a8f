// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterPolicyReport holds results for resources of the cluster, or of several namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterpolicyreports,shortName=cpolr,categories=scanyard,scope=Cluster
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.scope.kind`,priority=1
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.scope.name`,priority=1
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=`.summary.pass`
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=`.summary.fail`
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=`.summary.warn`
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=`.summary.error`
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=`.summary.skip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// scope is what the whole report is about, a Namespace for example.
	// +optional
	Scope *corev1.ObjectReference `json:"scope,omitempty"`

	// scopeSelector selects what the report is about by labels, where scope does not name it.
	// +optional
	ScopeSelector *metav1.LabelSelector `json:"scopeSelector,omitempty"`

	// summary counts the results.
	// +optional
	Summary *PolicyReportSummary `json:"summary,omitempty"`

	// results are the outcomes of the checks. The list is replaced as a whole.
	// +optional
	// +listType=atomic
	Results []PolicyReportResult `json:"results,omitempty"`
}

// ClusterPolicyReportList is a list of ClusterPolicyReports.
// +kubebuilder:object:root=true
type ClusterPolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterPolicyReports.
	Items []ClusterPolicyReport `json:"items"`
}
