// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// newLoop counts the attempts of one delivery.
func (c *Client) newLoop() *retry.Loop {
	o := &c.o
	return retry.Policy{
		First: o.FirstPause, Longest: o.LongestPause, Attempts: o.Attempts, LongestAsked: longestRetryAfter,
		Clock: o.Clock.Clock, Random: o.Random,
		Notice: func(err error, pause time.Duration) { o.Notef("%v; trying again in %s", err, pause.Round(time.Second)) },
	}.Begin()
}

// wait pauses before the next attempt, or returns the final error.
func (c *Client) wait(ctx context.Context, loop *retry.Loop, err error) error {
	asked, again := MayPass(err)
	if ctx.Err() == nil && !again {
		return loop.Stop(err)
	}
	loop.Budget = c.budget(asked)
	return loop.Wait(ctx, err, asked)
}

// budget is how long a request is repeated.
func (c *Client) budget(asked time.Duration) time.Duration {
	switch {
	case c.o.Budget > 0:
		return c.o.Budget
	case c.answered.Load(), asked > 0:
		return DefaultBudget
	default:
		return DefaultContact
	}
}
