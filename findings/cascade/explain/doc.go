// SPDX-License-Identifier: Apache-2.0

// Package explain tells which Scans the findings of a Scan would start, and why cascading rules would start none. It
// plans with the code that the hook cascading-scans runs, and starts nothing. The hook's own command and the command
// line answer with it.
//
//	Question (Scan, findings, rules) ─► the rules that the hook would see ─► plan ─► Explanation (children, outcomes)
//
// What it decides:
//
//   - Rules that the hook would not look at (of the other mode, of another namespace, not selected) are told of as well.
//   - What a file cannot know (the UID, other Scans of the chain) is assumed, and said in a note.
package explain
