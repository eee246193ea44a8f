// SPDX-License-Identifier: Apache-2.0

// Package follow follows the Scans of a cluster and has them sent to the sinks of settings. It is what acts around plan, which decides.
//
//	Scans, settings ──► reconciler ──plan.Decide──► turns ──► streams (scans.Sending) ──► sinks
//	                        ▲                                   │
//	                        └──────────── progress ◄────────────┘     status, Events, metrics
//
// What it decides:
//
//   - Nothing has to be remembered: what is due follows from Scans and settings at each look. What is in memory, how far a stream has
//     come, spares sending again what was not yet written down.
//   - A stream that has ended has its Scan looked at half a second later, so that a small Scan is written once for all of its sinks.
//   - A failure of a sink ends the stream and belongs to the sink: only a prober tries that sink again. A failure of one Scan's results
//     belongs to the Scan.
//   - A sink that was changed is closed when its running streams have ended their batch.
package follow
