// SPDX-License-Identifier: Apache-2.0

// Package boards has the pages of boards: filters of other pages under names, each shown in short.
//
//	"Keep" on a list ─► own board, in the browser ─► shared: a ConfigMap of a namespace, which can be in Git
//
// What it decides:
//
//   - A ConfigMap with the label scanyard.io/board is a board: of its team, where the value is team, and looks at its namespace
//     then; of everybody who may read it, where the value is cluster, and looks where its viewer looks.
//   - A filter is an address of a page of the console; no other address is one. What is behind it is read with the rights of
//     the viewer.
package boards
