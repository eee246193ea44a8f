// SPDX-License-Identifier: Apache-2.0

// Package scoped installs the operator for some namespaces of a cluster (the chart's
// watchNamespaces), with real Helm and RBAC, and shows that it works there with what the
// chart gives it, and nowhere else. The environment is that of package e2e.
package scoped
