// SPDX-License-Identifier: Apache-2.0

// Package scan leads a Scan through its life. Each pass has three parts: observe reads
// what there is, package life decides what to do and what the status should be, and act
// does it.
//
//	observe ─► life.Observation ─► life.Decide ─► life.Decision ─► act
//
// Names of Jobs are derived from the Scan's UID, so that no pass, and no operator that was
// killed in the midst of one, starts a phase twice. Everything that act does may be done
// twice.
package scan
