// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentOf(t *testing.T) {
	const mebi = 1 << 20
	for name, c := range map[string]struct {
		bytes, live uint64
		want        int
		reason      string
	}{
		"Small":    {bytes: 24 * mebi, live: 0, want: 600, reason: "Go counts at least 4 MiB as in use"},
		"As much":  {bytes: 24 * mebi, live: 24 * mebi, want: 100, reason: "24 MiB come together"},
		"Large":    {bytes: 24 * mebi, live: 48 * mebi, want: 50, reason: "24 MiB come together"},
		"Huge":     {bytes: 24 * mebi, live: 1000 * mebi, want: leastPercent, reason: "the program must not do nothing but collect"},
		"Generous": {bytes: 1000 * mebi, live: 1, want: mostPercent, reason: "the heap would be large before anything is known of it"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := percentOf(c.bytes, c.live); got != c.want {
				t.Errorf("got %d, want %d: %s", got, c.want, c.reason)
			}
		})
	}
}

// held is what the test has in use.
var held []byte

func TestCollectEveryFollowsWhatIsInUse(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	const bytes = 16 << 20
	CollectEvery(bytes)
	held = make([]byte, 64<<20)
	t.Cleanup(func() { held = nil })
	for {
		runtime.GC()
		now := debug.SetGCPercent(before)
		debug.SetGCPercent(now)
		if now == bytes*100/(64<<20) || now == bytes*100/(64<<20)-1 {
			return
		}
		runtime.Gosched()
	}
}
