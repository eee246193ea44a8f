// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync"
)

// quantum is what a tenant may send in one round.
const quantum = 1 << 20

// turns shares a sink among tenants by deficit round robin in bytes: who sends large batches waits longer for the next one.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn
	deficit map[string]int64
}

type turn struct {
	tenant string
	size   int64
	ready  chan struct{}
}

func newTurns(atOnce int) *turns { return &turns{free: atOnce, deficit: map[string]int64{}} }

// take waits until the tenant may send size bytes. Each take that gave true is followed by give.
func (t *turns) take(ctx context.Context, tenant string, size int64) bool {
	t.mu.Lock()
	mine := &turn{tenant: tenant, size: size, ready: make(chan struct{})}
	t.waiting = append(t.waiting, mine)
	t.next()
	t.mu.Unlock()
	select {
	case <-mine.ready:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.waiting {
		if w == mine {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			return false
		}
	}
	t.free++ // it was given just now
	t.next()
	return false
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.next()
}

// next starts who waits, as far as there is room. The caller holds the lock.
func (t *turns) next() {
	for t.free > 0 && len(t.waiting) > 0 {
		i := pick(t.waiting, t.deficit)
		chosen := t.waiting[i]
		t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
		t.free--
		close(chosen.ready)
	}
	if len(t.waiting) == 0 {
		clear(t.deficit) // nobody has saved up anything
	}
}

// pick chooses who is next: the first that waits whose deficit covers its batch. Each round gives every tenant that waits a quantum.
func pick(waiting []*turn, deficit map[string]int64) int {
	for {
		for i, w := range waiting {
			if deficit[w.tenant] >= w.size {
				deficit[w.tenant] -= w.size
				return i
			}
		}
		for _, w := range waiting {
			deficit[w.tenant] += quantum
		}
	}
}
