// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	openreportsv1 "github.com/scanyard/scanyard/apis/openreports/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// Group versions that are served.
var (
	WGPolicy    = wgpolicyv1.SchemeGroupVersion
	OpenReports = openreportsv1.SchemeGroupVersion
	Scanyard    = reportsv1.SchemeGroupVersion
	Prext       = schema.GroupVersion{Group: "prext.demo", Version: "v1alpha1"}
)

// prextModel is what names of prext.demo begin with in OpenAPI.
const prextModel = "demo.prext.v1alpha1."

// Internal lists of each group.
type (
	wgpolicyReportList           = List[wgpolicyGroup, Report, *Report]
	wgpolicyClusterReportList    = List[wgpolicyGroup, ClusterReport, *ClusterReport]
	openreportsReportList        = List[openreportsGroup, Report, *Report]
	openreportsClusterReportList = List[openreportsGroup, ClusterReport, *ClusterReport]
	prextReportList              = List[prextGroup, Report, *Report]
	prextClusterReportList       = List[prextGroup, ClusterReport, *ClusterReport]
)

func internal(gv schema.GroupVersion) schema.GroupVersion {
	return schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
}

// NewScheme makes a scheme with all kinds, in the versions that are served and in the internal one of each group.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		wgpolicyv1.AddToScheme, openreportsv1.AddToScheme, reportsv1.AddToScheme, addPrext, addInternal, addConversions, addFieldLabels,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, core)
	scheme.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme, nil
}

func addPrext(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Prext, &PolicyReport{}, &PolicyReportList{}, &ClusterPolicyReport{}, &ClusterPolicyReportList{})
	metav1.AddToGroupVersion(scheme, Prext)
	return nil
}

func addInternal(scheme *runtime.Scheme) error {
	for _, kind := range []struct {
		gv   schema.GroupVersion
		kind string
		obj  runtime.Object
	}{
		{WGPolicy, "PolicyReport", &Report{}},
		{WGPolicy, "PolicyReportList", &wgpolicyReportList{}},
		{WGPolicy, "ClusterPolicyReport", &ClusterReport{}},
		{WGPolicy, "ClusterPolicyReportList", &wgpolicyClusterReportList{}},
		{OpenReports, "Report", &Report{}},
		{OpenReports, "ReportList", &openreportsReportList{}},
		{OpenReports, "ClusterReport", &ClusterReport{}},
		{OpenReports, "ClusterReportList", &openreportsClusterReportList{}},
		{Prext, "PolicyReport", &Report{}},
		{Prext, "PolicyReportList", &prextReportList{}},
		{Prext, "ClusterPolicyReport", &ClusterReport{}},
		{Prext, "ClusterPolicyReportList", &prextClusterReportList{}},
	} {
		scheme.AddKnownTypeWithName(internal(kind.gv).WithKind(kind.kind), kind.obj)
	}
	// Nothing is served in another version than the one that is stored.
	scheme.AddKnownTypes(internal(Scanyard),
		&reportsv1.Image{}, &reportsv1.ImageList{}, &reportsv1.SBOM{}, &reportsv1.SBOMList{},
		&reportsv1.VulnerabilityReport{}, &reportsv1.VulnerabilityReportList{},
		&reportsv1.Repository{}, &reportsv1.RepositoryList{}, &reportsv1.VulnerabilityDatabase{}, &reportsv1.VulnerabilityDatabaseList{},
		&reportsv1.ImageQuery{}, &reportsv1.FindingQuery{}, &reportsv1.ClusterFindingQuery{}, &reportsv1.ReportImport{})
	return nil
}

// add registers a conversion. What is converted shares its memory with what it was converted from.
func add[In, Out any](scheme *runtime.Scheme, convert func(in *In, out *Out)) error {
	return scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
		convert(in.(*In), out.(*Out))
		return nil
	})
}

// each converts the items of a list. They name their kind, as those of CRDs do.
func each[In, Out any, P object[Out]](in []In, kind schema.GroupVersionKind, convert func(in *In, out *Out)) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		convert(&in[i], &out[i])
		P(&out[i]).GetObjectKind().SetGroupVersionKind(kind)
	}
	return out
}

