// SPDX-License-Identifier: Apache-2.0

// Package scans is a client of Scans: it builds them, reads what their status says
// and downloads their findings through the links in it, as any client would.
package scans
