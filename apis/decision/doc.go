// SPDX-License-Identifier: Apache-2.0

// Package decision is the record of a decision: what a policy denied, what an operator refused, what an audit found.
// Producers write such records as lines of JSON into the socket of an exporter beside them, which acknowledges what is on disk.
//
//	Record ──Append──► line ──Client──► socket ──► exporter
//	                                      ◄── ack, reject
//	                            │
//	                            └──Window──► another Transport, such as gRPC in forwarding/client
//	line ──Parse──► Record
//
// What it decides:
//
//   - A line is kept as the producer wrote it: Parse copies nothing of it and changes nothing in it; keys that nobody knows stay.
//   - What is wrong with a line is said with its byte offset, or with the key.
//   - A Client never blocks who logs. What does not fit into its buffer is dropped and counted, which is the only loss there is,
//     and it comes before any acknowledgement. What the exporter has not acknowledged is sent again on the next connection.
//
// The package uses the standard library only, so that any program may import it.
package decision
