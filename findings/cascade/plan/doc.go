// SPDX-License-Identifier: Apache-2.0

// Package plan decides which Scans a Scan's findings start: for each rule in turn, for each finding in turn that is in
// scope and matches, one child. For each rule that starts nothing it says why.
//
//	New(Scan, rules, …) ── Add(finding) … ──► Children(again the findings) ──► one child after another
//	                                                       └──► Outcomes, Err
//
// What it decides:
//
//   - Findings come as a stream and are not kept: a bit for each rule and finding is, and the findings that matched up to
//     [keep]. Where more matched, Children reads the findings again, as often as needed.
//   - A rule that is in the chain of the Scan already is not used again, so that no cascade goes in circles.
//   - A mistake in the scope fails everything before anything is started. A mistake in one rule fails that rule: the others
//     start what they start, and Err names it.
//   - The brakes of `spec.cascades`: beyond maxDepth no rule is used; of equal children one is started where
//     deduplicate is on; maxScans is counted by whoever creates, see [Budget].
//
// The package has no client, no clock and no environment: the hook and the explain command do the same.
package plan
