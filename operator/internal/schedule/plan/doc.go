// SPDX-License-Identifier: Apache-2.0

// Package plan decides when the runs of a ScheduledScan start.
//
//	          ┌─────────────── the last run ◄──────────────────┐
//	          ▼                                                 │
//	planned ─► due (jitter) ─► open (windows) ─► free (policy) ─► Scan created ─► recorded
//
// [Decide] is a pure function of an [Observation]: a table of rows, of which the first one that applies
// is taken. The time is part of the observation. The package has no client, no clock and no
// environment; lint holds this rule for the whole folder.
//
// A run is identified by the time for which it is planned, which follows from the last recorded run.
// Its Scan is named after that time: until the run is recorded, every pass, of this operator or of its
// successor, computes the same name, and the API server refuses a second Scan. Recording a run moves
// the last run forward, so that no name is used twice.
//
// Clients request a run by setting status.lastScheduleTime back. The time of the last run is therefore
// also kept in status.scanTypeHash, beside the digest of the ScanType: clients with the types of
// secureCodeBox do not change that field, whatever else they drop.
//
// Where to look: observation.go (the input), decide.go (the table), decision.go (the actions), status.go
// (the new status), timetable.go and cron.go (when runs are planned), mark.go (what is recorded of the
// last run), child.go (the Scan of a run).
package plan
