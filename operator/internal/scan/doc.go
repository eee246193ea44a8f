// SPDX-License-Identifier: Apache-2.0

// Package scan leads a Scan through its life.
//
//	(new) ─► Scanning ─► [ScanCompleted] ─► Parsing ─► [ParseCompleted] ─► HookProcessing ─► Done
//	   └──────────┴──────────────┴─────────────┴───────────────┴─────────────────┴────────► Errored
//
// The states in brackets are passed over unless something has to be waited for
// there. Each pass has three parts: observe reads what there is, decide says what to
// do and what the status should be, act does it. decide is a pure function: a table
// of rows, most final first, of which the first that applies is taken.
//
// Progress is what the Jobs and the stored results show together with what the status
// says, and it only moves forward. Any of the three may be missing: Jobs go by their
// TTL, the status may be overwritten by a hook, and results appear last. Names of Jobs
// are derived from the Scan's UID, so that no pass, and no operator that was killed in
// the midst of one, starts a phase twice.
//
// A Scan that has ended may be asked to do a part of its work again. Every re-run has a
// number, which the Jobs that are made for it carry, with the annotation that asked for it:
// the Jobs of a later phase count only if their number is not lower than that of the
// earlier ones, so that what an old run has left is never taken for the present one.
// A Scan that is cancelled ends from any state; whatever still runs for it is deleted,
// whenever it shows up.
package scan
