// SPDX-License-Identifier: Apache-2.0

// Package bench measures the questions of FindingQuery over a million results, and what it costs to write these. It holds
// benchmarks only: make bench-reports runs them, and docs/benchmarks.md says what the figures mean.
package bench
