// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"sync"
	"time"
)

const (
	// silence is how long a share holds that nobody repeats.
	silence = 30 * time.Second
	// leastShare is the part of a host that an item has in any case.
	leastShare = 8
)

// Item is a unit of work in flight at a host.
type Item struct {
	host *Host
	// own is the bound of the Registry; 0: none.
	own   float64
	mutex sync.Mutex
	share float64
	heard time.Time
	// bucket belongs to this item alone.
	bucket bucket
	closed bool
}

// NewItem begins a unit of work. The share is that of the message, own what the Registry's limits say; 0: no bound.
func (h *Host) NewItem(now time.Time, share, own float64) *Item {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.items++
	return &Item{host: h, own: own, share: share, heard: now}
}

// Close ends the unit of work.
func (i *Item) Close() {
	i.host.mutex.Lock()
	defer i.host.mutex.Unlock()
	if !i.closed {
		i.closed = true
		i.host.items--
	}
}

// Host is where the item asks.
func (i *Item) Host() *Host { return i.host }

// Share takes the share that the controller tells anew.
func (i *Item) Share(now time.Time, share float64) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.share, i.heard = share, now
}

// rate is how many requests a second the item may make; 0: no bound.
func (i *Item) rate(now time.Time) float64 {
	rate := i.share
	if bound := i.host.bounds.RequestsPerSecond; bound > 0 {
		if now.Sub(i.heard) >= silence {
			rate = bound / leastShare
		}
		if rate <= 0 || rate > bound {
			rate = bound
		}
	}
	if i.own > 0 && (rate <= 0 || i.own < rate) {
		rate = i.own
	}
	return rate
}

// Next gives how long the next request waits; again: then it has to ask anew, since the host may want another pause by then. manifest:
// the request is a GET of a manifest, which counts for the allowance. The error is a *PausedError where the wait is too long for a step.
func (i *Item) Next(now time.Time, manifest bool) (wait time.Duration, again bool, err error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.host.mutex.Lock()
	defer i.host.mutex.Unlock()
	pause := i.host.paused
	if manifest && i.host.drained.After(pause) {
		pause = i.host.drained
	}
	switch wait = pause.Sub(now); {
	case wait > MaxWait:
		return 0, false, &PausedError{Until: pause}
	case wait > 0:
		return wait, true, nil
	}
	wait = 0
	if manifest {
		wait = i.host.nextGet(now)
	}
	if wait > MaxWait {
		// The token is given back: nobody asks for it.
		i.host.gets.tokens++
		return 0, false, &PausedError{Until: now.Add(wait)}
	}
	rate := i.rate(now)
	return max(wait, i.bucket.take(now, rate, max(rate, 1))), false, nil
}
