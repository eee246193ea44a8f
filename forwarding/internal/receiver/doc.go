// SPDX-License-Identifier: Apache-2.0

// Package receiver is the reference far end of the protocol scanyard.forwarding.v1.
//
//	sender ──hello──► welcome with limits
//	       ──batch──► order, size, rights, digest ──► store ──fsync──► ack through n
//	                        └ a record that is refused is named in or before the ack that covers its batch
//
// What it decides:
//
//   - One goroutine reads a stream and checks records, one tells what is on disk: an ack is cumulative and never ahead of the disk.
//   - At most the window of a stream is in memory; a sender that sends more waits.
//   - What a sender may send is bound to its token or certificate, never to what its records say.
//   - A full store takes nothing and asks for silence; nothing that was not stored is acknowledged.
package receiver
