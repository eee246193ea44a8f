// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// ClusterReport holds results for resources of the cluster, or of several namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterreports,shortName=creps,categories=scanyard,scope=Cluster
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.scope.kind`,priority=1
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.scope.name`,priority=1
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=`.summary.pass`
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=`.summary.fail`
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=`.summary.warn`
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=`.summary.error`
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=`.summary.skip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// source is the program that made the report, where all results have the same.
	// +optional
	Source string `json:"source,omitempty"`

	// configuration says how the report was made.
	// +optional
	Configuration *ReportConfiguration `json:"configuration,omitempty"`

	// scope is what the whole report is about, a Namespace for example.
	// +optional
	Scope *corev1.ObjectReference `json:"scope,omitempty"`

	// scopeSelector selects what the report is about by labels, where scope does not name it.
	// +optional
	ScopeSelector *metav1.LabelSelector `json:"scopeSelector,omitempty"`

	// summary counts the results.
	// +optional
	Summary *wgpolicyv1alpha2.PolicyReportSummary `json:"summary,omitempty"`

	// results are the outcomes of the checks. The list is replaced as a whole.
	// +optional
	// +listType=atomic
	Results []wgpolicyv1alpha2.PolicyReportResult `json:"results,omitempty"`
}

// ClusterReportList is a list of ClusterReports.
// +kubebuilder:object:root=true
type ClusterReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterReports.
	Items []ClusterReport `json:"items"`
}
