// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of the API group reports.scanyard.io/v1alpha1, which the
// reports API server keeps in SQL: images of registries, what they are made of, which
// vulnerabilities that has, and questions over the findings of all reports.
//
// Image, SBOM and VulnerabilityReport are stored. The queries and ReportImport are not: to
// create one is to ask, and the answer is the created object with its status.
//
// +kubebuilder:object:generate=true
// +groupName=reports.scanyard.io
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.scanyard.reports.v1alpha1
package v1alpha1
