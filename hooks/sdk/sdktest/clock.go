// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/retry"
)

// Clock stands still except for pauses: a pause advances the clock and is recorded, and takes no real time.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
	timers []*timer
}

// NewClock starts at noon of the first of January 2030, UTC.
func NewClock() *Clock { return &Clock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)} }

// Set moves the clock to a time without firing timers.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Pauses are those that were made, in order.
func (c *Clock) Pauses() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.pauses)
}

// Advance moves the clock on and fires the timers that are due: what a remote service that hangs does to a hook. It returns how
// many were.
func (c *Clock) Advance(d time.Duration) int {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*timer
	for _, t := range c.timers {
		if t.running && !t.at.After(c.now) {
			t.running = false
			due = append(due, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		go t.do()
	}
	return len(due)
}

// Delivery is the clock as deliveries take it.
func (c *Clock) Delivery() delivery.Clock {
	return delivery.Clock{
		Clock: retry.Clock{Now: c.time, Sleep: c.sleep},
		AfterFunc: func(d time.Duration, do func()) delivery.Timer {
			c.mu.Lock()
			defer c.mu.Unlock()
			t := &timer{clock: c, at: c.now.Add(d), running: true, do: do}
			c.timers = append(slices.DeleteFunc(c.timers, func(t *timer) bool { return !t.running }), t)
			return t
		},
	}
}

func (c *Clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.pauses = append(c.pauses, d)
	c.mu.Unlock()
	c.Advance(d)
	return context.Cause(ctx)
}

type timer struct {
	clock   *Clock
	at      time.Time
	running bool
	do      func()
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.running
	t.running = false
	return was
}

func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.running
	t.at, t.running = t.clock.now.Add(d), true
	if !was {
		t.clock.timers = append(t.clock.timers, t)
	}
	return was
}
