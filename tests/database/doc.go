// SPDX-License-Identifier: Apache-2.0

// Package database starts a database server beside a local cluster, as users have one beside theirs: pods reach it by TCP
// only, it shows a certificate, and it wants one of its client.
//
//	PostgreSQL ─┐
//	MariaDB ────┴─► Server: DSN and Secret for the chart, Stop
package database
