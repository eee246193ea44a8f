// SPDX-License-Identifier: Apache-2.0

// Package validity decides what the status of an exception says. The package has no client, no clock and no
// environment; lint holds that for the whole folder.
//
//	Observation ─► Decide ─► Decision: the status to write, the Events to send, when to look again
//
// What it decides:
//
//   - Active is False with reason Expired, NotYet or Invalid. An exception that does not compile was stored before an
//     upgrade, or while no webhook could refuse it; it matches nothing and fails no Scan.
//   - ExpiresSoon is True from 14 days before the end, with an Event when that begins.
//   - Stamped says whether it is known who made the exception and who changed it last.
//   - matched adds up what the latest Scan of each target says of the exception.
//   - The next pass is at the next time that changes one of these, never before.
package validity
