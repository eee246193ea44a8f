// SPDX-License-Identifier: Apache-2.0

// Package policyreport makes PolicyReports, or Reports of openreports.io, of findings: which result a finding is, which results are in one
// report, what a report says of its Scan, and which reports are replaced by it. Whoever writes them does so with these.
package policyreport
