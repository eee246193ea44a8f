// SPDX-License-Identifier: Apache-2.0

// Package feeder lets work in: it asks feed who is next, and puts messages into the queue.
//
//	jobs ──Offer: what waits──►┌────────┐──feed.Next──► queue ─► workers
//	workers ──hello, done────► │ Feeder │
//	                           └────────┘──Woken: jobs to look at again
//
// What it decides:
//
//   - What waits is told by jobs, from the reports API; the Feeder remembers only what it has let in. A Feeder that begins anew lets
//     in once more, and workers pass over what is done.
//   - The window of a step is twice the slots of the workers that have spoken in the last 30 s: the queue holds seconds of work.
//   - What a worker never told the end of is in flight until its consumer has nothing waiting and nothing taken.
//   - A host that asks for a pause gets it from all namespaces. A Registry that refuses is left alone until its spec changes or a time
//     has passed.
package feeder
