// SPDX-License-Identifier: Apache-2.0

// Package adapter runs adapters: programs around scanner engines, as child processes that speak scanyard.adapter/1.
//
//	Process: one child ── requests side by side ── answers by id ── its end, with the reason
//	Starter: one process per request, the next one started ahead
//	Keeper:  one process for many requests, replaced before it grows old
//
// What it decides:
//
//   - An adapter that breaks the protocol, takes too much memory, or ends by itself is a crash, and tells of the item that was worked on. One
//     that answers with an error is healthy.
//   - A request whose context ends is cancelled; the process is ended only where it does not answer that.
//   - Nothing of this program reaches the child: no descriptor but 0-2, an environment of six names, a directory of its own.
package adapter
