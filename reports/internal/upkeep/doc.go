// SPDX-License-Identifier: Apache-2.0

// Package upkeep drops what has been kept for long enough. Of several replicas, the one does it that compacts.
//
//	compaction ─► Upkeep.Once ─► rows.Forget: days, first times, lives of findings
//	                         ├─► contents.Sweep: uploads that were broken off
//	                         ├─► images.Confirm, once an hour: how far reports are known to be good
//	                         └─► objects older than --max-age ─► storage of their kind: deleted, or marked as being deleted
//
// What it decides:
//
//   - Objects are deleted as a user would do it: with an event, and not before their finalizers are gone.
//   - The age of an object is that of its creationTimestamp, also where it was imported.
//   - A compaction is not held up: each call works for a bounded number of objects and transactions, and the next goes on.
package upkeep
