// SPDX-License-Identifier: Apache-2.0

// Package scan leads a Scan through its life. Each pass has three parts: observe reads objects,
// package life decides what to do and computes the status, and act carries the decision out.
//
//	observe ─► life.Observation ─► life.Decide ─► life.Decision ─► act
//
// Names of Jobs are derived from the Scan's UID: no pass starts a phase twice, and neither does an
// operator that is killed during a pass. All actions of act are idempotent.
package scan
