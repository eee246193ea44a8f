// SPDX-License-Identifier: Apache-2.0

// Package localcluster starts, controls and stops a whole Kubernetes cluster
// on one machine: etcd, kube-apiserver, the controllers that Jobs need, a node
// agent that runs pods as local processes, and an S3 server.
//
// The package is light on purpose: it never links Kubernetes' servers. They
// live in one separately built binary (cmd/localcluster), which this package
// runs and talks to:
//
//	test or person ──Start──► localcluster up (supervisor)
//	      │                        ├── etcd
//	      │   control.sock         ├── kube-apiserver
//	      └──Kill/Restart/Stop───► ├── kube-controller-manager
//	                               ├── node
//	                               └── s3
//
// Every component is a process of its own, so that a test can kill the API
// server and find its data again, or measure one part alone. All files live in
// one data directory; Stop removes what the start made and nothing else.
package localcluster
