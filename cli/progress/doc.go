// SPDX-License-Identifier: Apache-2.0

// Package progress shows the progress of a Scan: on a terminal a block that is redrawn as it changes,
// elsewhere a line for each change. Package view decides what is shown.
package progress
