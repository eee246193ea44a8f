// SPDX-License-Identifier: Apache-2.0

// Package scans has the pages of Scans: the list, one Scan with its phases, logs and findings, a form to start one, and what
// can be done with them. The list and the page of a Scan are live: a watch with the viewer's rights, which ends with the page.
package scans
