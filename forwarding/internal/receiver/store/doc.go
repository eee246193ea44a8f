// SPDX-License-Identifier: Apache-2.0

// Package store keeps what a receiver took: each record once, in the order of arrival, and what of each stream is there.
//
//	batches ──► one writer ──► look for each key ──► one commit of Pebble with fsync ──► answers
//	                              │ new: record, key, place in its stream
//	                              │ same key, same digest: a duplicate
//	                              └ same key, other digest: a conflict; the first one wins, the second is set aside
//
// What it decides:
//
//   - An answer follows the fsync of what it tells. While one commit is on its way to the disk, the next one gathers all batches that wait.
//   - A key is the sender's authority, its cluster, its tenant and the event id: nobody can suppress what is another's. Keys are kept as long as records.
//   - A stream's chain goes over its records in the order of their sequence, whatever order they came in.
//   - The verdict of a stream follows from its closing record: all there and the chain agrees, some missing, or something else than what was said.
//   - A full store refuses before the disk is full. An error of fsync ends the process: what was synced is only known after the next start.
package store
