// SPDX-License-Identifier: Apache-2.0

// Package fleet hands what a receiver holds to the reports API of a cluster, so that one cluster answers for all.
//
//	Scans that are complete ─► rule: whose, and into which namespace ─► reports, by server-side apply ─► what is obsolete goes
//
// What it decides:
//
//   - Only what a sender has proved counts: a rule names the authority, and without a rule nothing is written. Names of reports are made of
//     authority, cluster, tenant and UID, so that no sender gets at what another one has sent.
//   - Names, chunks and contents are functions of what is stored. A receiver that begins anew writes the same reports, which changes nothing.
//   - Of a Scan the highest revision that is complete is shown.
package fleet
