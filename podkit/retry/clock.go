// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"time"
)

// Clock is the source of time. A nil function is the real one, so the zero Clock is the real clock.
type Clock struct {
	// Now is the time of day.
	Now func() time.Time
	// Sleep waits, or returns the context's cause when the context ends first.
	Sleep func(ctx context.Context, d time.Duration) error
}

// WithDefaults fills the functions that are nil.
func (c Clock) WithDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the default of an injected clock
	}
	if c.Sleep == nil {
		c.Sleep = Sleep
	}
	return c
}

// Sleep waits for d, or returns the context's cause when the context ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
