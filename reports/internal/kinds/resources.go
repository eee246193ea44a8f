// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Category is what all resources are of: kubectl get scanyard.
const Category = "scanyard"

// Resource is something that is served.
type Resource struct {
	GroupVersion schema.GroupVersion
	Kind         string
	Plural       string
	ShortNames   []string
	Namespaced   bool
	Stored       *Stored
	// NewList makes an empty list of the internal version.
	NewList func() runtime.Object
	Columns []Column
	// Validate checks an object, ValidateUpdate what must not change.
	Validate       func(obj runtime.Object) field.ErrorList
	ValidateUpdate func(obj, old runtime.Object) field.ErrorList
	// Keep copies from the stored object what the group's version does not have; nil if the version has all.
	Keep func(obj, old runtime.Object)
	// Status says that the resource has the subresource status.
	Status bool
	// Accepts are other group versions that a body may have.
	Accepts []schema.GroupVersion
}

// Singular is the singular name.
func (r *Resource) Singular() string { return strings.ToLower(r.Kind) }

// GroupResource is the group and the plural name.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Plural}
}

// Table is what is served. Virtual resources, which are created but not stored, are not in it.
var Table = []Resource{
	{
		GroupVersion: WGPolicy, Kind: "PolicyReport", Plural: "policyreports", ShortNames: []string{"polr"}, Namespaced: true, Stored: Reports,
		NewList: func() runtime.Object { return &wgpolicyReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing, Keep: keepOfReport,
	},
	{
		GroupVersion: WGPolicy, Kind: "ClusterPolicyReport", Plural: "clusterpolicyreports", ShortNames: []string{"cpolr"}, Stored: ClusterReports,
		NewList: func() runtime.Object { return &wgpolicyClusterReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing, Keep: keepOfReport,
	},
	{
		GroupVersion: OpenReports, Kind: "Report", Plural: "reports", ShortNames: []string{"reps"}, Namespaced: true, Stored: Reports,
		NewList: func() runtime.Object { return &openreportsReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing,
	},
	{
		GroupVersion: OpenReports, Kind: "ClusterReport", Plural: "clusterreports", ShortNames: []string{"creps"}, Stored: ClusterReports,
		NewList: func() runtime.Object { return &openreportsClusterReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing,
	},
	{
		GroupVersion: Prext, Kind: "PolicyReport", Plural: "policyreports", Namespaced: true, Stored: Reports,
		NewList: func() runtime.Object { return &prextReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing, Keep: keepOfReport, Accepts: []schema.GroupVersion{WGPolicy},
	},
	{
		GroupVersion: Prext, Kind: "ClusterPolicyReport", Plural: "clusterpolicyreports", Stored: ClusterReports,
		NewList: func() runtime.Object { return &prextClusterReportList{} },
		Columns: reportColumns, Validate: validateReport, ValidateUpdate: nothing, Keep: keepOfReport, Accepts: []schema.GroupVersion{WGPolicy},
	},
	{
		GroupVersion: Scanyard, Kind: "Image", Plural: "images", ShortNames: []string{"img", "rimg"}, Namespaced: true, Stored: Images,
		NewList: func() runtime.Object { return &reportsv1.ImageList{} },
		Columns: imageTable, Validate: validateImage, ValidateUpdate: validateImageUpdate, Status: true,
	},
	{
		GroupVersion: Scanyard, Kind: "SBOM", Plural: "sboms", ShortNames: []string{"sbom", "rsbom"}, Namespaced: true, Stored: SBOMs,
		NewList: func() runtime.Object { return &reportsv1.SBOMList{} },
		Columns: sbomTable, Validate: validateSBOM, ValidateUpdate: validateSBOMUpdate, Keep: keepOfSBOM,
	},
	{
		GroupVersion: Scanyard, Kind: "VulnerabilityReport", Plural: "vulnerabilityreports", ShortNames: []string{"vulnr", "rvuln"}, Namespaced: true,
		Stored: VulnerabilityReports, NewList: func() runtime.Object { return &reportsv1.VulnerabilityReportList{} },
		Columns: vulnerabilityTable, Validate: validateVulnerabilityReport, ValidateUpdate: nothing, Keep: keepOfVulnerabilityReport,
	},
	{
		GroupVersion: Scanyard, Kind: "Repository", Plural: "repositories", ShortNames: []string{"rrepo"}, Namespaced: true, Stored: Repositories,
		NewList: func() runtime.Object { return &reportsv1.RepositoryList{} },
		Columns: repositoryTable, Validate: validateRepository, ValidateUpdate: validateRepositoryUpdate, Status: true,
	},
	{
		GroupVersion: Scanyard, Kind: "VulnerabilityDatabase", Plural: "vulnerabilitydatabases", Stored: Databases,
		NewList: func() runtime.Object { return &reportsv1.VulnerabilityDatabaseList{} },
		Columns: databaseTable, Validate: validateDatabase, ValidateUpdate: nothing, Status: true,
	},
}

func nothing(_, _ runtime.Object) field.ErrorList { return nil }

// keepOfReport keeps what only openreports.io has.
func keepOfReport(obj, old runtime.Object) {
	switch obj := obj.(type) {
	case *Report:
		if old, ok := old.(*Report); ok {
			obj.Source, obj.Configuration = old.Source, old.Configuration
		}
	case *ClusterReport:
		if old, ok := old.(*ClusterReport); ok {
			obj.Source, obj.Configuration = old.Source, old.Configuration
		}
	}
}

// keepOfSBOM keeps the document where a client sends back an object of a list, which does not hold it.
func keepOfSBOM(obj, old runtime.Object) {
	sbom, before := obj.(*reportsv1.SBOM), old.(*reportsv1.SBOM)
	if before.Spec.SBOM == nil && before.Spec.SBOMOmitted { // it was streamed, and is streamed to be replaced
		sbom.Spec.SBOM, sbom.Spec.SBOMOmitted = nil, true
		return
	}
	if sbom.Spec.SBOM == nil && sbom.Spec.SBOMOmitted {
		sbom.Spec.SBOM = before.Spec.SBOM
	}
	sbom.Spec.SBOMOmitted = false
}

func keepOfVulnerabilityReport(obj, old runtime.Object) {
	report, before := obj.(*reportsv1.VulnerabilityReport), old.(*reportsv1.VulnerabilityReport)
	report.Spec.CurrentAsOf = nil // is computed when it is read
	if before.Spec.ReportOmitted {
		report.Spec.Report, report.Spec.Findings, report.Spec.ReportOmitted = nil, nil, true
		return
	}
	if report.Spec.ReportOmitted && report.Spec.Report == nil && report.Spec.Findings == nil {
		report.Spec.Report, report.Spec.Findings = before.Spec.Report, before.Spec.Findings
	}
	report.Spec.ReportOmitted = false
}
