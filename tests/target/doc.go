// SPDX-License-Identifier: Apache-2.0

// Package target is something harmless to scan: an HTTP server and a service that
// greets as an SSH server does, on free loopback ports.
package target
