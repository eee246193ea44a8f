// SPDX-License-Identifier: Apache-2.0

// Package reports has the commands for reports: PolicyReports, Reports, Images, SBOMs and VulnerabilityReports, as
// "scanyard reports" and, alone, as the plugin "kubectl prext".
//
//	word (polr, images …) ──► kind ──► the API, which a server or a CRD answers
//
// What it decides:
//   - The API alone is used, so that the commands work with the reports API server as well as with CRDs.
//   - Which kind a word means is a table here, not the cluster's discovery: the same words work where another group has a
//     resource of the same name.
//   - What a command prints on success is fixed, word by word, since scripts read it.
//   - YAML has four spaces and the order in which people read: apiVersion, kind, metadata, scope, summary, results.
package reports
