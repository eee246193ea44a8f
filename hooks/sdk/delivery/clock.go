// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"time"
)

// Clock is where time comes from. Functions that are nil are the real ones.
type Clock struct {
	// Now is the time of day.
	Now func() time.Time
	// Sleep waits, or returns the context's cause when that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// AfterFunc calls f in its own goroutine after d, unless the Timer is stopped or set back before.
	AfterFunc func(d time.Duration, f func()) Timer
}

// Timer is what AfterFunc returns; [time.Timer] is one.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// WithDefaults fills the functions that are nil.
func (c Clock) WithDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the default of an injected clock
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.AfterFunc == nil {
		c.AfterFunc = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
