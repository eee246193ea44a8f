// SPDX-License-Identifier: Apache-2.0

// Package app wires the registry controller: flags and the file in, a running manager out.
//
//	every replica:  caches, /readyz, metrics, admission
//	the leader:     reconcilers of Registries and jobs, the queue (embedded or external), the Feeder, looks for new data
//
// What it decides:
//
//   - Only the leader has the queue. A replica that stands by does not listen on its port, so workers that try all addresses find the leader.
//   - A new leader deletes what nobody has taken, waits until what was taken is acknowledged, and then lets in anew.
//   - Whether the reports API and the queue are there is a fact that all reconcilers share, and a change of it wakes them.
package app
