// SPDX-License-Identifier: Apache-2.0

// Package intake takes records from producers and hands them to the queue.
//
//	line ──read──► control, or record ──check, reserve──► queue ──synced──► ack
//	                                └── reject
//
// What it decides:
//
//   - An ack says that every record up to a number is synced, rejected, or a repetition. It is never sent before.
//   - Nothing is dropped on the way in: where there is no room, reading stops, or the producer is told so.
//   - A line is copied once, from the socket into the queue.
package intake
