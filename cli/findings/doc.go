// SPDX-License-Identifier: Apache-2.0

// Package findings has the commands that read the results of Scans: findings, diff and raw.
//
//	findings.json ──► filter ──► table: counted and the worst kept, then printed
//	   (stream)              ├─► json, jsonl, csv: printed as they come
//	                         └─► sarif, junit, html, markdown: counted first, then printed (findings/report)
//
// What it decides:
//
//   - A million findings need no more memory than a thousand: a table keeps as many rows as --limit says, and what is
//     printed in order of severity without a limit is read once for each severity.
//   - What findings say is text from a hostile world. Tables, CSV and Markdown never carry control characters; what goes
//     to a terminal carries none in any format.
//   - Filters take effect before everything else: counts, --fail-on and reports speak of what is left.
//   - What is new is what the previous run did not have: of the same ScheduledScan, or else of the same target, as
//     the operator tells its hooks.
package findings
