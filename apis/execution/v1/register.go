// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of every kind in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: "execution.securecodebox.io", Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme makes the kinds of this package known to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

// Resource qualifies a plural resource name with this package's group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Scan{}, &ScanList{},
		&ScheduledScan{}, &ScheduledScanList{},
		&ScanType{}, &ScanTypeList{},
		&ClusterScanType{}, &ClusterScanTypeList{},
		&ParseDefinition{}, &ParseDefinitionList{},
		&ClusterParseDefinition{}, &ClusterParseDefinitionList{},
		&ScanCompletionHook{}, &ScanCompletionHookList{},
		&ClusterScanCompletionHook{}, &ClusterScanCompletionHookList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
