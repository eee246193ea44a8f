// SPDX-License-Identifier: Apache-2.0

// Package gitops holds what Scanyard shows of its objects' health against the tools that deliver them: the health checks for Argo CD in
// docs/gitops, run by the Lua interpreter that Argo CD has, and kstatus, by which Flux and Helm wait.
package gitops
