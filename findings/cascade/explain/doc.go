// SPDX-License-Identifier: Apache-2.0

// Package explain shows which Scans the findings of a Scan would start, and why cascading rules would start none. It
// plans with the code of the hook cascading-scans, and starts nothing. The hook's own command and the command line use
// it.
//
//	Question (Scan, findings, rules) ─► the rules that the hook would see ─► plan ─► Explanation (children, outcomes)
//
// What it decides:
//
//   - Rules that the hook would not use (of the other mode, of another namespace, not selected) are shown as well.
//   - What a file does not have (the UID, other Scans of the chain) is assumed, and a note says so.
package explain
