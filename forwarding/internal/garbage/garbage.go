// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leastHeap is what Go counts as in use where less is, at 100 percent.
	leastHeap = 4 << 20
	// leastPercent keeps a program that holds very much from doing nothing but collecting.
	leastPercent = 20
	// mostPercent bounds what comes together while the heap is small.
	mostPercent = 1000
)

// CollectEvery has garbage collected when so many bytes have come together, from now on. It is called once, by the program.
func CollectEvery(bytes uint64) {
	c := &collector{every: bytes, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adjust()
	c.watch()
}

type collector struct {
	every   uint64
	live    []metrics.Sample
	percent int
}

// watch adjusts after each collection: that is when nothing holds the sentinel any more, and its cleanup runs.
func (c *collector) watch() {
	type sentinel struct{ _ [64]byte } // large enough to be allocated alone
	runtime.AddCleanup(&sentinel{}, func(c *collector) {
		c.adjust()
		c.watch()
	}, c)
}

// adjust sets what Go may let come together in parts of what the last collection has left.
func (c *collector) adjust() {
	metrics.Read(c.live)
	if percent := percentOf(c.every, c.live[0].Value.Uint64()); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
}

// percentOf is the part of what is in use, in percent, that so many bytes are.
func percentOf(bytes, live uint64) int {
	return int(min(max(bytes*100/max(live, leastHeap), leastPercent), mostPercent))
}
