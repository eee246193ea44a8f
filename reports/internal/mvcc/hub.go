// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"slices"
	"sort"
	"sync"
)

// EventType is what a change did.
type EventType int

// String is the type in one word, for metrics.
func (t EventType) String() string {
	switch t {
	case Added:
		return "added"
	case Modified:
		return "modified"
	case Deleted:
		return "deleted"
	case compaction:
		return "compacted"
	case tick:
	}
	return "tick"
}

// Types of changes, as the database keeps them.
const (
	Added      EventType = 1
	Modified   EventType = 2
	Deleted    EventType = 3
	compaction EventType = 4
	tick       EventType = 5 // a number without a change
)

// Event is a change. Before is nil for Added, After is nil for Deleted, both are for changes that concern no key.
type Event struct {
	Revision      int64
	Type          EventType
	Key           string
	Before, After *Value
	upTo          int64 // of a compaction
}

func (e *Event) size() int64 {
	size := int64(200 + len(e.Key))
	for _, value := range []*Value{e.Before, e.After} {
		if value != nil {
			size += int64(len(value.Head) + len(value.Payload))
		}
	}
	return size
}

// hub holds the recent events and knows how far the log has been read.
type hub struct {
	maxEvents int
	maxBytes  int64

	mu        sync.Mutex
	events    []Event // in the order of their revisions, all that are newer than start
	bytes     int64
	start     int64 // the newest revision that is not in events
	revision  int64
	compacted int64
	changed   chan struct{} // closed and replaced when events are added
	ended     chan struct{} // closed and replaced when watches have to end
	watchers  int
	told      bool // other replicas tell of their changes

	woken chan struct{} // of one: the log has to be read
}

func newHub(revision, compacted int64, maxEvents int, maxBytes int64) *hub {
	return &hub{
		maxEvents: maxEvents, maxBytes: maxBytes, start: revision, revision: revision, compacted: compacted,
		changed: make(chan struct{}), ended: make(chan struct{}), woken: make(chan struct{}, 1),
	}
}

func (h *hub) state() (revision, compacted int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision, h.compacted
}

// end ends the watches that there are.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.ended)
	h.ended = make(chan struct{})
}

// join counts a watcher and returns what tells it to end.
func (h *hub) join() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers++
	return h.ended
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers--
}

func (h *hub) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watchers > 0
}

func (h *hub) listening() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *hub) setListening(told bool) {
	h.mu.Lock()
	h.told = told
	h.mu.Unlock()
	h.wake() // for what was missed before
}

// wake has the log read.
func (h *hub) wake() {
	select {
	case h.woken <- struct{}{}:
	default: // it will be
	}
}

// skip goes on behind changes that can no longer be read. Watchers that are there are too old.
func (h *hub) skip(compacted int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if compacted <= h.revision {
		return
	}
	h.events, h.bytes, h.start = nil, 0, compacted
	h.revision, h.compacted = compacted, compacted
	close(h.changed)
	h.changed = make(chan struct{})
}

// offer takes events that were committed here, if none is missing between them and what the hub has seen. It returns
// false if the log has to be read.
func (h *hub) offer(events []Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(events) == 0 {
		return true
	}
	advance := events[0].Type == compaction && events[0].upTo == events[0].Revision // what it leaves out is too old
	if events[0].Revision > h.revision+1 && !advance {
		return false
	}
	h.add(events)
	return true
}

// publish takes events that were read from the log. A gap is a jump of the counter, behind which nothing is left.
func (h *hub) publish(events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(events)
}

func (h *hub) add(events []Event) {
	added := false
	for _, event := range events {
		if event.Revision <= h.revision {
			continue
		}
		if event.Revision != h.revision+1 {
			// Numbers were left out: whoever has not seen them all has to list anew, which the log tells.
			h.events, h.bytes, h.start = nil, 0, event.Revision-1
		}
		h.events = append(h.events, event)
		h.bytes += event.size()
		h.revision = event.Revision
		if event.Type == compaction {
			h.compacted = max(h.compacted, event.upTo)
			if event.upTo == event.Revision {
				h.events, h.bytes, h.start = nil, 0, event.Revision // an advance makes everything before it too old
			}
		}
		added = true
	}
	if !added {
		return
	}
	h.trim()
	close(h.changed)
	h.changed = make(chan struct{})
}

// trim drops the oldest events where there are too many. What it drops is cleared, so that the values can be freed though
// the slice still reaches there; append moves the rest when the slice has to grow.
func (h *hub) trim() {
	drop := 0
	for drop < len(h.events)-1 && (len(h.events)-drop > h.maxEvents || h.bytes > h.maxBytes) {
		h.bytes -= h.events[drop].size()
		h.start = h.events[drop].Revision
		h.events[drop] = Event{}
		drop++
	}
	h.events = h.events[drop:]
}

// after returns up to limit events behind a revision, and a channel that is closed when there may be more. behind is
// true if the ring no longer reaches back.
func (h *hub) after(revision int64, limit int) (events []Event, more <-chan struct{}, behind bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision < h.start {
		return nil, h.changed, true
	}
	first := sort.Search(len(h.events), func(i int) bool { return h.events[i].Revision > revision })
	last := min(len(h.events), first+limit)
	return slices.Clone(h.events[first:last]), h.changed, false
}
