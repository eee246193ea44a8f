// SPDX-License-Identifier: Apache-2.0

// Package catalog finds what a Scan needs: its scanner, its parser and its hooks.
//
// It is the only place that knows the difference between namespaced and Cluster*
// kinds. A Scan of resourceMode namespaceLocal sees the namespaced kinds of its
// namespace, one of clusterWide the Cluster* kinds; the two never mix, and nothing
// after this package asks which it was.
package catalog
