// SPDX-License-Identifier: Apache-2.0

// Package schedule starts Scans from ScheduledScans, each run once and at its time.
//
// Each pass has three parts: observe reads what there is, package plan decides what to do and
// what the status should be, act does it. Nothing polls: a pass is brought by a change or
// by the time at which something becomes due.
package schedule
