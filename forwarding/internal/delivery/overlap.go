// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"

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
// It tells whether it did anything. Where a batch fails, those behind it that the far end has taken already are sent once more.
func (l *lane) overlap(ctx context.Context) (did bool) {
	var flights []*flight
	defer func() {
		for _, f := range flights {
			<-f.landed
		}
	}()
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
	if err != nil || len(records) == 0 {
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
