// SPDX-License-Identifier: Apache-2.0

// Package supervisor owns the processes of one local cluster. It decides the
// order in which components start, when each counts as ready, and how they end:
//
//	prepare (state, ports, certificates) ─► etcd + s3 ─► kube-apiserver
//	      ─► kube-controller-manager + node ─► ready ─► until down
//
// A component that ends by itself is reported and left down: a test that kills
// one wants to see what happens without it. Components are killed by the
// kernel when the supervisor goes, so none is ever left behind.
package supervisor
