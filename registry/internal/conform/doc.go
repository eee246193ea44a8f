// SPDX-License-Identifier: Apache-2.0

// Package conform holds an adapter to scanyard.adapter/1: it starts the program, asks it what a worker would ask, and what nobody should,
// and prints what came of it in the Test Anything Protocol.
//
//	checks: name, what the adapter must be able to do, a function ─► ok N - name | not ok N - name: why | ok N - name # SKIP
//
// What it decides:
//
//   - A check asks for what the protocol says, and for nothing of one engine. What an adapter does not claim to be able to do is skipped.
//   - Images are made here. A hostile one may be scanned or refused for good; to crash, or to ask for another try, is wrong.
//   - Each check begins with a process and a directory of its own: one that fails spoils no other.
package conform
