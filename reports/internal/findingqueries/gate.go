// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// errCrowded is returned to a user who waits already.
var errCrowded = errors.New("too many queries: one of yours is waiting already")

// waiter is a query that waits for its turn.
type waiter struct {
	user string
	turn chan struct{} // closed when the query may run
}

// gate lets some queries run at once. The others wait in the order in which they came, one for each user.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter
}

// enter returns when the query may run; the caller leaves the gate then.
func (g *gate) enter(ctx context.Context, user string) error {
	w, err := g.join(user)
	if err != nil || w == nil {
		return err
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	if !g.giveUp(w) {
		g.leave() // the turn came in the meantime
	}
	return ctx.Err()
}

// join returns nil if the query may run at once.
func (g *gate) join(user string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free > 0 {
		g.free--
		return nil, nil // nobody waits
	}
	if slices.ContainsFunc(g.waiting, func(w *waiter) bool { return w.user == user }) {
		return nil, errCrowded
	}
	w := &waiter{user: user, turn: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	return w, nil
}

// leave gives the place to the query that has waited longest.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	close(g.waiting[0].turn)
	g.waiting = slices.Delete(g.waiting, 0, 1)
}

// giveUp takes a query out of those that wait. It returns false if the query has been given its turn.
func (g *gate) giveUp(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.waiting, w)
	if at < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}
