// SPDX-License-Identifier: Apache-2.0

// Package life decides what happens to a Scan.
//
//	(new) ─► Scanning ─► [ScanCompleted] ─► Parsing ─► [ParseCompleted] ─► HookProcessing ─► Done
//	   └──────────┴──────────────┴─────────────┴───────────────┴─────────────────┴────────► Errored
//
// The states in brackets are passed over unless something has to be waited for there.
//
// [Decide] is a pure function of an [Observation]: a table of rows, most final first, of
// which the first that applies is taken. The time is part of the observation, so that a
// test can walk through every state and everything that can be seen. The package has no
// client, no clock and no environment; lint holds that for the whole folder.
//
// Each row says what has to be read before it is taken. [NextNeed] goes through the rows
// and tells what that is, so that whoever observes has no order of his own, and reads
// nothing in vain.
//
// Progress is what the Jobs and the stored results show together with what the status
// says, and it only moves forward. Any of the three may be missing: Jobs go by their
// TTL, the status may be overwritten by a hook, and results appear last. [Believe] says
// what a restarted operator takes from a status that anybody may have written.
//
// A Scan that has ended may be asked to do a part of its work again. Every re-run has a
// number, which the Jobs that are made for it carry, with the annotation that asked for it:
// the Jobs of a later phase count only if their number is not lower than that of the
// earlier ones, so that what an old run has left is never taken for the present one.
// A Scan that is cancelled ends from any state; whatever still runs for it is deleted,
// whenever it shows up.
//
// Where to look: observation.go (what can be seen), decide.go (the table),
// needs.go (what rows have to know), running.go and
// hooks.go (rows of a Scan on its way), ending.go, cancel.go, rerun.go and afterwards.go
// (rows of its end), turn.go (the queue), rejected.go (a Job that was refused), status.go
// (the status in the making), job.go, pods.go and reported.go (what Jobs and pods tell).
package life
