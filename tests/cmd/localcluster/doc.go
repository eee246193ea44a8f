// SPDX-License-Identifier: Apache-2.0

// Command localcluster is a whole Kubernetes cluster on one machine: etcd,
// kube-apiserver, the controllers that Jobs need, a node agent that runs pods
// as local processes, and an S3 server.
//
// The name it is called by decides what it is: "etcd", "kube-apiserver" and
// "kubectl" are those programs, which is how envtest finds them; any other
// name is the command line described by "localcluster help".
package main
