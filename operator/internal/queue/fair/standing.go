// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

// Standing is the position of a waiting Scan, and the limit that holds it.
type Standing struct {
	UID string
	// Position is the Scan's place, from 1, in the order in which all waiting Scans would start if
	// slots became free one by one and no limit of a scan type or target held them. Of is how many
	// Scans wait.
	Position, Of int
	// NamespacePosition and NamespaceOf are the same among the Scans of the namespace.
	NamespacePosition, NamespaceOf int
	// Limit is the limit that holds the Scan, and Bound how many Scans that limit lets run.
	Limit Limit
	Bound int
}

// Standings yields the position of every waiting Scan, the first ones first, until yield returns
// false. It changes nothing that the State lists, and yield must not either.
func (s *State) Standings(yield func(Standing) bool) {
	s.turns = s.turns[:0]
	for _, t := range s.tenants {
		if len(t.waiting) > 0 {
			t.sort()
			t.next, t.given = 0, 0
			s.turns = append(s.turns, t)
		}
	}
	heap.Init(&s.turns)
	for position := 1; len(s.turns) > 0; position++ {
		t := s.turns[0]
		it := t.waiting[t.next]
		t.next++
		t.given++
		at := Standing{
			UID: it.scan.UID, Position: position, Of: s.waiting, NamespacePosition: t.next, NamespaceOf: len(t.waiting),
		}
		if c := it.class.held(); c != nil {
			at.Limit, at.Bound = c.limit, c.bound
		}
		if t.next < len(t.waiting) {
			heap.Fix(&s.turns, 0)
		} else {
			heap.Pop(&s.turns)
		}
		if !yield(at) {
			return
		}
	}
}

// Tenancy is how many Scans of one namespace are in the queue.
type Tenancy struct {
	Namespace        string
	Waiting, Running int
	// Oldest is when the Scan that has waited longest was created; zero where none waits.
	Oldest time.Time
}

// Tenancies sums up the namespaces, those with most waiting Scans first.
func (s *State) Tenancies() []Tenancy {
	all := make([]Tenancy, 0, len(s.tenants))
	for _, t := range s.tenants {
		n := Tenancy{Namespace: t.name, Waiting: len(t.waiting), Running: t.running}
		if n.Waiting > 0 {
			t.sort()
			n.Oldest = t.oldest().scan.Created
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Tenancy) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Running, a.Running), strings.Compare(a.Namespace, b.Namespace))
	})
	return all
}
