// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"time"
)

const (
	// evictions of the cache are that far apart.
	evictions = time.Minute
	// least of the disk that is free where SBOMs are made: a tenth of the cache, and no more than leastBytes.
	leastPart  = 10
	leastBytes = 2 << 30
)

// hasRoom tells whether the disk has room for an SBOM. The cache is brought down to its size every now and then.
func (w *Worker) hasRoom(ctx context.Context) bool {
	free, err := w.Engine.FreeBytes()
	if err != nil {
		w.Log.Warn("the disk of the cache cannot be looked at", "error", err)
		return true
	}
	enough := free >= leastFree(w.Config.CacheSize.Value())
	if w.evictionDue(!enough) {
		if err := w.Engine.Evict(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("the cache was not brought down to its size", "error", err)
		}
	}
	if !enough {
		w.Log.Warn("the disk is nearly full: no SBOMs are made", "freeBytes", free)
	}
	return enough
}

// leastFree is what the disk of a cache of a size has to have left.
func leastFree(cacheBytes int64) int64 { return min(cacheBytes/leastPart, leastBytes) }

// evictionDue tells whether it is time to look at the cache again.
func (w *Worker) evictionDue(now bool) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if at := w.Clock.Now(); now || at.Sub(w.evicted) >= evictions {
		w.evicted = at
		return true
	}
	return false
}
