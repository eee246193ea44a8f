// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// quantum is what a namespace of weight 1 may spend in a round.
	quantum = 64
	// mostQuanta is the most that an item costs.
	mostQuanta = 4
	// maxStreak is how many interactive items go before a scheduled one has its turn.
	maxStreak = 4

	discoverCost  = 8
	imagesPerCost = 10
	mebibyte      = 1 << 20
)

// Step is what is done with an item.
type Step int

// The steps, in the order in which those of one namespace are let in.
const (
	Discover Step = iota
	SBOM
	Match
)

// Item is a unit of work.
type Item struct {
	Namespace, Name string
	Step            Step
	// Registry is the UID, Priority that of its spec. Concurrent is how many of its items are in flight at most; 0: no bound.
	Registry   string
	Priority   int32
	Concurrent int
	// Interactive: somebody waits for the job.
	Interactive bool
	// Since is when the item began to wait, NotBefore when it may begin.
	Since, NotBefore time.Time
	// Host is the account at a host: its name, and whose credentials are used. Work that asks no registry has none.
	Host string
	// Content is digest and platform of an image; "" for repositories.
	Content string
	// Bytes are the compressed ones that are not known to be cached.
	Bytes int64
	// Images is the size of a batch; 0 is one.
	Images int
	// Alone: the item may only go to a worker that does nothing else.
	Alone bool
}

// Cost is what a namespace pays for the item.
func (i Item) Cost() int64 {
	var cost int64
	switch i.Step {
	case Discover:
		cost = discoverCost
	case SBOM:
		cost = 1 + max(i.Bytes, 0)/mebibyte
	case Match:
		cost = int64((max(i.Images, 1) + imagesPerCost - 1) / imagesPerCost)
	}
	return min(cost, mostQuanta*quantum)
}

// Namespace is a tenant with what it waits for.
type Namespace struct {
	Name string
	// Weight of its share; less than 1 counts as 1.
	Weight int64
	// Concurrent is how many of its items are in flight at most; 0: no bound.
	Concurrent int
	// Bytes may be fetched until the quota begins anew; nil: no bound.
	Bytes *int64
	// Waiting are the heads of its queues, in any order.
	Waiting []Item
}

// Host is what is known of an account at a host.
type Host struct {
	// Paused until that time.
	Paused time.Time
	// Concurrent is how many items are in flight at most; 0: no bound.
	Concurrent int
}

// State is what Next decides by.
type State struct {
	Namespaces []Namespace
	// Flight are the items that have been let in and have not ended.
	Flight []Item
	Hosts  map[string]Host
	// Windows are how many items of a step are in flight at most.
	Windows map[Step]int
	// IdleWorkers have nothing to do.
	IdleWorkers int
	Turns       Turns
}

// Turns is what is remembered from one call to the next. The zero value begins.
type Turns struct {
	// Left is what namespaces may still spend.
	Left map[string]int64
	// Had are the namespaces that have had their share of the round.
	Had map[string]bool
	// Streak counts interactive items in a row.
	Streak map[string]int
	// Last is the namespace that was served last.
	Last string
}

// Next gives the items that are let in now, in that order. The State is not changed.
func Next(s State, now time.Time) ([]Item, Turns) {
	r := newRound(s, now)
	var in []Item
	for {
		item, found := r.next()
		if !found {
			break
		}
		in = append(in, item)
	}
	return in, r.turns
}

// queue is a namespace in a call.
type queue struct {
	Namespace

	// waiting are the items in their order: interactive ones, scheduled ones.
	waiting [2][]Item
	flight  int
	bytes   int64
}

type round struct {
	State

	now        time.Time
	queues     []*queue
	turns      Turns
	steps      map[Step]int
	hosts      map[string]int
	registries map[string]int
	contents   map[string]bool
	idle       int
}

