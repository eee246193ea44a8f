// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"strconv"
	"strings"
)

// HeldPath is where a Go program that serves profiles collects its garbage and says what it then holds, for [Held].
const HeldPath = "/debug/pprof/heap?gc=1&debug=1"

// Held reads the bytes of a heap from a profile in the form for people (runtime/pprof, debug=1). Growth shows in these: what a Go program has
// resident swings by several times of what the program holds, since garbage is collected late and goes back to the kernel late.
func Held(profile string) (int64, error) {
	const key = "# HeapAlloc = "
	for line := range strings.Lines(profile) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("the heap profile has no line %q", key)
}
