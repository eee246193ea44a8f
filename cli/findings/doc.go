// SPDX-License-Identifier: Apache-2.0

// Package findings has the commands that read the results of Scans: findings, diff and raw.
//
//	findings.json ──► filter ──► table: counted and the worst kept, then printed
//	   (stream)              ├─► json, jsonl, csv: printed as they come
//	                         └─► sarif, junit, html, markdown: counted first, then printed (findings/report)
//
// What it decides:
//
//   - A million findings need no more memory than a thousand: a table keeps as many rows as --limit says, and output in
//     order of severity without a limit reads the findings once for each severity.
//   - Findings contain text from hostile systems. Tables, CSV and Markdown never carry control characters; output to a
//     terminal carries none in any format.
//   - Filters apply before everything else: counts, --fail-on and reports see only the remaining findings.
//   - A finding is new if the previous run did not have it: the run of the same ScheduledScan, or else of the same target,
//     that the operator hands to its hooks.
package findings
