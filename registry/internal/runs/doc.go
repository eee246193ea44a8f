// SPDX-License-Identifier: Apache-2.0

// Package runs runs DiscoveryJobs and ScanJobs: observe (the API server, the reports API), job.Decide (pure), act (status, the Feeder).
//
//	DiscoveryJob | ScanJob ──observe──► job.Observation ──Decide──► job.Decision ──act──► status, Offer or Withdraw, the Registry's sums
//
// What it decides:
//
//   - What holds a job, and in which order: a Registry that is not Ready, a window, an adapter without data, a host that is paused.
//   - Sums are written when they change, at most every 5 s; conditions are written at once.
//   - What the end of a job says of its Registry: when it was last discovered and scanned, its images, its vulnerabilities.
//   - A dry run asks one worker, and keeps the answer in its status only.
package runs
