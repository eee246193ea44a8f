// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	openreportsv1 "github.com/scanyard/scanyard/apis/openreports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// Report is the internal version of PolicyReport and Report, with the fields of all groups.
type Report openreportsv1.Report

// DeepCopyObject implements runtime.Object.
func (r *Report) DeepCopyObject() runtime.Object {
	return (*Report)((*openreportsv1.Report)(r).DeepCopy())
}

// ClusterReport is the internal version of ClusterPolicyReport and ClusterReport, with the fields of all groups.
type ClusterReport openreportsv1.ClusterReport

// DeepCopyObject implements runtime.Object.
func (r *ClusterReport) DeepCopyObject() runtime.Object {
	return (*ClusterReport)((*openreportsv1.ClusterReport)(r).DeepCopy())
}

// List is the internal version of a list. Group makes it another Go type in each group: k8s.io/apiserver takes the kind of
// a list from its type, and the kinds of lists have other names in other groups.
type List[Group, Item any, P object[Item]] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Item
}

// Groups of lists.
type (
	wgpolicyGroup    struct{}
	openreportsGroup struct{}
	prextGroup       struct{}
)

// object is a pointer to an item.
type object[Item any] interface {
	*Item
	runtime.Object
}

// DeepCopyObject implements runtime.Object.
func (l *List[Group, Item, P]) DeepCopyObject() runtime.Object {
	return &List[Group, Item, P]{TypeMeta: l.TypeMeta, ListMeta: copyMeta(&l.ListMeta), Items: copyItems[Item, P](l.Items)}
}

func copyMeta(in *metav1.ListMeta) metav1.ListMeta { return *in.DeepCopy() }

// copyItems copies items deeply.
func copyItems[Item any, P object[Item]](items []Item) []Item {
	if items == nil {
		return nil
	}
	copied := make([]Item, len(items))
	for i := range items {
		copied[i] = *P(&items[i]).DeepCopyObject().(P)
	}
	return copied
}

// PolicyReport is that of the group prext.demo, which has the fields of wgpolicyk8s.io.
type PolicyReport wgpolicyv1.PolicyReport

// DeepCopyObject implements runtime.Object.
func (r *PolicyReport) DeepCopyObject() runtime.Object {
	return (*PolicyReport)((*wgpolicyv1.PolicyReport)(r).DeepCopy())
}

// OpenAPIModelName names the type in OpenAPI.
func (PolicyReport) OpenAPIModelName() string { return prextModel + "PolicyReport" }

// PolicyReportList is a list of PolicyReports of prext.demo.
type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"` //nolint:modernize // the encoder that streams lists knows this tag only
	Items           []PolicyReport              `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *PolicyReportList) DeepCopyObject() runtime.Object {
	return &PolicyReportList{TypeMeta: l.TypeMeta, ListMeta: copyMeta(&l.ListMeta), Items: copyItems(l.Items)}
}

// OpenAPIModelName names the type in OpenAPI.
func (PolicyReportList) OpenAPIModelName() string { return prextModel + "PolicyReportList" }

// ClusterPolicyReport is that of the group prext.demo, which has the fields of wgpolicyk8s.io.
type ClusterPolicyReport wgpolicyv1.ClusterPolicyReport

// DeepCopyObject implements runtime.Object.
func (r *ClusterPolicyReport) DeepCopyObject() runtime.Object {
	return (*ClusterPolicyReport)((*wgpolicyv1.ClusterPolicyReport)(r).DeepCopy())
}

// OpenAPIModelName names the type in OpenAPI.
func (ClusterPolicyReport) OpenAPIModelName() string { return prextModel + "ClusterPolicyReport" }

// ClusterPolicyReportList is a list of ClusterPolicyReports of prext.demo.
type ClusterPolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"` //nolint:modernize // the encoder that streams lists knows this tag only
	Items           []ClusterPolicyReport       `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *ClusterPolicyReportList) DeepCopyObject() runtime.Object {
	return &ClusterPolicyReportList{TypeMeta: l.TypeMeta, ListMeta: copyMeta(&l.ListMeta), Items: copyItems(l.Items)}
}

// OpenAPIModelName names the type in OpenAPI.
func (ClusterPolicyReportList) OpenAPIModelName() string {
	return prextModel + "ClusterPolicyReportList"
}
