// SPDX-License-Identifier: Apache-2.0

// Package decisions hands what the operator has decided to an exporter beside it: what admission refused, and what became of Scans.
//
//	webhook, scan, results ──► Log ──record──► decision.Client ──socket──► exporter
//	                                              │ full: dropped and counted
//
// What it decides:
//
//   - A record is made after the fact: after the status was written, the Job created, the answer decided. What was not written is not a decision.
//   - Nobody waits for the exporter. What does not fit into the buffer is dropped, and scanyard_decisions_dropped_total says so.
//   - A record never holds what may be a secret: the values of environment variables, data and stringData, the texts of patches, and the
//     copy of the object that kubectl keeps in an annotation are left out.
//   - A nil Log is not an exporter. Its methods do nothing, and allocate nothing.
package decisions
