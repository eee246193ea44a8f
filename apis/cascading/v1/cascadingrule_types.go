// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// CascadingRuleSpec says which findings start which Scan.
type CascadingRuleSpec struct {
	// matches says which findings the rule fires for.
	// +required
	Matches Matches `json:"matches"`

	// scanLabels are added to the Scans that the rule starts; values are mustache
	// templates rendered from the finding.
	// +optional
	ScanLabels map[string]string `json:"scanLabels,omitempty"`

	// scanAnnotations are added to the Scans that the rule starts; values are mustache
	// templates rendered from the finding.
	// +optional
	ScanAnnotations map[string]string `json:"scanAnnotations,omitempty"`

	// scanSpec is the spec of the Scans that the rule starts; its texts are mustache
	// templates rendered from the finding.
	// +required
	ScanSpec executionv1.ScanSpec `json:"scanSpec"`
}

// Matches says which findings a rule fires for.
type Matches struct {
	// anyOf holds when at least one of its rules matches the finding.
	// +optional
	AnyOf []MatchesRule `json:"anyOf,omitempty"`

	// expression is a CEL expression over the variable finding that a finding must meet, for
	// what anyOf cannot say. Where anyOf is given as well, both must hold. A field that a
	// finding does not have makes it false. Example:
	// finding.category == "Open Port" && finding.attributes.port > 1024
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
}

// MatchesRule matches a finding when every field given here equals the finding's;
// texts may have * as a wildcard and a leading ! to negate.
type MatchesRule struct {
	// name of the finding.
	// +optional
	Name string `json:"name,omitempty"`
	// category of the finding.
	// +optional
	Category string `json:"category,omitempty"`
	// description of the finding.
	// +optional
	Description string `json:"description,omitempty"`
	// location of the finding.
	// +optional
	Location string `json:"location,omitempty"`
	// severity of the finding.
	// +optional
	Severity string `json:"severity,omitempty"`
	// osi_layer of the finding.
	// +optional
	OsiLayer string `json:"osi_layer,omitempty"`
	// attributes of the finding: whole numbers or texts.
	// +optional
	Attributes map[string]intstr.IntOrString `json:"attributes,omitempty"`
}

// CascadingRuleStatus is empty; it stands in the schema for old clients.
type CascadingRuleStatus struct{}

// CascadingRule starts Scans from findings of Scans in its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=cascadingrules,singular=cascadingrule,scope=Namespaced,shortName=crule,categories=scanyard
// +kubebuilder:printcolumn:name="Starts",type=string,JSONPath=`.spec.scanSpec.scanType`,description="Which Scanner should be started when this CascadingRule applies"
// +kubebuilder:printcolumn:name="Invasiveness",type=string,JSONPath=`.metadata.labels.securecodebox\.io/invasive`,description="Indicates how invasive the Scanner is. Can be either 'invasive' or 'non-invasive'"
// +kubebuilder:printcolumn:name="Intensiveness",type=string,JSONPath=`.metadata.labels.securecodebox\.io/intensive`,description="Indicates how much resource the Scanner consumes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CascadingRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which findings start which Scan.
	// +optional
	Spec CascadingRuleSpec `json:"spec,omitzero"`
	// status is always empty.
	// +optional
	Status CascadingRuleStatus `json:"status,omitempty"`
}

// CascadingRuleList is a list of CascadingRules.
// +kubebuilder:object:root=true
type CascadingRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CascadingRule `json:"items"`
}

// ClusterCascadingRule starts Scans from findings of Scans of resourceMode clusterWide
// in every namespace. Cluster admins only write it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustercascadingrules,singular=clustercascadingrule,scope=Cluster,shortName=ccrule,categories=scanyard
// +kubebuilder:printcolumn:name="Starts",type=string,JSONPath=`.spec.scanSpec.scanType`,description="Which Scanner should be started when this ClusterCascadingRule applies"
// +kubebuilder:printcolumn:name="Invasiveness",type=string,JSONPath=`.metadata.labels.securecodebox\.io/invasive`,description="Indicates how invasive the Scanner is. Can be either 'invasive' or 'non-invasive'"
// +kubebuilder:printcolumn:name="Intensiveness",type=string,JSONPath=`.metadata.labels.securecodebox\.io/intensive`,description="Indicates how much resource the Scanner consumes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterCascadingRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which findings start which Scan.
	// +optional
	Spec CascadingRuleSpec `json:"spec,omitzero"`
	// status is always empty.
	// +optional
	Status CascadingRuleStatus `json:"status,omitempty"`
}

// ClusterCascadingRuleList is a list of ClusterCascadingRules.
// +kubebuilder:object:root=true
type ClusterCascadingRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterCascadingRule `json:"items"`
}
