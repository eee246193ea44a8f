// SPDX-License-Identifier: Apache-2.0

// Package release decides the next step of giving up the results of a Scan that every sink has. It is pure: what was observed,
// and what this pass has found out so far, come in; one step comes out.
//
//	Probe ─► Prove ─► Ask ─► DeleteReports ─► Release ─► Done
//	  └────────┴───────┴─────────┴──────────────┴─────► Keep (with a condition) or None
//
// Everything is observed anew before each step, and a pass that ends early leaves nothing to remember: the next one begins
// with Probe. Only after Release, which the operator judges by itself, is anything removed from storage.
package release
