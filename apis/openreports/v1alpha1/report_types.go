// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// Limits bound what a report holds.
type Limits struct {
	// maxResults is how many results the report may hold.
	// +optional
	MaxResults *int64 `json:"maxResults,omitempty"`

	// statusFilter are the outcomes that the report holds; others were left out.
	// +optional
	// +listType=atomic
	StatusFilter []wgpolicyv1alpha2.Result `json:"statusFilter,omitempty"`
}

// ReportConfiguration says how a report was made.
type ReportConfiguration struct {
	// limits bound what the report holds.
	// +required
	Limits *Limits `json:"limits"`
}

// Report holds results for resources of one namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=reports,shortName=reps,categories=scanyard,scope=Namespaced
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.scope.kind`,priority=1
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.scope.name`,priority=1
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=`.summary.pass`
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=`.summary.fail`
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=`.summary.warn`
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=`.summary.error`
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=`.summary.skip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Report struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// source is the program that made the report, where all results have the same.
	// +optional
	Source string `json:"source,omitempty"`

	// configuration says how the report was made.
	// +optional
	Configuration *ReportConfiguration `json:"configuration,omitempty"`

	// scope is what the whole report is about, a Deployment for example.
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

// ReportList is a list of Reports.
// +kubebuilder:object:root=true
type ReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Reports.
	Items []Report `json:"items"`
}
