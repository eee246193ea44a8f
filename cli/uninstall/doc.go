// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes an installation away in the order that leaves nothing hanging.
//
//	read ─► Inventory ─► plan ─► steps ─► print, or act on those that can be done now
//
// The order is the point: an operator that is gone cannot remove results, and a Scan with a finalizer then stays for ever.
// Helm's releases are Helm's: the command names what to type, and goes on when it is called again.
package uninstall
