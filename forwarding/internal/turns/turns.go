// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"cmp"
	"slices"
	"time"
)

// Task is one Scan on its way to one sink.
type Task struct {
	Sink, Namespace, UID string
}

// Bounds of the streams. Zeros take the defaults.
type Bounds struct {
	// Workers is how many streams there are at a time, PerSink how many of them one sink has.
	Workers, PerSink int
	// Quantum is how many bytes a namespace may send to a sink in one round.
	Quantum int64
}

// The defaults.
const (
	DefaultWorkers = 4
	DefaultPerSink = 4
	DefaultQuantum = 8 << 20
)

// Turns knows who waits and who is being sent. It is for one goroutine at a time.
type Turns struct {
	bounds  Bounds
	lanes   map[string]*lane
	tasks   map[Task]*entry
	running int
	served  uint64
}

// lane is one sink.
type lane struct {
	name    string
	limit   int
	quantum int64
	running int
	served  uint64 // when it had its last turn
	queues  []*queue
	// left is what namespaces have left of this round in which nobody waits or runs now: who comes back gets no more.
	left map[string]int64
}

// queue is one namespace of a sink.
type queue struct {
	name    string
	deficit int64
	running int
	waiting []*entry
}

type entry struct {
	task  Task
	ended time.Time
	runs  bool
}

// New returns Turns in which nobody waits.
func New(bounds Bounds) *Turns {
	bounds.Workers = cmp.Or(bounds.Workers, DefaultWorkers)
	bounds.PerSink = cmp.Or(bounds.PerSink, DefaultPerSink)
	bounds.Quantum = cmp.Or(bounds.Quantum, DefaultQuantum)
	return &Turns{bounds: bounds, lanes: map[string]*lane{}, tasks: map[Task]*entry{}}
}

// Limit says how many streams a sink may have now, at most the bound; 0 for a sink that is not healthy.
func (t *Turns) Limit(sink string, streams int) { t.lane(sink).limit = min(streams, t.bounds.PerSink) }

// Forget drops a sink and everybody who waits for the sink. Streams that run end by Done.
func (t *Turns) Forget(sink string) {
	l := t.lanes[sink]
	if l == nil {
		return
	}
	l.limit = 0
	for _, q := range l.queues {
		for _, e := range q.waiting {
			delete(t.tasks, e.task)
		}
		q.waiting = nil
	}
	t.tidy(l)
}

// Add puts a task into the queue of its namespace by the time at which the Scan ended. A task that is known is left where it is.
func (t *Turns) Add(task Task, ended time.Time) {
	if t.tasks[task] != nil {
		return
	}
	e := &entry{task: task, ended: ended}
	t.tasks[task] = e
	t.lane(task.Sink).queue(task.Namespace).insert(e)
}

// Remove drops a task that waits. One that runs ends by Done.
func (t *Turns) Remove(task Task) {
	e := t.tasks[task]
	if e == nil || e.runs {
		return
	}
	l := t.lane(task.Sink)
	q := l.queue(task.Namespace)
	q.waiting = slices.DeleteFunc(q.waiting, func(other *entry) bool { return other == e })
	delete(t.tasks, task)
	t.tidy(l)
}

// Knows tells whether a task waits or runs.
func (t *Turns) Knows(task Task) bool { return t.tasks[task] != nil }

// Next gives the task whose turn it is; it runs from now on.
func (t *Turns) Next() (Task, bool) {
	if t.running >= t.bounds.Workers {
		return Task{}, false
	}
	var chosen *lane
	for _, l := range t.lanes {
		if !l.ready() {
			continue
		}
		if chosen == nil || cmp.Or(cmp.Compare(l.running, chosen.running), cmp.Compare(l.served, chosen.served), cmp.Compare(l.name, chosen.name)) < 0 {
			chosen = l
		}
	}
	if chosen == nil {
		return Task{}, false
	}
	q := chosen.pick()
	e := q.waiting[0]
	q.waiting = q.waiting[1:]
	t.served++
	chosen.served = t.served
	e.runs = true
	q.running++
	chosen.running++
	t.running++
	return e.task, true
}

