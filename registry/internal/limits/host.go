// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds are what a host may be asked for, by all items together.
type Bounds struct {
	// Items are in flight at once.
	Items int
	// RequestsPerSecond are those of all items; 0: no bound.
	RequestsPerSecond float64
}

// DefaultBounds are those of the chart.
func DefaultBounds() Bounds { return Bounds{Items: 8, RequestsPerSecond: 50} }

// ForHost tightens bounds for a host that is known to be strict.
func (b Bounds) ForHost(host string) Bounds {
	host = strings.ToLower(host)
	if host != "docker.io" && !strings.HasSuffix(host, ".docker.io") {
		return b
	}
	const items, requestsPerSecond = 4, 10
	b.Items = min(b.Items, items)
	if b.RequestsPerSecond == 0 || b.RequestsPerSecond > requestsPerSecond {
		b.RequestsPerSecond = requestsPerSecond
	}
	return b
}

// Key is what limits hang on: the account at a host.
type Key struct {
	Host string
	// Account is the UID of the Secret; "" is anonymous.
	Account string
}

// Hosts are the hosts of a worker.
type Hosts struct {
	bounds Bounds
	mutex  sync.Mutex
	hosts  map[Key]*Host
}

// NewHosts makes the table of hosts.
func NewHosts(bounds Bounds) *Hosts { return &Hosts{bounds: bounds, hosts: map[Key]*Host{}} }

// Host gives what is known of a host.
func (h *Hosts) Host(key Key) *Host {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	host := h.hosts[key]
	if host == nil {
		host = &Host{bounds: h.bounds.ForHost(key.Host)}
		h.hosts[key] = host
	}
	return host
}

// Host is an account at a host.
type Host struct {
	bounds Bounds
	mutex  sync.Mutex
	items  int
	// paused: nobody asks before; drained: nobody gets manifests before.
	paused, drained time.Time
	failures        int
	told            bool
	known           allowance
	resets          time.Time
	gets            bucket
}

// PausedError is a request that has to wait so long that its step ends.
type PausedError struct{ Until time.Time }

// Error tells until when.
func (p *PausedError) Error() string {
	return fmt.Sprintf("host is paused until %s", p.Until.UTC().Format(time.RFC3339))
}

// RateLimit is what the status of a Registry shows.
type RateLimit struct {
	Remaining int64
	ResetTime time.Time
}

// RateLimit gives the allowance that the host told last; false: none was told.
func (h *Host) RateLimit() (RateLimit, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return RateLimit{Remaining: h.known.remaining, ResetTime: h.resets}, h.told
}

// Pause lets nobody ask before a time. A pause is never made shorter.
func (h *Host) Pause(until time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.pause(until)
}

func (h *Host) pause(until time.Time) {
	if until.After(h.paused) {
		h.paused = until
	}
}

// PausedUntil gives the time before which nobody may ask; zero: the host is not paused.
func (h *Host) PausedUntil(now time.Time) time.Time {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if !h.paused.After(now) {
		return time.Time{}
	}
	return h.paused
}

// Resume ends all pauses: the Secret has changed.
func (h *Host) Resume() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.paused, h.drained, h.failures = time.Time{}, time.Time{}, 0
}

// Failed pauses a host that could not be reached: 30 s, doubled each time up to 30 min. It gives the end of the pause. Requests that
// fail while the host is paused were under way before: they count once.
func (h *Host) Failed(now time.Time) time.Time {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.paused.After(now) {
		return h.paused
	}
	wait := maxFailure
	const doublings = 6
	if h.failures < doublings {
		wait = min(firstFailure<<h.failures, maxFailure)
	}
	h.failures++
	h.pause(now.Add(wait))
	return h.paused
}

// Throttled takes what a host asks for by 429 or 503, the given number of times in a row for one request. It gives the time before
// which nobody asks; ends: that is too far away to be waited for.
func (h *Host) Throttled(now time.Time, header http.Header, times int, chance float64) (until time.Time, ends bool) {
	wait, told := RetryAfter(header, now)
	if !told {
		wait = Backoff(times, chance)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.pause(now.Add(wait))
	return now.Add(wait), wait > MaxWait || times >= maxDoublings
}

// Observe takes what a host tells with an answer.
func (h *Host) Observe(now time.Time, header http.Header) {
	a, found := readAllowance(header, now)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.failures = 0
	if !found {
		return
	}
	h.told, h.known, h.resets = true, a, now.Add(a.left)
	if a.remaining == 0 {
		h.drained = h.resets
	} else {
		h.drained = time.Time{}
	}
}

// nextGet gives how long a GET of a manifest waits for the allowance.
func (h *Host) nextGet(now time.Time) time.Duration {
	const scarce = 10
	if !h.told || !h.resets.After(now) {
		return 0
	}
	if h.known.remaining*scarce >= h.known.limit && h.known.remaining >= int64(h.items) {
		return 0
	}
	return h.gets.take(now, float64(h.known.remaining)/h.known.left.Seconds(), 1)
}

// bucket is a token bucket, whose tokens may be owed.
type bucket struct {
	tokens float64
	last   time.Time
}

// take takes a token and gives how long to wait for it. A rate of 0 means no bound.
func (b *bucket) take(now time.Time, rate, burst float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	if b.last.IsZero() {
		b.tokens = burst
	} else {
		b.tokens = min(burst, b.tokens+rate*max(now.Sub(b.last), 0).Seconds())
	}
	if now.After(b.last) {
		b.last = now
	}
	if b.tokens--; b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / rate * float64(time.Second))
}
