// SPDX-License-Identifier: Apache-2.0

// Package fair decides which Scans may start now, and the positions of those that must wait.
//
// The decision is a pure function of the listed Scans, the limits and the time:
//
//	Scans that run ──┐
//	Scans that wait ─┼─► State ─► Decide ─► those that may start now, in order
//	Limits ──────────┘          └► Standings ─► place of each one that waits, and which limit holds it
//
// [State] keeps the listing in an order that makes decisions cheap, and nothing else: two States
// that list the same Scans decide the same, whatever changes led there.
//
// The rules, in this order:
//
//  1. No limit is ever exceeded: of the whole cluster, of the namespace, of the scan type and of
//     each value of a label, for the cluster and for the namespace.
//  2. No slot stays free while a waiting Scan fits into it: a Scan whose scan type is at its limit
//     is passed over, and takes its turn when the scan type has a free slot.
//  3. The Scan that has waited longest of all, and longer than [Patience], goes first. Only one
//     Scan started by this rule runs at a time, so that a long queue of one namespace does not
//     push the others aside.
//  4. The namespace goes first that would use least, for its weight, with one more slot; between
//     equal namespaces the one whose next Scan is oldest.
//  5. Within a namespace the oldest Scan goes first, or, where the settings say so, the Scan of the
//     highest priority.
//
// Rules 4 and 5 look at what runs now and keep no account of the past: an idle namespace saves
// nothing up, and a restarted operator decides as the one before. Rule 3 makes sure that every
// Scan starts in the end: whatever other Scans come and go, each Scan is the oldest one at some
// time. (One exception: a Scan that needs room in two limits, each of which has room only while
// the other one has none.)
package fair
