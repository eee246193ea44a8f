// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExceptionStatus says why a finding need not be dealt with.
// +kubebuilder:validation:Enum=Accepted;FalsePositive;NotAffected;Mitigated;UnderInvestigation
type ExceptionStatus string

const (
	// ExceptionAccepted is a risk that is taken for a time.
	ExceptionAccepted ExceptionStatus = "Accepted"
	// ExceptionFalsePositive is a finding that is wrong.
	ExceptionFalsePositive ExceptionStatus = "FalsePositive"
	// ExceptionNotAffected is a vulnerability that cannot be used here; spec.justification says why.
	ExceptionNotAffected ExceptionStatus = "NotAffected"
	// ExceptionMitigated is a finding that is dealt with in another way.
	ExceptionMitigated ExceptionStatus = "Mitigated"
	// ExceptionUnderInvestigation marks a finding and never suppresses it.
	ExceptionUnderInvestigation ExceptionStatus = "UnderInvestigation"
)

// Suppresses says whether findings that are excepted with this status count no longer.
func (s ExceptionStatus) Suppresses() bool { return s != ExceptionUnderInvestigation }

// Justification says why a vulnerability cannot be used, in the words of OpenVEX.
// +kubebuilder:validation:Enum=component_not_present;vulnerable_code_not_present;vulnerable_code_not_in_execute_path;vulnerable_code_cannot_be_controlled_by_adversary;inline_mitigations_already_exist
type Justification string

// The justifications of OpenVEX 0.2.0.
const (
	ComponentNotPresent         Justification = "component_not_present"
	VulnerableCodeNotPresent    Justification = "vulnerable_code_not_present"
	VulnerableCodeNotInPath     Justification = "vulnerable_code_not_in_execute_path"
	VulnerableCodeNotControlled Justification = "vulnerable_code_cannot_be_controlled_by_adversary"
	InlineMitigationsExist      Justification = "inline_mitigations_already_exist"
)

// ExceptionSpec says which findings are excepted, for how long, and why.
// +kubebuilder:validation:XValidation:rule="self.status != 'NotAffected' || has(self.justification)",message="status NotAffected needs a justification: set spec.justification to one of component_not_present, vulnerable_code_not_present, vulnerable_code_not_in_execute_path, vulnerable_code_cannot_be_controlled_by_adversary, inline_mitigations_already_exist",fieldPath=".justification"
// +kubebuilder:validation:XValidation:rule="self.status == 'NotAffected' || !has(self.justification)",message="justification goes with status NotAffected only: remove it, or set spec.status to NotAffected",fieldPath=".justification"
// +kubebuilder:validation:XValidation:rule="self.status != 'Accepted' || has(self.expiresAt)",message="a risk is accepted for a time: set spec.expiresAt",fieldPath=".expiresAt"
// +kubebuilder:validation:XValidation:rule="!has(self.expiresAt) || !has(self.notBefore) || self.notBefore < self.expiresAt",message="notBefore must be before expiresAt",fieldPath=".notBefore"
type ExceptionSpec struct {
	// status says why the findings need not be dealt with. Accepted needs expiresAt, NotAffected needs
	// justification; UnderInvestigation marks findings and never suppresses them.
	// +required
	Status ExceptionStatus `json:"status"`

	// justification says why a vulnerability cannot be used, in the words of OpenVEX. With NotAffected only.
	// +optional
	Justification Justification `json:"justification,omitempty"`

	// reason says why, for the auditor in a year.
	// +required
	// +kubebuilder:validation:MinLength=10
	// +kubebuilder:validation:MaxLength=2000
	Reason string `json:"reason"`

	// expiresAt is when the exception ends. Its findings are open again from then on.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// notBefore is when the exception begins. Absent: at once.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// reviewer is who has agreed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Reviewer string `json:"reviewer,omitempty"`

	// ticket is the URL where the decision was made.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https']",message="ticket must be a URL that begins with https:// or http://"
	Ticket string `json:"ticket,omitempty"`

	// match says which findings are meant.
	// +required
	Match ExceptionMatch `json:"match"`
}

// FindingExceptionSpec says which findings of which Scans of the namespace are excepted, for how long, and why.
type FindingExceptionSpec struct {
	ExceptionSpec `json:",inline"`

	// scope says for which Scans the exception holds. Absent: for all of the namespace.
	// +optional
	Scope *ExceptionScope `json:"scope,omitempty"`
}

