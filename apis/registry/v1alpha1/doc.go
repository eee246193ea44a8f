// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API group registry.scanyard.io/v1alpha1: which registries are looked at and what of them, and
// the jobs that look.
//
// Images, SBOMs and vulnerability reports, which come of it, are kinds of reports.scanyard.io/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=registry.scanyard.io
package v1alpha1