func newRound(s State, now time.Time) *round {
	r := &round{
		State: s, now: now, idle: s.IdleWorkers, steps: map[Step]int{}, hosts: map[string]int{}, registries: map[string]int{}, contents: map[string]bool{},
		turns: Turns{Left: map[string]int64{}, Had: map[string]bool{}, Streak: map[string]int{}, Last: s.Turns.Last},
	}
	maps.Copy(r.turns.Had, s.Turns.Had)
	flight := map[string]int{}
	for _, item := range s.Flight {
		flight[item.Namespace]++
		r.count(item)
	}
	for _, n := range s.Namespaces {
		if len(n.Waiting) == 0 {
			continue // what was left over is dropped
		}
		r.turns.Left[n.Name], r.turns.Streak[n.Name] = s.Turns.Left[n.Name], s.Turns.Streak[n.Name]
		n.Weight = max(n.Weight, 1)
		q := &queue{Namespace: n, flight: flight[n.Name], bytes: math.MaxInt64}
		if n.Bytes != nil {
			q.bytes = *n.Bytes
		}
		for _, item := range slices.SortedFunc(slices.Values(n.Waiting), before) {
			class := 1
			if item.Interactive {
				class = 0
			}
			q.waiting[class] = append(q.waiting[class], item)
		}
		r.queues = append(r.queues, q)
	}
	slices.SortFunc(r.queues, func(a, b *queue) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

func before(a, b Item) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Step, b.Step), a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}

func (r *round) count(item Item) {
	r.steps[item.Step]++
	r.registries[item.Registry]++
	if item.Host != "" {
		r.hosts[item.Host]++
	}
	if item.Content != "" {
		r.contents[item.Content] = true
	}
}

// next lets one item in, from the namespace that has most left of its share.
func (r *round) next() (Item, bool) {
	for {
		wanting, best := false, -1
		for i, q := range r.queues {
			item, found := r.head(q)
			if !found {
				continue
			}
			wanting = true
			if !r.turns.Had[q.Name] {
				r.turns.Had[q.Name] = true
				r.turns.Left[q.Name] += quantum * q.Weight
			}
			if item.Cost() <= r.turns.Left[q.Name] && (best < 0 || r.comesBefore(q, r.queues[best])) {
				best = i
			}
		}
		switch {
		case best >= 0:
			return r.letIn(r.queues[best]), true
		case !wanting:
			return Item{}, false
		}
		clear(r.turns.Had) // the next round
	}
}

// comesBefore tells whether a has more left of its share than b. Of equals the one comes first that follows on the last in the circle
// of names.
func (r *round) comesBefore(a, b *queue) bool {
	left, other := r.turns.Left[a.Name]*b.Weight, r.turns.Left[b.Name]*a.Weight
	if left != other {
		return left > other
	}
	return a.Name > r.turns.Last && b.Name <= r.turns.Last
}

// head is the item of a namespace that would be let in next.
func (r *round) head(q *queue) (Item, bool) {
	class, index := r.choose(q)
	if index < 0 {
		return Item{}, false
	}
	return q.waiting[class][index], true
}

func (r *round) choose(q *queue) (class, index int) {
	classes := [2]int{0, 1}
	if r.turns.Streak[q.Name] >= maxStreak {
		classes = [2]int{1, 0}
	}
	for _, class := range classes {
		index := slices.IndexFunc(q.waiting[class], func(item Item) bool { return r.may(q, item) })
		if index >= 0 {
			return class, index
		}
	}
	return 0, -1
}

// may tells whether an item may begin now.
func (r *round) may(q *queue, item Item) bool {
	host := r.Hosts[item.Host]
	switch {
	case item.NotBefore.After(r.now),
		r.steps[item.Step] >= r.Windows[item.Step],
		q.Concurrent > 0 && q.flight >= q.Concurrent,
		item.Concurrent > 0 && r.registries[item.Registry] >= item.Concurrent,
		item.Host != "" && (host.Paused.After(r.now) || host.Concurrent > 0 && r.hosts[item.Host] >= host.Concurrent),
		item.Content != "" && r.contents[item.Content],
		item.Step == SBOM && item.Bytes > q.bytes,
		item.Alone && r.idle < 1:
		return false
	}
	return true
}

func (r *round) letIn(q *queue) Item {
	class, index := r.choose(q)
	item := q.waiting[class][index]
	q.waiting[class] = slices.Delete(q.waiting[class], index, index+1)
	q.flight++
	if item.Step == SBOM {
		q.bytes -= item.Bytes
	}
	if item.Alone {
		r.idle--
	}
	if class == 0 {
		r.turns.Streak[q.Name]++
	} else {
		r.turns.Streak[q.Name] = 0
	}
	r.turns.Left[q.Name] -= item.Cost()
	r.turns.Last = q.Name
	if len(q.waiting[0])+len(q.waiting[1]) == 0 {
		delete(r.turns.Left, q.Name)
		delete(r.turns.Streak, q.Name)
	}
	r.count(item)
	return item
}
