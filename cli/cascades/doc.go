// SPDX-License-Identifier: Apache-2.0

// Package cascades has the commands about cascading Scans: tree, which shows which Scan was started by which, and
// cascade explain, which shows what findings would start.
//
// What it decides:
//
//   - A parent is the Scan that the annotation cascading.securecodebox.io/parent-scan names, if it is the one that owns
//     the child. A Scan whose parent is gone, or was replaced by another of its name, is a root with a remark.
//   - Annotations are text that any client may write: Scans that name each other in a circle are shown once, at the root.
//   - What would start is planned with the code that the hook cascading-scans runs (findings/cascade/explain).
package cascades
