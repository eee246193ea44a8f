// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 holds the kinds of the API group settings.scanyard.io/v1alpha2, which is the stored version: what a
// cluster admin bounds for all namespaces, and what a team sets inside of these bounds.
//
// There is one ClusterScanSetting and one ScanSetting in each namespace, all called "default". A field that is absent is
// inherited: from the ClusterScanSetting, else from the flags of the operator. Every field is therefore optional, and
// none has a default.
//
// The version has every field of v1alpha1 in its place, and spec.resultForwarding and status.sinks beside them. So the
// two can be converted without loss: see convert.go, and docs/decisions/2026-11-23-settings-v1alpha2.md for why.
//
// +kubebuilder:object:generate=true
// +groupName=settings.scanyard.io
package v1alpha2
