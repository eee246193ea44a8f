// SPDX-License-Identifier: Apache-2.0

// Package ports decides which loopback ports a cluster listens on, and says
// who holds a port that was asked for and is taken.
package ports
