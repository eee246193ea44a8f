// SPDX-License-Identifier: Apache-2.0

// Package podlogs reads what the containers of a Scan have written: phase by phase as it
// is, or as it comes. Following starts each container's log when the container starts,
// takes up the next one after a restart or a new try of the Job, and continues where it was
// when the connection breaks:
//
//	Scan ── Jobs (by owner) ── pods (by Job) ── containers ── each run of a container, once
package podlogs
