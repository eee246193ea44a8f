// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"slices"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// inFlight bounds the batches of a tenant that are on their way to a sink that keeps no order: while the far end works on one, the next one is made.
const inFlight = 2

// flight is a batch on its way.
type flight struct {
	work    work
	outcome sink.Outcome
	err     error
	landed  chan struct{}
}

// overlaps tells whether more than one batch may be on its way: the sink keeps no order, and nothing is wrong with it.
func (l *lane) overlaps() bool {
	if s, can := l.w.options.Sink.(sink.Unordered); !can || !s.Unordered() || l.breaker.Open {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Health == Healthy && l.state.Share == 1
}

// overlap delivers what is behind the cursor, some batches at a time, and settles them in their order, until there is no more or something fails.
// It tells whether it did anything. Where a batch fails, those behind it that the far end has taken already are settled after it.
func (l *lane) overlap(ctx context.Context) (did bool) {
	var flights []*flight
	defer func() { l.keepTaken(flights) }()
	after := l.w.options.Queue.Cursor(l.w.options.Name, l.tenant)
	for {
		for len(flights) < inFlight {
			f := l.launch(ctx, after)
			if f == nil {
				break
			}
			flights, after = append(flights, f), f.work.records[len(f.work.records)-1].Sequence
		}
		if len(flights) == 0 {
			return did
		}
		first := flights[0]
		<-first.landed
		did, flights = true, flights[1:]
		if err := l.land(ctx, first); err != nil {
			l.failUnlessEnded(ctx, err)
			return did
		}
	}
}

// launch sends the batch that follows a sequence; nil: there is none, or it is not for here.
func (l *lane) launch(ctx context.Context, after uint64) *flight {
	o := l.w.options
	if letters, err := o.Queue.DeadLetters(o.Name, l.tenant, true, 1); err != nil || len(letters) > 0 || ctx.Err() != nil || !l.overlaps() {
		return nil
	}
	records, err := l.reader.Next(after, o.MaxRecords, o.MaxBytes)
	if records = l.untaken(records); err != nil || len(records) == 0 {
		return nil
	}
	f := &flight{work: l.oneStream(work{records: records}), landed: make(chan struct{})}
	if !l.w.turns.take(ctx, l.tenant, f.work.size()) {
		return nil
	}
	go func() {
		defer close(f.landed)
		defer l.w.turns.give()
		f.outcome, f.err = l.send(ctx, f.work.records)
	}()
	return f
}

// land notes how a batch went. One that was refused as a whole is halved, while no other is sent.
func (l *lane) land(ctx context.Context, f *flight) error {
	err := f.err
	switch {
	case err == nil:
		err = l.settle(f.work, f.outcome)
	case sink.AsError(err).Class == sink.Refused:
		err = l.deliver(ctx, f.work, true)
	}
	if err == nil {
		l.succeed()
	}
	return err
}

// keepTaken waits for batches behind one that failed, and keeps those that the far end has answered for: they are not sent again.
func (l *lane) keepTaken(flights []*flight) {
	for _, f := range flights {
		<-f.landed
		if f.err == nil {
			l.taken = append(l.taken, f)
		}
	}
}

// untaken cuts records where those begin that the far end has taken already.
func (l *lane) untaken(records []*queue.Record) []*queue.Record {
	if len(l.taken) == 0 {
		return records
	}
	first := l.taken[0].work.records[0].Sequence
	at := slices.IndexFunc(records, func(r *queue.Record) bool { return r.Sequence >= first })
	if at < 0 {
		return records
	}
	return records[:at]
}

// settleTaken settles what the far end has taken already, where nothing is left before it. While the far end refuses everything, what it said before is
// forgotten, and its records are sent once more.
func (l *lane) settleTaken() error {
	o := l.w.options
	for len(l.taken) > 0 && !l.breaker.Open {
		f := l.taken[0]
		records, err := l.reader.Next(o.Queue.Cursor(o.Name, l.tenant), 1, 1)
		if err != nil {
			return err
		}
		if len(records) > 0 && records[0].Sequence < f.work.records[0].Sequence {
			return nil
		}
		l.taken = l.taken[1:]
		if err := l.settle(f.work, f.outcome); err != nil {
			return err
		}
	}
	if l.breaker.Open {
		l.taken = nil
	}
	return nil
}
