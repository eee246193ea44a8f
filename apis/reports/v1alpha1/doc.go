// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of the API group reports.scanyard.io/v1alpha1, which the
// reports API server keeps in SQL: repositories and images of registries, what they are made of,
// which vulnerabilities that has, the data they were matched against, and questions over all of it.
//
// Repository, Image, SBOM, VulnerabilityReport and VulnerabilityDatabase are stored. The queries
// and ReportImport are not: to create one is to ask, and the answer is the created object with
// its status. Large documents are sub-resources that are streamed; upload_types.go has what is
// sent with them.
//
// +kubebuilder:object:generate=true
// +groupName=reports.scanyard.io
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.scanyard.reports.v1alpha1
package v1alpha1
