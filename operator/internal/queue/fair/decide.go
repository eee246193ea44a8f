// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"container/heap"
	"time"
)

// Start is a Scan that may start.
type Start struct {
	UID string
	// OutOfTurn says that it goes ahead of others for having waited longest.
	OutOfTurn bool
}

// Decide says which of the listed Scans may start now, in the order in which they should.
// It is the whole decision as a function of a listing; [State] makes it cheap where the
// same listing is decided about again and again.
func Decide(limits Limits, scans []Scan, now time.Time) []Start {
	return NewState(limits, scans...).Decide(now)
}

// Decide says which Scans may start now, in the order in which they should. It changes
// nothing of what the State lists. What it returns is good until the next call.
func (s *State) Decide(now time.Time) []Start {
	s.starts = s.starts[:0]
	if s.waiting == 0 || s.isFull() {
		return s.starts
	}
	s.round++
	s.turns = s.turns[:0]
	for _, t := range s.tenants {
		if len(t.waiting) > 0 {
			t.sort()
			t.next, t.given = 0, 0
			s.turns = append(s.turns, t)
		}
	}
	s.letOldest(now)
	s.takeTurns()
	for _, c := range s.taken {
		c.given = 0
	}
	s.taken = s.taken[:0]
	return s.starts
}

// isFull says that the cluster runs as many Scans as it may, so that nothing can start.
func (s *State) isFull() bool {
	m := s.limits.Cluster.MaxRunning
	return m != nil && s.running+len(s.starts) >= int(*m)
}

// letOldest lets the Scan go first that has waited longest of all, if that is too long,
// unless one that came to its turn like this still runs.
func (s *State) letOldest(now time.Time) {
	if s.outOfTurn > 0 {
		return
	}
	var oldest *item
	for _, t := range s.turns {
		if it := t.oldest(); oldest == nil || compareAge(it, oldest) < 0 {
			oldest = it
		}
	}
	if oldest != nil && now.Sub(oldest.scan.Created) >= Patience && oldest.class.held() == nil {
		s.start(oldest, true)
	}
}

// takeTurns gives one slot after the other to the namespace whose turn it is.
func (s *State) takeTurns() {
	open := s.turns[:0]
	for _, t := range s.turns {
		if t.advance(s.round) {
			open = append(open, t)
		}
	}
	s.turns = open
	heap.Init(&s.turns)
	for len(s.turns) > 0 && !s.isFull() {
		t := s.turns[0]
		// A limit that several namespaces share may have been reached since.
		if it := t.waiting[t.next]; it.class.held() == nil {
			s.start(it, false)
		}
		if t.advance(s.round) {
			heap.Fix(&s.turns, 0)
		} else {
			heap.Pop(&s.turns)
		}
	}
}

func (s *State) start(it *item, outOfTurn bool) {
	it.round = s.round
	it.class.tenant.given++
	for _, c := range it.class.counters {
		if c.given == 0 {
			s.taken = append(s.taken, c)
		}
		c.given++
	}
	s.starts = append(s.starts, Start{it.scan.UID, outOfTurn})
}

// advance finds the next Scan of a namespace that no limit holds. Within one decision
// limits only fill up: what was passed over stays so.
func (t *tenant) advance(round uint64) bool {
	for ; t.next < len(t.waiting); t.next++ {
		it := t.waiting[t.next]
		if it.round == round || it.class.full == round {
			continue
		}
		if it.class.held() == nil {
			return true
		}
		it.class.full = round
	}
	return false
}

// turns is a heap of namespaces, in the order of their turns.
type turns []*tenant

// Len implements heap.Interface.
func (h turns) Len() int { return len(h) }

// Less says whether one namespace's turn comes before another's: that which would have
// less for its weight, were it given a slot more.
func (h turns) Less(i, j int) bool {
	a, b := h[i], h[j]
	x := int64(a.running+a.given+1) * int64(b.limits.Weight)
	y := int64(b.running+b.given+1) * int64(a.limits.Weight)
	if x != y {
		return x < y
	}
	return compareAge(a.waiting[a.next], b.waiting[b.next]) < 0
}

// Swap implements heap.Interface.
func (h turns) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *turns) Push(x any) {
	if t, ok := x.(*tenant); ok {
		*h = append(*h, t)
	}
}

// Pop implements heap.Interface.
func (h *turns) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}
