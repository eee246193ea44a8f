// SPDX-License-Identifier: Apache-2.0

// Package sdk is what a parser is written against: [Parser], its [Input], and the function that it hands findings to.
//
//	raw result ──Source──► Parser.Parse ──emit──► Encoder ──► findings.json
//	                                                 └─────► finding.Stats
//
// What it decides:
//
//   - A parser reads its input as a stream and may open it again for another pass, in a pod as well as on a terminal.
//     So its memory is bounded whatever the size of the result.
//   - Findings leave in the order in which they are emitted. A finding belongs to the parser again as soon as emit has
//     returned, so that it can be used for the next.
//   - A parser's output depends on its [Input] alone: two runs over the same input are equal byte for byte. The
//     container mode relies on that. The one exception is what a parser marks as [Sealed], which keeps its length.
//   - A parser that crashes has failed, like one that returns an error.
//
// Package container runs a parser inside the pod of a Scan, package cli on a terminal.
package sdk
