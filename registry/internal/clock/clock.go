// SPDX-License-Identifier: Apache-2.0

// Package clock is the time of the machine, as the packages of registry scanning ask for it.
package clock

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Real is the clock of the machine.
type Real struct{ clock.RealClock }

// Wait waits, and returns the error of the context where that ends before.
func (r Real) Wait(ctx context.Context, d time.Duration) error {
	timer := r.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}
