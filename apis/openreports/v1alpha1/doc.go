// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of the API group openreports.io/v1alpha1, the successor
// of wgpolicyk8s.io: the same reports under shorter names, with the fields source and
// configuration more. Results and summary have the shape they have there, so they are the
// same types.
//
// +kubebuilder:object:generate=true
// +groupName=openreports.io
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.openreports.v1alpha1
package v1alpha1
