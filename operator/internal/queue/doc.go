// SPDX-License-Identifier: Apache-2.0

// Package queue says which Scans run next.
//
//	Scans and Jobs, as watches show them ─┐
//	limits, as settings say (Feeder) ─────┼─► Queue ─► fair.State.Decide ─► wakes those whose turn it is
//	Kueue, where it is installed ─────────┘
//
// A Scan holds a slot from the creation of its scanner Job until it has ended. Which of those
// that wait gets the next one is decided in package fair, a pure function of what waits and
// runs, the limits and the time. Here is what keeps its listing true: each Scan is in one state,
// and a table says what may happen in it.
//
//	held ──► waiting ──► reserved ──► starting ──► running
//	            ▲            │            │
//	            └── parked ◄─┴────────────┘          delegated: Kueue holds its Jobs back
//
// A pass over a Scan has three verbs: Position looks and changes nothing, Reserve comes before
// its first Job is created, and Release after a pass in which the Scan did not begin.
//
// Where to look: state.go (states, events, transitions), entry.go (what is known of a Scan),
// queue.go (what happens to it), setup.go (the watches), runner.go (what goes on by itself:
// telling those who wait where they stand), limits.go, metrics.go.
package queue
