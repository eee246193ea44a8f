// SPDX-License-Identifier: Apache-2.0

// Package fair decides which Scans may start now, and where those that may not stand.
//
// The decision is a pure function of the listed Scans, the limits and the time:
//
//	Scans that run ──┐
//	Scans that wait ─┼─► State ─► Decide ─► those that may start now, in order
//	Limits ──────────┘          └► Standings ─► place of each one that waits, and which limit holds it
//
// [State] keeps the listing in an order that makes decisions cheap, and nothing else:
// two States that were told of the same Scans, in whatever order and over whatever
// changes, decide the same.
//
// The rules, in this order:
//
//  1. No limit is ever passed: of the whole cluster, of the namespace, of the scan type
//     and of each value of a label, for the cluster and for the namespace.
//  2. No room is left while a Scan waits that fits into it: a Scan whose scan type is at
//     its limit is passed over, and takes its turn when that has room.
//  3. The Scan that has waited longest of all, and longer than [Patience], goes first. Only
//     one Scan that came to its turn like this runs at a time, so that a long queue of one
//     namespace does not push the others aside.
//  4. The namespace goes first that would have least, for its weight, if it were given the
//     slot; of equal ones that whose next Scan is oldest.
//  5. Within a namespace the oldest Scan goes first, or, where its settings say so, that of
//     the highest priority.
//
// Rules 4 and 5 look at what runs now and keep no account of the past: a namespace that
// was idle does not save up, and a restarted operator decides as the one before. Rule 3
// is what makes sure that everything starts in the end: however others come and go, a
// Scan becomes the oldest one some time. (Only one that needs room in two limits that are
// both taken again at once, each at another moment, finds no moment for itself.)
package fair
