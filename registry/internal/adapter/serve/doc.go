// SPDX-License-Identifier: Apache-2.0

// Package serve is the adapter's side of the protocol: it reads requests, has them handled side by side, and writes answers.
//
//	standard input ─► line ─► request ─► handler (one goroutine) ─► answer ─► standard output
//
// What it decides:
//
//   - A line that is not a request, and has no id that could be answered, is logged and passed over: an answer without a request would end
//     the process.
//   - What ends a request early is told by its code: Cancelled, Timeout.
//   - At the end of input what runs is waited for, 9 seconds at most; then it is cancelled.
package serve
