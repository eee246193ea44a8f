// SPDX-License-Identifier: Apache-2.0

// Package grpc is the sink that speaks scanyard.forwarding.v1, by the schemes grpc and grpcs.
//
//	Deliver ──► session: hello, welcome, batches ──► acks are cumulative and complete each Deliver whose batches they cover
//	              └ broken: each Deliver that waits fails, or tries once more where the connection was only replaced
//
// What it decides:
//
//   - One stream serves all deliveries; no more than the window of the receiver is unacknowledged.
//   - A record above the receiver's limit is refused here, with both numbers, and never sent. A batch above the limit of a message goes out in parts.
//   - INVALID_ARGUMENT ends a stream and names no batch: with several in flight all are kept, and the next ones go alone until one is through.
//     What ends a stream says nothing about a batch that was not in flight.
//   - Compression is what both sides have: zstd, else gzip, else none.
package grpc