// ClusterFindingExceptionSpec says which findings of which Scans of which namespaces are excepted, for how long, and why.
type ClusterFindingExceptionSpec struct {
	ExceptionSpec `json:",inline"`

	// scope says for which Scans of which namespaces the exception holds. Absent: for all.
	// +optional
	Scope *ClusterExceptionScope `json:"scope,omitempty"`
}

// ExceptionMatch says which findings are meant.
type ExceptionMatch struct {
	// anyOf are conditions of which one has to hold.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	AnyOf []ExceptionEntry `json:"anyOf"`
}

// ExceptionEntry is met by a finding that meets each field that is set; a list is met by one of its elements.
//
// Globs have * for any run of characters and ? for one character, and compare the whole text with its case.
// +kubebuilder:validation:MinProperties=1
type ExceptionEntry struct {
	// fingerprints are compared as a whole.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Fingerprints []string `json:"fingerprints,omitempty"`

	// names are globs on the name of the finding.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Names []string `json:"names,omitempty"`

	// categories are globs on the category of the finding.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Categories []string `json:"categories,omitempty"`

	// locations are globs on the location of the finding.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	Locations []string `json:"locations,omitempty"`

	// severities are INFORMATIONAL, LOW, MEDIUM and HIGH.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=INFORMATIONAL;LOW;MEDIUM;HIGH
	Severities []string `json:"severities,omitempty"`

	// references are compared with the values of the finding's references without their case, such as
	// CVE-2024-3094, CWE-79 or GHSA-35jh-r3h4-6jhm.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	References []string `json:"references,omitempty"`

	// packages are package URLs, for findings that name a package by attributes.purl. One without a version
	// means all versions, the qualifier vers means a range of them: pkg:npm/lodash?vers=vers:npm/<4.17.21.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern=`^pkg:`
	// +kubebuilder:validation:items:MaxLength=1024
	Packages []string `json:"packages,omitempty"`

	// products are images: globs on their reference, or a digest such as sha256:….
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Products []string `json:"products,omitempty"`

	// attributes are values that the attributes of the finding must have, each a text, a number or true or false.
	// A key is a path with dots: request.method.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:pruning:PreserveUnknownFields
	Attributes map[string]Scalar `json:"attributes,omitempty"`

	// expression is a CEL expression over finding that has to be true, as in cascading rules.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
}

// ExceptionScope says for which Scans an exception holds. All that is set has to fit.
type ExceptionScope struct {
	// scanTypes are globs on spec.scanType of the Scan.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ScanTypes []string `json:"scanTypes,omitempty"`

	// scans are globs on the name of the Scan.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Scans []string `json:"scans,omitempty"`

	// targets are globs on the label scanyard.io/target of the Scan.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Targets []string `json:"targets,omitempty"`
}

