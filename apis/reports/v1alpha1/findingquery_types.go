// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Term compares one field with a value.
type Term struct {
	// field to compare: namespace, source, policy, rule, category, severity, result, cvss, timestamp, firstSeen,
	// fixedAt, openFor, target, resource.kind, resource.name, report, suppressed, exception, package.type,
	// package.version or fixable.
	// +required
	Field string `json:"field"`

	// op is the comparison: ==, !=, <, <=, >, >=, in, startsWith, contains or has.
	// +required
	// +kubebuilder:validation:Enum="==";"!=";"<";"<=";">";">=";in;startsWith;contains;has
	Op string `json:"op"`

	// value to compare with. Absent for in and has. Severities compare by their rank.
	// +optional
	Value string `json:"value,omitempty"`

	// values are those of in, 500 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Values []string `json:"values,omitempty"`
}

// ImagesQuery narrows a query to findings of images. Fields that are given must all match.
type ImagesQuery struct {
	// registry is the name of the Registry.
	// +optional
	Registry string `json:"registry,omitempty"`

	// repository is the whole name inside of the registry.
	// +optional
	Repository string `json:"repository,omitempty"`

	// tag of the image.
	// +optional
	Tag string `json:"tag,omitempty"`

	// platform of the image. Example: "linux/amd64".
	// +optional
	Platform string `json:"platform,omitempty"`

	// presence of the image: Present, Superseded or Gone. Absent: any.
	// +optional
	Presence ImagePresence `json:"presence,omitempty"`
}

// PackageQuery narrows a query to findings of a package.
type PackageQuery struct {
	// name of the package.
	// +optional
	Name string `json:"name,omitempty"`

	// type of the package. Example: "deb".
	// +optional
	Type string `json:"type,omitempty"`

	// versionRange of the installed version, in the order of versions of the package's type; name must be given, too.
	// It is a version, or comparisons behind each other with | between them. Example: ">=2.0.0|<2.17.1".
	// +optional
	VersionRange string `json:"versionRange,omitempty"`
}

// TrendQuery asks for open results per day.
type TrendQuery struct {
	// days back from today.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=400
	Days int32 `json:"days"`
}

// SortKey orders an answer by one field.
type SortKey struct {
	// field to order by.
	// +required
	Field string `json:"field"`

	// order is asc or desc.
	// +optional
	// +kubebuilder:validation:Enum=asc;desc
	Order string `json:"order,omitempty"`
}

