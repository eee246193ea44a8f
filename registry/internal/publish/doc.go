// SPDX-License-Identifier: Apache-2.0

// Package publish makes a Scan of a Registry's findings when a job has changed a report, so that hooks, exceptions and forwarding see
// them without knowing registries.
//
//	ended jobs, Scans of the Registry, number of findings ──Decide──► a Scan, the condition FindingsPublished
//
// What it decides:
//
//   - One Scan at a time. Jobs that end while it runs are published together by one more Scan, that of the newest job.
//   - The condition's time is the end of the job that was published, so that a Scan that was deleted since is not made again.
//   - With publish: Changed each Scan has a target of its own: what is not in it is not fixed.
package publish