// ClusterExceptionScope says for which Scans of which namespaces an exception holds. All that is set has to fit.
// +kubebuilder:validation:XValidation:rule="!has(self.namespaces) || !has(self.namespaceSelector)",message="set namespaces or namespaceSelector, not both",fieldPath=".namespaceSelector"
type ClusterExceptionScope struct {
	ExceptionScope `json:",inline"`

	// namespaces are globs on the namespace of the Scan.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelector selects namespaces by their labels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// FindingExceptionStatus says whether an exception holds, and what it holds for. It is the same for both kinds.
type FindingExceptionStatus struct {
	// conditions say whether the exception holds (type Active), whether it ends within 14 days (type ExpiresSoon), and
	// whether it is known who made and who changed it (type Stamped).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matched is the number of findings that are excepted in the latest runs of the Scans that the exception holds for.
	// +optional
	Matched *int64 `json:"matched,omitempty"`

	// lastMatched is when a finding was excepted last.
	// +optional
	LastMatched *metav1.Time `json:"lastMatched,omitempty"`

	// createdBy is the user that the API server saw at the creation. Empty where no admission stamps it.
	// +optional
	CreatedBy string `json:"createdBy,omitempty"`

	// changedBy is the user that the API server saw at the last change of spec.
	// +optional
	ChangedBy string `json:"changedBy,omitempty"`

	// changedAt is when spec was changed last.
	// +optional
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`
}

// Scalar is a JSON text, number, true or false.
type Scalar struct{ raw string }

// ScalarOf is the Scalar of a JSON text such as "a", 1 or true.
func ScalarOf(raw string) Scalar { return Scalar{raw} }

// Raw is the value as JSON.
func (s Scalar) Raw() string { return s.raw }

// MarshalJSON writes the value as it was read.
func (s Scalar) MarshalJSON() ([]byte, error) {
	if s.raw == "" {
		return []byte("null"), nil
	}
	return []byte(s.raw), nil
}

// UnmarshalJSON takes any JSON value. What is not a scalar is found by whoever compiles the exception, which names the field.
func (s *Scalar) UnmarshalJSON(raw []byte) error {
	s.raw = string(raw)
	return nil
}

// FindingException says which findings of its namespace need not be dealt with, for how long, and why. It removes no
// evidence: raw results and findings.json stay as they are.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=findingexceptions,singular=findingexception,scope=Namespaced,shortName=fex,categories=scanyard
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.status`,description="Why the findings need not be dealt with"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1,description="Why, in the words of the team"
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`,description="When the exception ends"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="How many findings are excepted in the latest runs"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`,description="Whether the exception holds"
// +kubebuilder:printcolumn:name="Stamped",type=string,JSONPath=`.status.conditions[?(@.type=="Stamped")].status`,priority=1,description="Whether it is known who made and who changed the exception"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FindingException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which findings are excepted, for how long, and why.
	// +required
	Spec FindingExceptionSpec `json:"spec"`
	// status says whether the exception holds, and what it holds for.
	// +optional
	Status FindingExceptionStatus `json:"status,omitzero"`
}

// FindingExceptionList is a list of FindingExceptions.
// +kubebuilder:object:root=true
type FindingExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FindingException `json:"items"`
}

// ClusterFindingException says which findings of all or some namespaces need not be dealt with, for how long, and why.
// Cluster admins only write it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterfindingexceptions,singular=clusterfindingexception,scope=Cluster,shortName=cfex,categories=scanyard
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.status`,description="Why the findings need not be dealt with"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1,description="Why, in the words of the admin"
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`,description="When the exception ends"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="How many findings are excepted in the latest runs"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`,description="Whether the exception holds"
// +kubebuilder:printcolumn:name="Stamped",type=string,JSONPath=`.status.conditions[?(@.type=="Stamped")].status`,priority=1,description="Whether it is known who made and who changed the exception"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterFindingException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which findings are excepted in which namespaces, for how long, and why.
	// +required
	Spec ClusterFindingExceptionSpec `json:"spec"`
	// status says whether the exception holds, and what it holds for.
	// +optional
	Status FindingExceptionStatus `json:"status,omitzero"`
}

// ClusterFindingExceptionList is a list of ClusterFindingExceptions.
// +kubebuilder:object:root=true
type ClusterFindingExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterFindingException `json:"items"`
}

// The conditions of exceptions and their reasons.
const (
	// ConditionActive says whether an exception holds.
	ConditionActive = "Active"
	// ConditionExpiresSoon says whether an exception ends within 14 days.
	ConditionExpiresSoon = "ExpiresSoon"
	// ConditionStamped says whether admission has stamped who made the exception and who changed its spec last.
	ConditionStamped = "Stamped"
	// ReasonHolds is the reason of Active where the exception holds.
	ReasonHolds = "Holds"
	// ReasonExpired is the reason of Active where expiresAt is over.
	ReasonExpired = "Expired"
	// ReasonNotYet is the reason of Active where notBefore is ahead.
	ReasonNotYet = "NotYet"
	// ReasonExpiresSoon is the reason of ExpiresSoon where expiresAt is less than 14 days ahead.
	ReasonExpiresSoon = "ExpiresSoon"
	// ReasonStamped is the reason of Stamped where both stamps are there.
	ReasonStamped = "Stamped"
	// ReasonNotStamped is the reason of Stamped where the exception was made, and ReasonChangeNotStamped where its spec was
	// changed last, while the API server did not ask the operator's webhook.
	ReasonNotStamped       = "NotStamped"
	ReasonChangeNotStamped = "ChangeNotStamped"
	// ReasonNoAdmission is the reason of Stamped where a stamp is missing and the operator serves no webhook that could make one.
	ReasonNoAdmission = "NoAdmission"
)