// FindingQuerySpec is a question over the findings of all reports. All that is given must hold.
type FindingQuerySpec struct {
	// filter is an expression over the fields of a finding, 4 KiB at most.
	// Example: "severity >= 'high' && cvss >= 8.0 && policy.startsWith('CVE-2024-')".
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Filter string `json:"filter,omitempty"`

	// where are comparisons that must all hold, for programs that do not want to write expressions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Where []Term `json:"where,omitempty"`

	// kinds to look into: reports, vulnerabilityreports. Absent: both.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=reports;vulnerabilityreports
	Kinds []string `json:"kinds,omitempty"`

	// includeSuppressed also counts findings that an exception accepts.
	// +optional
	IncludeSuppressed bool `json:"includeSuppressed,omitempty"`

	// since keeps findings that were seen first within this time. Example: "168h".
	// +optional
	Since *metav1.Duration `json:"since,omitempty"`

	// after keeps findings that were seen first after this time.
	// +optional
	After *metav1.Time `json:"after,omitempty"`

	// before keeps findings that were seen first before this time.
	// +optional
	Before *metav1.Time `json:"before,omitempty"`

	// firstSeenAfter is the same as after.
	// +optional
	FirstSeenAfter *metav1.Time `json:"firstSeenAfter,omitempty"`

	// images keeps findings of these images.
	// +optional
	Images *ImagesQuery `json:"images,omitempty"`

	// vulnerability keeps findings of this identifier. Example: "CVE-2021-44228".
	// +optional
	Vulnerability string `json:"vulnerability,omitempty"`

	// package keeps findings of this package.
	// +optional
	Package *PackageQuery `json:"package,omitempty"`

	// fixable keeps findings that a newer version fixes (true), or does not (false).
	// +optional
	Fixable *bool `json:"fixable,omitempty"`

	// groupBy counts by up to three of: namespace, severity, result, policy, rule, category, source, day,
	// firstSeenDay, resourceKind, resource, digest.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=namespace;severity;result;policy;rule;category;source;day;firstSeenDay;resourceKind;resource;digest
	GroupBy []string `json:"groupBy,omitempty"`

	// aggregate is what is computed for a group. Absent: count.
	// +optional
	// +kubebuilder:validation:Enum=count;countDistinctResources;maxScore;meanTimeToFix;new;fixed
	Aggregate string `json:"aggregate,omitempty"`

	// trend asks for open results per day, by severity, instead of groupBy.
	// +optional
	Trend *TrendQuery `json:"trend,omitempty"`

	// sort orders the answer. Absent: groups by count, rows by severity, score and key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Sort []SortKey `json:"sort,omitempty"`

	// limit is the most rows (1000) or groups (10000) of the answer. Absent: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Limit int32 `json:"limit,omitempty"`

	// continue is that of the status of the page before.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// ResourceRef is what a finding is about.
type ResourceRef struct {
	// kind of the resource.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace of the resource.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the resource.
	// +optional
	Name string `json:"name,omitempty"`
}

// FindingPackage is the installed package that a finding is about.
type FindingPackage struct {
	// type of the package. Example: "deb".
	// +optional
	Type string `json:"type,omitempty"`

	// version that is installed.
	// +optional
	Version string `json:"version,omitempty"`
}

// FindingRow is one finding of an answer.
type FindingRow struct {
	// namespace of the report.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// report that holds the finding.
	// +optional
	Report string `json:"report,omitempty"`

	// kind of the report.
	// +optional
	Kind string `json:"kind,omitempty"`

	// index of the finding in its report, from 0.
	// +optional
	Index *int32 `json:"index,omitempty"`

	// source is the program that made the finding.
	// +optional
	Source string `json:"source,omitempty"`

	// policy, or identifier of the vulnerability.
	// +optional
	Policy string `json:"policy,omitempty"`

	// rule, or package that has the vulnerability.
	// +optional
	Rule string `json:"rule,omitempty"`

	// category of the policy, or class of the package.
	// +optional
	Category string `json:"category,omitempty"`

	// severity: critical, high, medium, low or info.
	// +optional
	Severity string `json:"severity,omitempty"`

	// result: pass, fail, warn, error or skip.
	// +optional
	Result string `json:"result,omitempty"`

	// cvss is the score from 0 to 10.
	// +optional
	CVSS *float64 `json:"cvss,omitempty"`

	// message explains the finding to people.
	// +optional
	Message string `json:"message,omitempty"`

	// resource that the finding is about.
	// +optional
	Resource *ResourceRef `json:"resource,omitempty"`

	// target is what was scanned.
	// +optional
	Target string `json:"target,omitempty"`

	// image is the name of the Image, for findings of images.
	// +optional
	Image string `json:"image,omitempty"`

	// package that has the vulnerability, for findings of images; rule is its name.
	// +optional
	Package *FindingPackage `json:"package,omitempty"`

	// fixable says whether a newer version of the package fixes the finding, for findings of images.
	// +optional
	Fixable *bool `json:"fixable,omitempty"`

	// layer that brought the package, for findings of images.
	// +optional
	Layer *FindingLayer `json:"layer,omitempty"`

	// firstSeen is when the namespace saw the finding first.
	// +optional
	FirstSeen *metav1.Time `json:"firstSeen,omitempty"`

	// fixedAt is when the finding was no longer there.
	// +optional
	FixedAt *metav1.Time `json:"fixedAt,omitempty"`

	// openFor is how long the finding has been there, or was.
	// +optional
	OpenFor *metav1.Duration `json:"openFor,omitempty"`

	// timestamp is when the check was made.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`

	// suppressed says that an exception accepts the finding.
	// +optional
	Suppressed bool `json:"suppressed,omitempty"`

	// exception that matches the finding, as KIND/NAME. Example: "FindingException/lodash-template".
	// +optional
	Exception string `json:"exception,omitempty"`
}

// FindingGroup is one group of an answer.
type FindingGroup struct {
	// key holds the value of each field of groupBy.
	// +required
	Key map[string]string `json:"key"`

	// count of the group's findings; of a trend, those that were open at the end of the day.
	// +optional
	Count int64 `json:"count"`

	// distinctResources is how many resources the findings are about.
	// +optional
	DistinctResources *int64 `json:"distinctResources,omitempty"`

	// maxScore is the highest score of the group.
	// +optional
	MaxScore *float64 `json:"maxScore,omitempty"`

	// meanTimeToFix is how long the fixed findings of the group were open, on average.
	// +optional
	MeanTimeToFix *metav1.Duration `json:"meanTimeToFix,omitempty"`
}

// FindingQueryStatus is the answer. The server writes it.
type FindingQueryStatus struct {
	// asOf is the resourceVersion of the state that was asked.
	// +optional
	AsOf string `json:"asOf,omitempty"`

	// total is how many findings there are, where they are 10,000 at most.
	// +optional
	Total *int64 `json:"total,omitempty"`

	// totalAtLeast is a lower bound, where there are more.
	// +optional
	TotalAtLeast *int64 `json:"totalAtLeast,omitempty"`

	// rows are the findings, where groupBy and trend are absent.
	// +optional
	// +listType=atomic
	Rows []FindingRow `json:"rows,omitempty"`

	// groups are the counts of groupBy or trend.
	// +optional
	// +listType=atomic
	Groups []FindingGroup `json:"groups,omitempty"`

	// continue asks for the next page. Empty: this is the last one.
	// +optional
	Continue string `json:"continue,omitempty"`

	// tookMillis is how long the answer took.
	// +optional
	TookMillis int64 `json:"tookMillis,omitempty"`

	// plan is the table that answered: counts, daily, history or results.
	// +optional
	Plan string `json:"plan,omitempty"`
}

// FindingQuery asks about the findings of one namespace. Create one to ask; the answer is the
// created object with its status, and nothing is stored.
// +kubebuilder:object:root=true
type FindingQuery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	// +optional
	Spec FindingQuerySpec `json:"spec,omitempty"`

	// status is the answer.
	// +optional
	Status FindingQueryStatus `json:"status,omitempty"`
}

// ClusterFindingQuerySpec is a question over the findings of all namespaces.
type ClusterFindingQuerySpec struct {
	FindingQuerySpec `json:",inline"`

	// namespaces narrows the question to these. Absent: all.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// ClusterFindingQuery asks about the findings of all namespaces.
// +kubebuilder:object:root=true
type ClusterFindingQuery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	// +optional
	Spec ClusterFindingQuerySpec `json:"spec,omitempty"`

	// status is the answer.
	// +optional
	Status FindingQueryStatus `json:"status,omitempty"`
}
