// SPDX-License-Identifier: Apache-2.0

// Package intake takes records from producers and hands them to the queue.
//
//	line ──read──► control, or record ──check, reserve──► queue ──synced──► ack
//	                                └── reject
//	batch by gRPC ──► Keeper, the service of internal/receiver ──► queue ──synced──► ack
//	events of a kube-apiserver ──► Audit ──► queue ──synced──► 200
//
// What it decides:
//
//   - An ack says that every record up to a number is synced, rejected, or a repetition. It is never sent before.
//   - Nothing is dropped on the way in: where there is no room, reading stops, or the producer is told so.
//   - By gRPC there is room for a whole batch, or the sender is asked for silence. Whose records they are is said by token or certificate.
//   - A line is copied once, from the socket into the queue.
package intake