func addConversions(scheme *runtime.Scheme) error {
	for _, err := range []error{
		add(scheme, fromWGPolicy), add(scheme, toWGPolicy), add(scheme, fromWGPolicyCluster), add(scheme, toWGPolicyCluster),
		add(scheme, fromOpenReports), add(scheme, toOpenReports), add(scheme, fromOpenReportsCluster), add(scheme, toOpenReportsCluster),
		add(scheme, fromPrext), add(scheme, toPrext), add(scheme, fromPrextCluster), add(scheme, toPrextCluster),
		add(scheme, func(in *wgpolicyReportList, out *wgpolicyv1.PolicyReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, WGPolicy.WithKind("PolicyReport"), toWGPolicy)
		}),
		add(scheme, func(in *wgpolicyClusterReportList, out *wgpolicyv1.ClusterPolicyReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, WGPolicy.WithKind("ClusterPolicyReport"), toWGPolicyCluster)
		}),
		add(scheme, func(in *openreportsReportList, out *openreportsv1.ReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, OpenReports.WithKind("Report"), toOpenReports)
		}),
		add(scheme, func(in *openreportsClusterReportList, out *openreportsv1.ClusterReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, OpenReports.WithKind("ClusterReport"), toOpenReportsCluster)
		}),
		add(scheme, func(in *prextReportList, out *PolicyReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, Prext.WithKind("PolicyReport"), toPrext)
		}),
		add(scheme, func(in *prextClusterReportList, out *ClusterPolicyReportList) {
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, Prext.WithKind("ClusterPolicyReport"), toPrextCluster)
		}),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func fromWGPolicy(in *wgpolicyv1.PolicyReport, out *Report) {
	out.ObjectMeta, out.Scope, out.ScopeSelector, out.Summary, out.Results = in.ObjectMeta, in.Scope, in.ScopeSelector, in.Summary, in.Results
}

func toWGPolicy(in *Report, out *wgpolicyv1.PolicyReport) {
	out.ObjectMeta, out.Scope, out.ScopeSelector, out.Summary, out.Results = in.ObjectMeta, in.Scope, in.ScopeSelector, in.Summary, in.Results
}

func fromWGPolicyCluster(in *wgpolicyv1.ClusterPolicyReport, out *ClusterReport) {
	out.ObjectMeta, out.Scope, out.ScopeSelector, out.Summary, out.Results = in.ObjectMeta, in.Scope, in.ScopeSelector, in.Summary, in.Results
}

func toWGPolicyCluster(in *ClusterReport, out *wgpolicyv1.ClusterPolicyReport) {
	out.ObjectMeta, out.Scope, out.ScopeSelector, out.Summary, out.Results = in.ObjectMeta, in.Scope, in.ScopeSelector, in.Summary, in.Results
}

func fromOpenReports(in *openreportsv1.Report, out *Report) { *out = Report(*in) }
func toOpenReports(in *Report, out *openreportsv1.Report)   { *out = openreportsv1.Report(*in) }
func fromPrext(in *PolicyReport, out *Report)               { fromWGPolicy((*wgpolicyv1.PolicyReport)(in), out) }

func toPrext(in *Report, out *PolicyReport) { toWGPolicy(in, (*wgpolicyv1.PolicyReport)(out)) }

func fromOpenReportsCluster(in *openreportsv1.ClusterReport, out *ClusterReport) {
	*out = ClusterReport(*in)
}

func toOpenReportsCluster(in *ClusterReport, out *openreportsv1.ClusterReport) {
	*out = openreportsv1.ClusterReport(*in)
}

func fromPrextCluster(in *ClusterPolicyReport, out *ClusterReport) {
	fromWGPolicyCluster((*wgpolicyv1.ClusterPolicyReport)(in), out)
}

func toPrextCluster(in *ClusterReport, out *ClusterPolicyReport) {
	toWGPolicyCluster(in, (*wgpolicyv1.ClusterPolicyReport)(out))
}
