// SPDX-License-Identifier: Apache-2.0

// Package inventory asks the reports API what the items of a job are, and which of them wait.
//
//	job, Registry ──Discovery | Scan──► Found: sums for the job's status, heads of what waits, errors, warnings
//
// What it decides:
//
//   - Nothing is counted up. Each pass asks anew, so a controller that begins anew comes to the same sums.
//   - A DiscoveryJob begins with the catalogue. Its repositories are those of the Registry that the job narrows to, and one is done
//     when its status names the job. Images that an earlier job has left belong to the job, too.
//   - Whoever works has a lease. An item whose lease is over waits again: its worker is gone, and so may be its message.
package inventory
