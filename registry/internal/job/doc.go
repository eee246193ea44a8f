// SPDX-License-Identifier: Apache-2.0

// Package job decides over the life of a DiscoveryJob or a ScanJob. It is pure: what is seen and the time are arguments.
//
//	Observation ──Decide──► Decision: a step of the table, its conditions, whether items are let in, when to look again
//
//	(new) ─► Queued ─► Planning ─► Listing | Working ─► Succeeded | CompletedWithErrors | NothingToDo
//	             ╲────────┴── held ──┴─► Cancelled | DeadlineExceeded | RegistryNotFound | RegistryGone | Invalid | Failed
//
// What it decides:
//
//   - The rows stand in their order; the first one that fits is taken. What ends a job comes before what holds it, so that nothing
//     waits for something that will never come.
//   - What is in flight goes on while a job is held. Results belong to items, not to jobs.
//   - A job ends by what its items are, never by what somebody has counted up: a controller that begins anew comes to the same end.
package job
