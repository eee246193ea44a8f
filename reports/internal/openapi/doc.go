// SPDX-License-Identifier: Apache-2.0

// Package openapi describes what the reports API server serves, for kubectl explain, validation by clients, and server-side
// apply. Most of it is generated from the comments of the Go types by "make generate".
package openapi
