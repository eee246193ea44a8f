// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API group registry.scanyard.io/v1alpha1: what of a container registry is looked at.
//
// +kubebuilder:object:generate=true
// +groupName=registry.scanyard.io
package v1alpha1
