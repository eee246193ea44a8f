// SPDX-License-Identifier: Apache-2.0

// Package controlplane decides how etcd, kube-apiserver and
// kube-controller-manager are configured in a local cluster, and runs them
// from Kubernetes' own modules. Each function runs one component in the
// calling process until its context ends; the supervisor gives each a process
// of its own.
//
// The cluster is meant to be thrown away: etcd does not sync to disk, so its
// data survives a killed process and not a machine that loses power.
package controlplane
