// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 holds the kinds of the API group wgpolicyk8s.io/v1alpha2 as the policy
// working group of Kubernetes published them: what a policy engine or a scanner found in one
// namespace, or in the cluster. The shapes are those of the published CRDs, so engines that
// write them and programs that read them need no change.
//
// Nothing has a default, and absent stays absent: numbers and booleans are pointers, so that
// a 0 that was sent is told apart from one that was not. An empty text counts as absent.
//
// +kubebuilder:object:generate=true
// +groupName=wgpolicyk8s.io
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.wgpolicyk8s.v1alpha2
package v1alpha2
