// SPDX-License-Identifier: Apache-2.0

// Package queue decides which Scans run next.
//
//	Scans and Jobs, as watches show them ─┐
//	limits, as settings say (Feeder) ─────┼─► Queue ─► fair.State.Decide ─► wakes those whose turn it is
//	Kueue, where it is installed ─────────┘
//
// A Scan holds a slot from the creation of its scanner Job until the Scan has ended. Package fair
// decides which waiting Scan gets the next slot: a pure function of the waiting and running Scans,
// the limits and the time. This package keeps the listing for that decision up to date: each Scan
// is in one state, and a table lists the events that are possible in each state.
//
//	held ──► waiting ──► reserved ──► starting ──► running
//	            ▲            │            │
//	            └── parked ◄─┴────────────┘          delegated: Kueue holds its Jobs back
//
// A pass over a Scan has three verbs: Position reads and changes nothing, Reserve comes before
// the first Job is created, and Release comes after a pass in which the Scan did not begin.
//
// Where to look: state.go (states, events, transitions), entry.go (what the Queue knows of a Scan),
// queue.go (how events change a Scan), setup.go (the watches), runner.go (the loop that opens the
// Queue and reports positions to waiting Scans), limits.go, metrics.go.
package queue
