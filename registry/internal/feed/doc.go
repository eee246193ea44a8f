// SPDX-License-Identifier: Apache-2.0

// Package feed decides which items of work are let in next. It is pure: what waits, what is in flight and the time are arguments.
//
//	heads of every namespace ──┐
//	in flight, windows, hosts ─┼─Next─► items to let in, Turns for the next call
//	Turns of the call before ──┘
//
// What it decides:
//
//   - Namespaces share by deficit round robin. In each round a namespace with something to do gets quantum × weight, and pays for
//     what is let in. The one that has most left of its share comes next, so that namespaces alternate within a round, too. A round
//     ends when nobody can pay for what it wants.
//   - What is left over is kept while the namespace has work, and dropped when it has none. One that comes back within a round has
//     had its share of that round.
//   - No item costs more than four quanta: nothing is too dear ever to be let in.
//   - Inside a namespace: interactive work before scheduled, but a scheduled item after four interactive ones; then the Registry's
//     priority, discovery before SBOM before match, the oldest first.
//   - Items that may not begin now are passed over, and hold nobody up.
package feed
