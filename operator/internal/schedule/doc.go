// SPDX-License-Identifier: Apache-2.0

// Package schedule creates Scans from ScheduledScans: each run once, and at its time.
//
// Each pass has three parts: observe reads objects, package plan decides what to do and computes the
// status, act carries the decision out. Nothing polls: a pass is started by a change or by the time at
// which something becomes due.
package schedule
