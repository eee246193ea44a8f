// SPDX-License-Identifier: Apache-2.0

// Package sqldb opens the database that reports are kept in, brings its schema up to date, and gives out transactions.
//
//	Config ─► Open: connect, check, lock, migrate ─► DB ─► Read: a snapshot, from the pool of readers
//	                                                    └─► Write: the one writing connection, the counter's row locked
//
// What it decides:
//
//   - All SQL of the packages above is written once, with ? for parameters and "key" in quotes. What differs between
//     SQLite, PostgreSQL and MariaDB or MySQL is in one file each.
//   - A write locks the row of the counter before anything else. Nothing is locked before it, so writers cannot lock
//     each other out, and the order of resource versions is the order of commits.
//   - A request has one connection at most, for as long as it reads. Who waits for one longer than five seconds is told
//     that the database is busy.
//   - Migrations are numbered, go forward only, and are known by the hash of their text. One process migrates, the
//     others wait.
//   - The data source name is a secret: no error of this package holds any part of it.
package sqldb
