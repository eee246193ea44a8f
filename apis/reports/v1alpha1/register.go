// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of every kind in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "reports.scanyard.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme makes the kinds of this package known to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Image{}, &ImageList{},
		&SBOM{}, &SBOMList{},
		&VulnerabilityReport{}, &VulnerabilityReportList{},
		&Repository{}, &RepositoryList{},
		&VulnerabilityDatabase{}, &VulnerabilityDatabaseList{},
		&ImageQuery{},
		&FindingQuery{},
		&ClusterFindingQuery{},
		&ReportImport{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
