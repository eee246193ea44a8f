// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of the API group settings.scanyard.io/v1alpha1: what a
// cluster admin bounds for all namespaces, and what a team sets inside of these bounds.
//
// There is one ClusterScanSetting and one ScanSetting in each namespace, all called
// "default". A field that is absent is inherited: from the ClusterScanSetting, else from
// the flags of the operator. Every field is therefore optional, and none has a default.
//
// The version is served and deprecated: v1alpha2 is the stored one, which has all that is here
// and result forwarding. The parts that both have are described here.
//
// +kubebuilder:object:generate=true
// +groupName=settings.scanyard.io
package v1alpha1
