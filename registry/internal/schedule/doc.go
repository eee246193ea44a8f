// SPDX-License-Identifier: Apache-2.0

// Package schedule decides when the jobs of a Registry start and which ended ones go. It is pure: the time is an argument.
//
//	spec ──Read──► Timetable ──Decide(what was planned, now)──► start the job of a planned time | pass it over | the next time
//	ended jobs ──Expired──► those that go
//
// What it decides:
//
//   - A period counts from the creation of the Registry, a cron expression is read in the zone of the spec. So every planned time
//     can be told from the Registry alone, and the name of its job is made of both: a controller that dies between two writes
//     starts no second one.
//   - What was missed is made up for by one run.
//   - A job that is due while another of its kind waits or works is passed over.
//   - Jitter is a function of Registry and planned time. A job that comes due in a window starts when the window ends.
//   - The job of the newest planned time is never deleted by a history limit: its name tells that it has run.
package schedule