// Spent notes bytes that a running task has sent, and is true where its stream should make room: the namespace has used up
// its bytes of this round, and somebody else waits who could have a turn.
func (t *Turns) Spent(task Task, bytes int64) bool {
	l := t.lane(task.Sink)
	q := l.queue(task.Namespace)
	q.deficit -= bytes
	if q.deficit > 0 {
		return false
	}
	l.last(q)
	full := t.running >= t.bounds.Workers
	for _, other := range l.queues {
		if other != q && len(other.waiting) > 0 && (full || l.running >= l.limit) {
			return true
		}
	}
	if !full {
		return false
	}
	for _, other := range t.lanes {
		if other != l && other.ready() && other.running < l.running {
			return true
		}
	}
	return false
}

// Done ends the stream of a task. The task is forgotten; one that has to go on is added again.
func (t *Turns) Done(task Task) {
	e := t.tasks[task]
	if e == nil || !e.runs {
		return
	}
	l := t.lane(task.Sink)
	q := l.queue(task.Namespace)
	delete(t.tasks, task)
	q.running--
	l.running--
	t.running--
	t.tidy(l)
}

// Waiting counts the tasks of a sink that wait or run.
func (t *Turns) Waiting(sink string) int {
	l := t.lanes[sink]
	if l == nil {
		return 0
	}
	n := l.running
	for _, q := range l.queues {
		n += len(q.waiting)
	}
	return n
}

func (t *Turns) lane(sink string) *lane {
	l := t.lanes[sink]
	if l == nil {
		l = &lane{name: sink, limit: t.bounds.PerSink, quantum: t.bounds.Quantum, left: map[string]int64{}}
		t.lanes[sink] = l
	}
	return l
}

// tidy forgets queues in which nobody waits or runs. What they have left counts until the round ends: nobody saves up bytes, and
// nobody gets a second quantum by leaving. A round ends as well when there are no queues.
func (t *Turns) tidy(l *lane) {
	l.queues = slices.DeleteFunc(l.queues, func(q *queue) bool {
		idle := len(q.waiting) == 0 && q.running == 0
		if idle {
			l.left[q.name] = q.deficit
		}
		return idle
	})
	if len(l.queues) == 0 {
		clear(l.left)
	}
}

// ready tells whether somebody waits for a sink that may have another stream.
func (l *lane) ready() bool {
	return l.running < l.limit && slices.ContainsFunc(l.queues, func(q *queue) bool { return len(q.waiting) > 0 })
}

func (l *lane) queue(namespace string) *queue {
	for _, q := range l.queues {
		if q.name == namespace {
			return q
		}
	}
	q := &queue{name: namespace, deficit: l.quantum}
	if left, known := l.left[namespace]; known {
		q.deficit = left
		delete(l.left, namespace)
	}
	l.queues = append(l.queues, q)
	return q
}

// pick chooses the namespace: the first that waits and has bytes left. Each round gives every namespace that waits a quantum, also
// one that comes in the middle of the round; whoever has had a turn goes to the end.
func (l *lane) pick() *queue {
	for {
		for _, q := range l.queues {
			if len(q.waiting) > 0 && q.deficit > 0 {
				l.last(q)
				return q
			}
		}
		clear(l.left)
		for _, q := range l.queues {
			if len(q.waiting) > 0 {
				q.deficit = min(q.deficit+l.quantum, l.quantum)
			}
		}
	}
}

// last puts a namespace behind all others.
func (l *lane) last(q *queue) {
	l.queues = append(slices.DeleteFunc(l.queues, func(other *queue) bool { return other == q }), q)
}

// insert keeps the queue in the order in which the Scans ended.
func (q *queue) insert(e *entry) {
	at, _ := slices.BinarySearchFunc(q.waiting, e, func(a, b *entry) int {
		return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.task.UID, b.task.UID))
	})
	q.waiting = slices.Insert(q.waiting, at, e)
}
