// SPDX-License-Identifier: Apache-2.0

// Package life decides what happens to a Scan.
//
//	(new) ─► Scanning ─► [ScanCompleted] ─► Parsing ─► [ParseCompleted] ─► HookProcessing ─► Done
//	   └──────────┴──────────────┴─────────────┴───────────────┴─────────────────┴────────► Errored
//
// A Scan stays in a state in brackets only if it waits for something there.
//
// [Decide] is a pure function of an [Observation]. It takes the first row that applies of a
// table of rows, most final first. The time is part of the observation, so that a test can
// walk every state and every observation. The package has no client, no clock and no
// environment; lint checks that for the whole folder.
//
// Each row names what has to be read before it is taken. [NextNeed] returns the next thing
// to read. So the observer needs no order of its own, and reads nothing that no row needs.
//
// Progress follows from the Jobs, the stored results and the status together, and it only
// moves forward. Each of the three may be missing: a TTL deletes Jobs, a hook may overwrite
// the status, and results appear last. [Believe] decides what a restarted operator takes
// from a status that any client may have written.
//
// A re-run repeats a part of the work of a Scan that has ended. Every re-run has a number;
// its Jobs carry the number and the annotation that asked for the re-run. Jobs of a later
// phase count only if their number is not lower than that of the earlier phases, so that
// Jobs of an old run never count for the present one. A cancelled Scan ends from any state;
// its Jobs are deleted, also those that appear later.
//
// Files: observation.go (what can be observed), decide.go (the table), needs.go (what rows
// need to know), running.go and hooks.go (rows of a running Scan), ending.go, cancel.go,
// rerun.go and afterwards.go (rows of its end), turn.go (the queue), rejected.go (a Job that
// was refused), status.go (builds the status), job.go, pods.go and reported.go (what Jobs
// and pods report).
package life
