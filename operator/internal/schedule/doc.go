// SPDX-License-Identifier: Apache-2.0

// Package schedule starts Scans from ScheduledScans, each run once and at its time.
//
//	          ┌─────────────── the last run ◄──────────────────┐
//	          ▼                                                 │
//	planned ─► due (jitter) ─► open (windows) ─► free (policy) ─► Scan created ─► recorded
//
// Each pass has three parts: observe reads what there is, decide says what to do and
// what the status should be, act does it. decide is a pure function: a table of rows, of
// which the first that applies is taken. Nothing polls: a pass is brought by a change or
// by the time at which something becomes due.
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
package schedule
