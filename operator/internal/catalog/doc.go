// SPDX-License-Identifier: Apache-2.0

// Package catalog finds the objects that a Scan needs: its scanner, its parser and its hooks.
//
// It is the only package that knows the difference between namespaced and Cluster* kinds. A Scan of
// resourceMode namespaceLocal uses the namespaced kinds of its namespace, a Scan of clusterWide the
// Cluster* kinds; the two never mix, and no other package asks which mode it is.
package catalog
