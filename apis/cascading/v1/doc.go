// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the kinds of the API group cascading.securecodebox.io/v1: rules
// by which the findings of one Scan start further Scans.
//
// CascadingRule is the wire contract of OWASP secureCodeBox; ClusterCascadingRule is
// an addition with the same spec for Scans of resourceMode clusterWide.
//
// +kubebuilder:object:generate=true
// +groupName=cascading.securecodebox.io
package v1
