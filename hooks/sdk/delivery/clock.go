// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// Clock is the source of time. Nil functions are the real ones.
type Clock struct {
	retry.Clock
	// AfterFunc calls f in its own goroutine after d, unless the Timer is stopped or reset before.
	AfterFunc func(d time.Duration, f func()) Timer
}

// Timer is what AfterFunc returns; [time.Timer] is one.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// WithDefaults fills the functions that are nil.
func (c Clock) WithDefaults() Clock {
	c.Clock = c.Clock.WithDefaults()
	if c.AfterFunc == nil {
		c.AfterFunc = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	return c
}
