// SPDX-License-Identifier: Apache-2.0

package registrytest

import (
	"context"
	"sync"
	"time"
)

// Clock goes on when somebody waits.
type Clock struct {
	mutex sync.Mutex
	now   time.Time
}

// NewClock returns a Clock that stands at a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

// Set moves the clock to a time.
func (c *Clock) Set(now time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(d)
}

// Wait moves the clock on, and ends at once.
func (c *Clock) Wait(ctx context.Context, d time.Duration) error {
	c.Add(d)
	return ctx.Err()
}
