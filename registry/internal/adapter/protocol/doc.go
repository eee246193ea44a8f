// SPDX-License-Identifier: Apache-2.0

// Package protocol holds the messages of scanyard.adapter/1: what a worker asks an adapter for, and what the adapter answers.
//
//	worker ── {"v":1,"id","op","params"} ──► standard input of the adapter
//	       ◄── {"v":1,"id","type":"progress|result|error"} ── its standard output
//
// What it decides:
//
//   - One JSON object a line, a line at most 1 MiB, nested at most 64 deep: Reader gives no more than that to anybody, and tells what is
//     wrong with a line. Members that are not known are ignored: both sides may know more than the other.
//   - Errors have codes that programs decide by, and messages for people. Which codes may be retryable is decided here and not by the
//     adapter.
//   - Documents go through files: an answer names a file below the request's workdir, its sum and its size.
package protocol
