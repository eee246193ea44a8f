// SPDX-License-Identifier: Apache-2.0

// Package turns says which Scan is sent next, and to which sink. It is pure: it has no clock, no client and no goroutine.
//
//	workers ─► sink with the fewest streams ─► namespace with bytes left in this round ─► Scan that ended first
//
// Namespaces of a sink share the sink by deficit round robin in bytes: each gets a quantum in a round, and a stream that has
// used up the quantum of its namespace makes room where somebody else waits. So a namespace with 10,000 Scans delays another
// one by a quantum at most. A sink that is not healthy has no streams; the others do not wait for it.
package turns
