// SPDX-License-Identifier: Apache-2.0

// Package progress shows the progress of a Scan: on a terminal a block that is drawn over as
// it changes, elsewhere a line for each change. What is shown is decided by package view.
package progress
