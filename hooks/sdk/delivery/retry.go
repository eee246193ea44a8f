// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"time"
)

// trouble counts the attempts at one delivery.
type trouble struct {
	client  *Client
	started time.Time
	tries   int
}

func (c *Client) newTrouble() *trouble { return &trouble{client: c, started: c.o.Clock.Now()} }

// wait pauses before the next attempt, or returns the error that ends the trying.
func (t *trouble) wait(ctx context.Context, err error) error {
	t.tries++
	if ctx.Err() != nil {
		return fmt.Errorf("%w (while: %w)", context.Cause(ctx), err)
	}
	asked, again := MayPass(err)
	if !again {
		return t.giveUp(err)
	}
	o := &t.client.o
	pause := max(t.pause(), asked)
	switch {
	case asked > longestRetryAfter:
		return t.giveUp(fmt.Errorf("%w (it asks to wait for %s)", err, asked.Round(time.Second)))
	case t.tries >= o.Attempts, o.Clock.Now().Add(pause).Sub(t.started) > o.Budget:
		return t.giveUp(err)
	}
	o.Notef("%v; trying again in %s", err, pause.Round(time.Second))
	if stopped := o.Clock.Sleep(ctx, pause); stopped != nil {
		return fmt.Errorf("%w (while: %w)", stopped, err)
	}
	return nil
}

func (t *trouble) giveUp(err error) error {
	if t.tries > 1 {
		return fmt.Errorf("given up after %d attempts: %w", t.tries, err)
	}
	return err
}

// pause doubles with each attempt; at least half of it is kept, the rest is chance, so that many hooks that failed
// together do not come back together.
func (t *trouble) pause() time.Duration {
	o := &t.client.o
	d := o.LongestPause
	if t.tries <= 16 { // far beyond any sensible maximum, well before the shift overflows
		d = min(d, o.FirstPause<<(t.tries-1))
	}
	return d/2 + time.Duration(float64(d/2)*o.Random())
}
