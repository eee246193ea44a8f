// SPDX-License-Identifier: Apache-2.0

// Package delivery brings records from the queue to the sinks.
//
//	            ┌─ lane of tenant a ─┐
//	queue ──────┤                    ├── turns ── sink
//	            └─ lane of tenant b ─┘
//
// What it decides, in pure functions over a State:
//
//   - A sink that takes several streams at once gets what is next of all streams of a tenant in one call, each stream in its order.
//   - The head of a lane is not passed before the sink has confirmed. Sinks and tenants do not wait for each other.
//   - Transport is tried again with full jitter; auth and incompatible are only probed; overload gets the delay that it asks for, and
//     smaller batches. Only a record that is refused by itself leaves the queue undelivered, into the dead letters.
//   - A batch that is refused as a whole is halved until one record is left.
//   - A far end that refuses everything is not a fault of the records: the breaker gives them back and probes with single records.
package delivery
