// SPDX-License-Identifier: Apache-2.0

// Package resultimport is the scanner of imports: it scans nothing, and writes the result that somebody has brought along.
//
//	scanyard import FILE ─► ConfigMaps, mounted by the Scan ─► this ─► raw result ─► lurker, parser and hooks, as in any Scan
package resultimport
