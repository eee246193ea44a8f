// SPDX-License-Identifier: Apache-2.0

// Package kubehunter is the parser of kube-hunter's JSON report, result type kube-hunter-json: one finding per
// vulnerability.
//
// What it decides:
//
//   - A vulnerability that was seen from inside a pod has no address of its own. It is located at the first node of the
//     type Node/Master, if the report names one. Nodes may stand behind the vulnerabilities, so the report is read
//     twice: once for that node, and once for the vulnerabilities, one at a time.
//   - Severities are in upper case, whatever the word. A vulnerability without a location or a severity makes the
//     report unreadable.
//   - A report without vulnerabilities holds none; an empty file is not a report.
package kubehunter
