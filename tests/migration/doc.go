// SPDX-License-Identifier: Apache-2.0

// Package migration moves reports on a whole cluster: CRDs with reports in etcd, the reports API server behind
// kube-apiserver, a writer, an informer, and "scanyard reports migrate" that is interrupted again and again.
package migration
