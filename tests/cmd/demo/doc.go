// SPDX-License-Identifier: Apache-2.0

// Command demo shows Scanyard at work on this machine: it starts a whole local
// cluster, installs the operator and scanners with Helm, runs six scans, shows
// what happens to them and ends with a table of their findings.
//
//	demo         the six scans; exit code 0 only if each ends as it should
//	demo up      a cluster with everything installed, to play with
//	demo down    removes that cluster
package main
