// SPDX-License-Identifier: Apache-2.0

// Package plan decides when the runs of a ScheduledScan start.
//
//	          ┌─────────────── the last run ◄──────────────────┐
//	          ▼                                                 │
//	planned ─► due (jitter) ─► open (windows) ─► free (policy) ─► Scan created ─► recorded
//
// [Decide] is a pure function of an [Observation]: a table of rows, of which the first that
// applies is taken. The time is part of the observation. The package has no client, no clock
// and no environment; lint holds that for the whole folder.
//
// A run is known by the time for which it is planned, which follows from the last
// recorded run. Its Scan is named after that time: until the run is recorded every
// pass, of this operator or of its successor, arrives at the same name, and the API
// server keeps the second Scan out. Recording a run moves the last run forward, so that
// no name comes twice.
//
// Clients ask for a run by setting status.lastScheduleTime back. The time of the last
// run is therefore also kept in status.scanTypeHash, beside the digest of the ScanType:
// clients with the types of secureCodeBox leave it alone, whatever else they drop.
//
// Where to look: observation.go (what can be seen), decide.go (the table), decision.go (what
// is done), status.go (the status in the making), timetable.go and cron.go (when runs are
// planned), mark.go (what is recorded of the last run), child.go (the Scan of a run).
package plan
