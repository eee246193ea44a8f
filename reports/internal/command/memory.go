// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"
	"runtime/debug"
)

// garbage is how much of it there may be before it is collected, in hundredths of what is used.
const garbage = 50

// boundHeap gives Go two thirds of what GOMEMLIMIT says. Go does not count the pages of the program itself, nor what SQLite
// allocates, and both are in the container's memory. Garbage is collected earlier than Go would, unless GOGC says when.
func boundHeap(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 3 * 2)
	}
}
