// SPDX-License-Identifier: Apache-2.0

// Package integration proves that the built local cluster does what pods of a
// scan need. Its tests start clusters from the binary that LOCALCLUSTER_BIN
// names, and fail with the command to build it if that is missing.
package integration
