// SPDX-License-Identifier: Apache-2.0

// Package bench measures the operator: a real API server, Job controller and S3
// server, with nodes whose pods end at once, so that nothing but the control plane
// takes time.
//
// All figures come from outside the operator: the times at which a watch shows
// objects, the operator's own /metrics for its requests to the API server, and /proc
// for its CPU time and memory. Everything shares one machine, so the figures are a
// lower bound for a cluster whose control plane has its own.
package bench
