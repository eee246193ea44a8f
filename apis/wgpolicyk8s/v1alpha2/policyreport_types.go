// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Result is the outcome of one check.
// +kubebuilder:validation:Enum=pass;fail;warn;error;skip
// +enum
type Result string

// Outcomes of a check.
const (
	// ResultPass says that the resource satisfies the rule.
	ResultPass Result = "pass"
	// ResultFail says that the resource does not satisfy the rule.
	ResultFail Result = "fail"
	// ResultWarn says that the resource does not satisfy the rule, which is not enforced.
	ResultWarn Result = "warn"
	// ResultError says that the rule could not be evaluated.
	ResultError Result = "error"
	// ResultSkip says that the rule was not evaluated, since the resource is exempt.
	ResultSkip Result = "skip"
)

// Severity says how bad a failed check is.
// +kubebuilder:validation:Enum=critical;high;medium;low;info
// +enum
type Severity string

// Severities of a result, the worst first.
const (
	// SeverityCritical asks to act at once.
	SeverityCritical Severity = "critical"
	// SeverityHigh asks to act soon.
	SeverityHigh Severity = "high"
	// SeverityMedium asks to plan.
	SeverityMedium Severity = "medium"
	// SeverityLow is worth to know.
	SeverityLow Severity = "low"
	// SeverityInfo is not a weakness.
	SeverityInfo Severity = "info"
)

// PolicyReportSummary counts the results of a report. The counts are the writer's: nobody
// computes them again.
type PolicyReportSummary struct {
	// pass is the number of results that are pass.
	// +optional
	Pass *int64 `json:"pass,omitempty"`

	// fail is the number of results that are fail.
	// +optional
	Fail *int64 `json:"fail,omitempty"`

	// warn is the number of results that are warn.
	// +optional
	Warn *int64 `json:"warn,omitempty"`

	// error is the number of results that are error.
	// +optional
	Error *int64 `json:"error,omitempty"`

	// skip is the number of results that are skip.
	// +optional
	Skip *int64 `json:"skip,omitempty"`
}

// PolicyReportResult is the outcome of one check of one or several resources.
type PolicyReportResult struct {
	// source is the program that made the result. Example: "kyverno".
	// +optional
	Source string `json:"source,omitempty"`

	// policy is the name of the policy, or the identifier of the weakness; it may be empty. Example: "CVE-2021-44228".
	// +required
	Policy *string `json:"policy"`

	// rule is the name of the rule inside of the policy.
	// +optional
	Rule string `json:"rule,omitempty"`

	// category groups policies. Example: "Pod Security Standards".
	// +optional
	Category string `json:"category,omitempty"`

	// severity says how bad a failed check is. Absent: not known.
	// +optional
	Severity Severity `json:"severity,omitempty"`

	// timestamp is when the check was made.
	// +optional
	Timestamp *metav1.Timestamp `json:"timestamp,omitempty"`

	// result is the outcome.
	// +optional
	Result Result `json:"result,omitempty"`

	// scored says whether the result counts in a score.
	// +optional
	Scored *bool `json:"scored,omitempty"`

	// resources are what was checked. Absent: what the report's scope names.
	// +optional
	// +listType=atomic
	Resources []corev1.ObjectReference `json:"resources,omitempty"`

	// resourceSelector selects what was checked by labels, where resources does not name it.
	// +optional
	ResourceSelector *metav1.LabelSelector `json:"resourceSelector,omitempty"`

	// message explains the result to people.
	// +optional
	Message string `json:"message,omitempty"`

	// properties are further facts, by name. The reports API server reads the score of a
	// weakness (0 to 10) from the first of cvss, cvssScore, cvss_score, score.
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
}

// PolicyName is the policy, or "" where the result names none.
func (r *PolicyReportResult) PolicyName() string {
	if r.Policy == nil {
		return ""
	}
	return *r.Policy
}

// PolicyReport holds results for resources of one namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=policyreports,shortName=polr,categories=scanyard,scope=Namespaced
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.scope.kind`,priority=1
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.scope.name`,priority=1
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=`.summary.pass`
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=`.summary.fail`
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=`.summary.warn`
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=`.summary.error`
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=`.summary.skip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// scope is what the whole report is about, a Deployment for example.
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

// PolicyReportList is a list of PolicyReports.
// +kubebuilder:object:root=true
type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the PolicyReports.
	Items []PolicyReport `json:"items"`
}
