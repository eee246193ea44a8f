// SPDX-License-Identifier: Apache-2.0

// Package marks has stored reports follow the exceptions: what an exception suppresses is a skip as soon as the exception
// holds, and is what it was as soon as the exception ends, without a new scan.
//
//	FindingExceptions, ClusterFindingExceptions, namespaces ─► Cluster ─┐
//	what is written ─► cursor of the log ───────────────────────────────┼► held ─► markOne ─► the report, written anew
//	time ───────────────────────────────────────────────────────────────┘
//
// What it decides:
//
//   - The report itself is marked, by the ordinary way of writing one. Its rows, counts and days follow in the same
//     transaction, and who watches reports sees an update.
//   - Reports of our hook are marked, of which the Scan is known, unless they say that exceptions are not for them. Results
//     of others are nobody's findings.
//   - VulnerabilityReports are marked in their rows, with their summary and that of their Image. What their findings say of an
//     exception beside its name is read with the findings.
//   - Nothing is listed for as long as nothing happens. A report that is written comes by the log. A namespace is gone through, page by page,
//     when the set of exceptions that hold in it has changed. All reports are looked at once at the beginning, when changes
//     are missing in the log, and every six hours.
//   - A result does not hold all of its finding. Where what is left does not tell whether an exception matches, the mark
//     that the hook has made stays for as long as its exception holds: see findings/policyreport.Remains. A finding of a
//     VulnerabilityReport is whole.
//   - Nothing is marked before all exceptions are known: an empty list that is none would open every finding.
//   - Of several replicas one marks: who holds the lease. Whoever loses the lease forgets what was marked.
package marks
