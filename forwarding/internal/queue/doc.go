// SPDX-License-Identifier: Apache-2.0

// Package queue keeps records on disk until every sink has them. It is the only room that knows Pebble.
//
//	Submit ──► writer ──commit, fsync──► Done            one writer: what waits is committed together
//	                      │
//	Read ◄── frames ◄─────┘
//	Settle ──► cursor ──► writer, fsync ──► range delete   never the other way round; cursors are written with what comes in
//
// A directory holds, by the first byte of a key:
//
//	01                                    meta: format, id, created
//	02 tenant, sequence                   frame: the records of one write; sequence is that of its last record
//	03 sink, tenant                       cursor: the sequence through which the sink has everything
//	04 sink, tenant, sequence             dead letter
//	05 session                            number through which a session's records are here, last seen
//	06 tenant's name                      id, last sequence, bytes
//	07 sink's name                        id, since when the sink is gone
//	08 key's id                           something may be sealed by the key
//
// Beside Pebble's files are: format, which tells a program that is older than the directory to leave it alone; exporter.lock, which holds the
// pid of who has the directory open; ballast, room that is given up when the disk is full.
//
// What it decides:
//
//   - A record is accepted when the batch that holds it is synced. The numbers of sessions are in the same batch.
//   - A cursor says what need not be sent again, and is not an acknowledgement: it is written with the next records, after half a MiB that was delivered,
//     or after a tick. What is delivered waits for no disk, unless a MiB of it has no cursor on disk: more is not sent again after a crash. Frames are
//     deleted behind an fsync of their cursors only.
//   - The last records are held in memory besides, 4 MiB of all tenants, so that sinks that are up to date read nothing from disk.
//   - An error of fsync ends the process: nothing can be said about what is on disk until the queue is opened again.
//   - A quota refuses before the disk is full. Bytes are those of the records, and 64 for each.
//   - With keys, frames and dead letters are sealed by XChaCha20-Poly1305 and bound to their places. The first key seals, each opens. What is
//     sealed by a key that was not given is not damage: Open refuses, and puts nothing aside.
//   - What does not match its digest is damage: Open renames the directory or refuses, and Salvage reads what it can.
package queue
