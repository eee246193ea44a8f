// SPDX-License-Identifier: Apache-2.0

// Package refs gathers the references of a finding.
//
// What it decides: a reference is there once, in the place where it came up first. A CVE comes with its page at the
// NVD, a CWE with its page at MITRE, a GHSA with its page at GitHub. A URL counts only if it is one of the web.
package refs
