// SPDX-License-Identifier: Apache-2.0

// Package scans sends the records of one Scan to one sink, and judges what the far end says it has.
//
//	summary, results ──► batches ──► sink ──► what it accepted: count and chain ──► closing record ──► verdict
//
// A Cursor says how far a far end is: a sending goes on there, also in another process. What a far end names as missing is sent once more.
// A batch is tried again until the context ends; only a far end that refuses a record for what is in it ends its way.
package scans
