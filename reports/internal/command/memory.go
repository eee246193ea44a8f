// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"
	"runtime/debug"
)

// boundHeap gives Go two thirds of what GOMEMLIMIT says. Go does not count the pages of the program itself, nor what SQLite
// allocates, and both are in the container's memory.
func boundHeap() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 3 * 2)
	}
}
