// SPDX-License-Identifier: Apache-2.0

// Package queue carries work from the controller to workers, over NATS JetStream. It is the only room that knows NATS.
//
//	controller ──Put──► stream SCANYARD_REGISTRY ──one at a time──► worker ──Done/InProgress/Dead──► gone, or delivered again
//	           ◄──────── done, worker.<name> (core) ───────────────┘
//	           ─────────ctl.{cancel,limits} (core)────────────────►
//
// What it decides:
//
//   - A message is a hint: names and no more. Losing one costs time, doubling one costs a read; the reports API has the truth. So the
//     embedded server keeps its streams in memory.
//   - A stream that is found with other settings is reported and not changed: somebody else may rely on it.
//   - The workers' account may take work, acknowledge it, and say done, worker and dead; it cannot put work.
//   - A message that cannot be read, or that was delivered ten times, goes to the dead letters with the reason, and leaves the work queue.
package queue
