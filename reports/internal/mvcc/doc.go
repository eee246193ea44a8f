// SPDX-License-Identifier: Apache-2.0

// Package mvcc keeps versioned values under keys in a SQL database, with the semantics that the Kubernetes API asks of
// its storage: one counter for all changes, compare-and-swap, reads as of a revision, a log of changes, compaction.
//
//	Write ─► queue ─► writer: up to 128 changes in one transaction ─► objects, labels, rows, blobs, changes, counter
//	                                                             └─► hub: a ring of recent events ─► cursors of watchers
//	other replicas ─► changes ─► tail ────────────────────────────────┘
//	Get, Range ─► a snapshot: objects with rv ≤ N, and what changes says that others were at N
//
// What it decides:
//
//   - The counter is raised by one for each change, in its transaction, while its row is locked. So the order of
//     revisions is the order of commits, and who sees N sees everything up to N.
//   - A change says which revision it was made from. Another one in the database is an outcome, not an error, and fails
//     this change only; the others of its transaction go on.
//   - Each change keeps the state before it. The state as of N is made of the present rows and of those; a compaction
//     drops them and is itself a numbered change.
//   - Events come from the log in the order of its numbers, on each replica alike. The writer hands its own to the hub,
//     which takes them only if none is missing in between; otherwise the tail reads them.
//   - A watcher pulls from its own cursor. A slow one delays nobody: it falls back to reading the log, and is told that
//     it is too old once the log no longer reaches back.
//   - Large payloads are blobs, known by the SHA-256 of their bytes, kept once, and counted in the transaction of the rows
//     that name them.
//   - The package knows neither policy reports nor Kubernetes' types: values are bytes, and what is indexed beside them
//     is handed in.
package mvcc
