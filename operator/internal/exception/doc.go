// SPDX-License-Identifier: Apache-2.0

// Package exception says on each FindingException and ClusterFindingException whether it holds.
//
//	exception + time ──► Decide ──► conditions Active and ExpiresSoon, Events, when to look again
//
// What it decides:
//
//   - Active is False with reason Expired, NotYet or Invalid. What does not compile was stored before an upgrade, or while
//     no webhook could refuse it; it matches nothing and fails no Scan.
//   - ExpiresSoon is True from 14 days before the end on, with an Event when that begins.
//   - A time that comes is looked at when it comes: nothing is asked again and again.
//   - status.matched adds up what the latest Scan of each target says of the exception, as far as the Scans are there; those
//     that name too many exceptions leave some out. It is counted anew when such a Scan ends or goes.
package exception
