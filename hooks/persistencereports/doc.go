// SPDX-License-Identifier: Apache-2.0

// Package persistencereports is the ReadOnly hook persistence-reports: it writes the findings of a Scan as PolicyReports
// (or Reports of openreports.io), which the reports API server keeps, or CRDs do.
//
//	findings, as a stream ─► results ─► chunks ─┬─ 1st pass: how many chunks, and their digest
//	                                            └─ 2nd pass: one report a chunk, by server-side apply ─► what is obsolete goes
//
// What it decides:
//
//   - Names, chunks and contents are functions of the Scan and its findings. A Job that is started again writes the same
//     reports, which changes nothing.
//   - Reports of an earlier run are deleted after those of this one are written: there is no time without reports. A
//     Scan of a ScheduledScan replaces the reports of the Scans before it, never those of a later one.
//   - A server that takes smaller bodies only makes the hook begin again with chunks of half the size.
//   - One chunk is in memory at a time.
package persistencereports
