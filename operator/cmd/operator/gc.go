// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent trades a little CPU time, of which the operator needs little, for memory: with many
	// Scans most of it holds what the caches keep of those that have ended.
	gcPercent = 30
	// gcGrowth is by how much the heap may grow between two collections in any case, in bytes. With
	// few Scans little is live, and a third of little is collected all the time.
	gcGrowth = 24 << 20
)

// percentFor is how much the heap may grow, in percent of what is live.
func percentFor(live uint64) int {
	return max(gcPercent, int(gcGrowth*100/max(live, 1<<20)))
}

// paceGC keeps the heap's growth as percentFor says. It runs after each collection: an object without
// references is allocated again, and is collected with the next one.
func paceGC() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindUint64 {
		debug.SetGCPercent(percentFor(sample[0].Value.Uint64()))
	}
	type sentinel struct{ _ [16]byte }
	runtime.AddCleanup(&sentinel{}, func(struct{}) { paceGC() }, struct{}{})
}
