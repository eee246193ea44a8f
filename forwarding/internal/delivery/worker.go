// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/breaker"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// StreamName is the name of the exporter's own streams of decisions.
const StreamName = "exporter"

const (
	defaultRecords = 500
	defaultBytes   = 1 << 20
	defaultTimeout = 30 * time.Second
	atOnce         = 4
)

// Options are how a sink is served.
type Options struct {
	Name       string
	Sink       sink.Sink
	Queue      *queue.Queue
	ClusterID  string
	MaxRecords int
	MaxBytes   int64
	Timeout    time.Duration
	Retry      retry.Bounds
	Now        func() time.Time
	Log        *slog.Logger
	Observe    Observer
}

// Observer is told what happened, for metrics.
type Observer interface {
	Attempt(sink, class string)
	Records(sink, tenant, outcome string, n int)
	Delivered(sink string, waited time.Duration)
}

// Worker serves one sink.
type Worker struct {
	options Options
	turns   *turns

	mu    sync.Mutex
	lanes map[string]*lane
}

// New makes a worker.
func New(o Options) *Worker {
	if o.MaxRecords == 0 {
		o.MaxRecords = defaultRecords
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Worker{options: o, turns: newTurns(atOnce), lanes: map[string]*lane{}}
}

// Run serves all tenants until ctx ends, and returns when no call of the sink is under way.
func (w *Worker) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		arrived := w.options.Queue.Arrived()
		for _, tenant := range w.options.Queue.Tenants() {
			if w.has(tenant) {
				continue
			}
			l, err := newLane(w, tenant)
			if err != nil {
				return err
			}
			w.mu.Lock()
			w.lanes[tenant] = l
			w.mu.Unlock()
			all.Go(func() { l.run(ctx) })
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Worker) has(tenant string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lanes[tenant] != nil
}

// State tells how it goes with a tenant.
func (w *Worker) State(tenant string) State {
	w.mu.Lock()
	l := w.lanes[tenant]
	w.mu.Unlock()
	if l == nil {
		return State{Health: Unknown}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// lane is the way of one tenant's records to the sink.
type lane struct {
	w       *Worker
	tenant  string
	reader  *queue.Reader
	breaker breaker.Breaker
	newest  bool      // the next probe of an open breaker sends the newest record
	taken   []*flight // behind a batch that failed, in their order: the far end has them

	mu    sync.Mutex
	state State
}

func newLane(w *Worker, tenant string) (*lane, error) {
	r, err := w.options.Queue.Reader(tenant)
	return &lane{w: w, tenant: tenant, reader: r, state: State{Health: Unknown, Share: 1}}, err
}

// work is what is sent next.
type work struct {
	records []*queue.Record
	replay  bool // they are dead letters that are tried again
	attempt map[uint64]int
}

// size is what the records count.
func (w work) size() (size int64) {
	for _, r := range w.records {
		size += r.Size()
	}
	return size
}

func (l *lane) run(ctx context.Context) {
	for ctx.Err() == nil {
		arrived := l.w.options.Queue.Arrived()
		if !l.sleep(ctx) {
			return
		}
		if err := l.settleTaken(); err != nil {
			l.failUnlessEnded(ctx, err)
			continue
		}
		if l.overlaps() && l.overlap(ctx) {
			continue
		}
		next, err := l.next()
		if err != nil {
			l.fail(&sink.Error{Class: sink.Transport, Reason: sink.Unknown, Message: "reading the queue: " + err.Error()})
			continue
		}
		if len(next.records) == 0 {
			select {
			case <-arrived:
			case <-ctx.Done():
			}
			continue
		}
		l.attempt(ctx, next)
	}
}

// sleep waits until the next try is due.
func (l *lane) sleep(ctx context.Context) bool {
	l.mu.Lock()
	delay := l.state.NextTry.Sub(l.w.options.Now())
	l.mu.Unlock()
	if delay <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// next reads what is due: dead letters that are tried again, then what is behind the cursor.
func (l *lane) next() (work, error) {
	o := l.w.options
	l.mu.Lock()
	records, bytes := max(1, int(float64(o.MaxRecords)*l.state.Share)), max(1, int64(float64(o.MaxBytes)*l.state.Share))
	l.mu.Unlock()
	if _, tooMany := o.Queue.TooManyDeadLetters(o.Name, l.tenant); tooMany || l.breaker.Open {
		records = 1 // so that dead letters grow by one at a time
	}
	letters, err := o.Queue.DeadLetters(o.Name, l.tenant, true, records)
	if err != nil {
		return work{}, err
	}
	if probesNewest := l.breaker.Open && l.newest; len(letters) > 0 && !probesNewest {
		again := work{replay: true, attempt: map[uint64]int{}}
		for _, d := range letters {
			again.records = append(again.records, d.Record)
			again.attempt[d.Record.Sequence] = d.Attempts
		}
		return l.oneStream(again), nil
	}
	after := o.Queue.Cursor(o.Name, l.tenant)
	if l.breaker.Open && l.newest {
		if last := o.Queue.Last(l.tenant); last > after+1 {
			after = last - 1
		}
	}
	found, err := l.reader.Next(after, records, bytes)
	if !l.breaker.Open {
		found = l.untaken(found)
	}
	return l.oneStream(work{records: found}), err
}

// oneStream cuts the work where another stream begins, unless the sink takes several streams in one call.
func (l *lane) oneStream(next work) work {
	if _, several := l.w.options.Sink.(sink.Gatherer); several {
		return next
	}
	for i, r := range next.records {
		if string(r.Stream) != string(next.records[0].Stream) {
			next.records = next.records[:i]
			break
		}
	}
	return next
}

// attempt probes or delivers once, and notes how it went.
func (l *lane) attempt(ctx context.Context, next work) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if state.Probing() && !l.breaker.Open {
		if err := l.call(ctx, func(ctx context.Context) error { return l.w.options.Sink.Probe(ctx) }); err != nil {
			l.failUnlessEnded(ctx, err)
			return
		}
	}
	if !l.w.turns.take(ctx, l.tenant, next.size()) {
		return
	}
	defer l.w.turns.give()
	if l.breaker.Open {
		l.newest = !l.newest
		if err := l.probeRecord(ctx, next); err != nil {
			l.failUnlessEnded(ctx, err)
		}
		return
	}
	if err := l.deliver(ctx, next, false); err != nil {
		l.failUnlessEnded(ctx, err)
		return
	}
	l.succeed()
}

// succeed notes that the sink has taken a batch.
func (l *lane) succeed() {
	l.mu.Lock()
	recovered := l.state.Health != Healthy
	l.state = l.state.delivered()
	l.mu.Unlock()
	if recovered {
		l.w.options.Log.Info("the sink takes records", "sink", l.w.options.Name, "tenant", l.tenant)
	}
}

func (l *lane) failUnlessEnded(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.fail(sink.AsError(err))
	}
}

func (l *lane) fail(e *sink.Error) {
	o := l.w.options
	l.mu.Lock()
	before := l.state
	l.state = before.failed(e, o.Retry, o.Now(), rand.Float64()) //nolint:gosec // jitter is not a secret
	l.mu.Unlock()
	if before.Reason != e.Reason {
		o.Log.Warn("the sink does not take records; they are kept", "sink", o.Name, "tenant", l.tenant,
			"class", string(e.Class), "reason", string(e.Reason), "message", e.Message)
	}
}

func (l *lane) call(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.w.options.Timeout)
	defer cancel()
	err := f(bounded)
	class := "ok"
	if err != nil {
		class = string(sink.AsError(err).Class)
		if bounded.Err() != nil && ctx.Err() == nil {
			err = &sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: fmt.Sprintf("no answer within %s", l.w.options.Timeout)}
			class = string(sink.Transport)
		}
	}
	l.w.options.Observe.Attempt(l.w.options.Name, class)
	return err
}

// send calls the sink once.
func (l *lane) send(ctx context.Context, records []*queue.Record) (outcome sink.Outcome, err error) {
	batches, err := l.batches(records)
	if err != nil {
		return outcome, err
	}
	err = l.call(ctx, func(ctx context.Context) error {
		var err error
		if gatherer, several := l.w.options.Sink.(sink.Gatherer); several && len(batches) > 1 {
			outcome, err = gatherer.Gather(ctx, batches)
		} else {
			outcome, err = l.w.options.Sink.Deliver(ctx, batches[0])
		}
		return err
	})
	return outcome, err
}

// deliver sends records, and halves them where the far end refuses them as a whole. known: it has refused them already.
// What is confirmed is settled, also where a later part fails.
func (l *lane) deliver(ctx context.Context, w work, known bool) error {
	if !known || len(w.records) == 1 {
		outcome, err := l.send(ctx, w.records)
		if err == nil {
			return l.settle(w, outcome)
		}
		e := sink.AsError(err)
		if e.Class != sink.Refused {
			return err
		}
		if len(w.records) == 1 {
			return l.settle(w, sink.Outcome{Rejected: []sink.Rejection{{EventID: w.records[0].ID, Reason: string(e.Reason), Message: e.Message}}})
		}
	}
	half := len(w.records) / 2
	left, right := w, w
	left.records, right.records = w.records[:half], w.records[half:]
	refusedBefore := l.breaker.Sum
	if err := l.deliver(ctx, left, false); err != nil {
		return err
	}
	return l.deliver(ctx, right, l.breaker.Sum == refusedBefore && !w.replay)
}

// settle notes what the far end has answered: the cursor moves, and what is refused becomes a dead letter.
func (l *lane) settle(w work, outcome sink.Outcome) error {
	o := l.w.options
	rejected := map[string]sink.Rejection{}
	for _, r := range outcome.Rejected {
		rejected[r.EventID] = r
	}
	s := queue.Settlement{Sink: o.Name, Tenant: l.tenant}
	opened := false
	for _, record := range w.records {
		r, refused := rejected[record.ID]
		if !refused {
			s.Delivered++
			s.Bytes += record.Size()
			l.breaker.Accepted(1)
			if w.replay {
				s.Gone = append(s.Gone, record.Sequence)
			}
			o.Observe.Delivered(o.Name, o.Now().Sub(record.Time))
			continue
		}
		s.Dead = append(s.Dead, &queue.DeadLetter{
			Record: record, Class: string(sink.Refused), Reason: r.Reason, Message: r.Message, Attempts: w.attempt[record.Sequence] + 1, Time: o.Now(),
		})
		if !w.replay { // what is tried again has been counted
			opened = l.breaker.Refused(record.Sequence) || opened
		}
	}
	if !w.replay {
		s.Through = w.records[len(w.records)-1].Sequence
	}
	o.Observe.Records(o.Name, l.tenant, "delivered", int(s.Delivered)-min(outcome.Duplicates, int(s.Delivered)))
	o.Observe.Records(o.Name, l.tenant, "duplicate", min(outcome.Duplicates, int(s.Delivered)))
	o.Observe.Records(o.Name, l.tenant, "rejected", len(s.Dead))
	if err := l.settleQueue(s); err != nil {
		return err
	}
	if opened && l.breaker.Open {
		return l.giveBack()
	}
	if bytes, tooMany := o.Queue.TooManyDeadLetters(o.Name, l.tenant); tooMany && len(s.Dead) > 0 && !w.replay {
		l.breaker.Open = true
		l.breaker.TakeRun()
		message := fmt.Sprintf("its dead letters hold %d bytes, a tenth of what tenant %s may hold: see exporter queue ls --dead-letters", bytes, l.tenant)
		return &sink.Error{Class: sink.Incompatible, Reason: sink.RefusesEverything, Message: message}
	}
	return nil
}

func (l *lane) settleQueue(s queue.Settlement) error {
	done := make(chan error, 1)
	l.w.options.Queue.Settle(s, func(err error) { done <- err })
	return <-done
}

// giveBack puts the refused ones of this run to the head of the work: it was no fault of theirs.
func (l *lane) giveBack() error {
	o := l.w.options
	run := map[uint64]bool{}
	for _, sequence := range l.breaker.TakeRun() {
		run[sequence] = true
	}
	letters, err := o.Queue.DeadLetters(o.Name, l.tenant, false, 1<<30)
	if err != nil {
		return err
	}
	s := queue.Settlement{Sink: o.Name, Tenant: l.tenant}
	message := ""
	for _, d := range letters {
		if run[d.Record.Sequence] {
			d.Replay = true
			s.Dead = append(s.Dead, d)
			message = d.Message
		}
	}
	if err := l.settleQueue(s); err != nil {
		return err
	}
	message = fmt.Sprintf("it refused %d records in a row, the last one with: %s", len(s.Dead), message)
	return &sink.Error{Class: sink.Incompatible, Reason: sink.RefusesEverything, Message: message}
}

// probeRecord asks with one record whether the far end still refuses everything.
func (l *lane) probeRecord(ctx context.Context, w work) error {
	outcome, err := l.send(ctx, w.records)
	if err == nil && len(outcome.Rejected) == 0 {
		l.breaker.Accepted(1)
		l.mu.Lock()
		l.state = State{Health: Healthy, Share: l.state.Share}
		l.mu.Unlock()
		if cursor := l.w.options.Queue.Cursor(l.w.options.Name, l.tenant); !w.replay && w.records[0].Sequence > cursor+1 {
			return nil // the newest: it comes again in its order
		}
		return l.settle(w, outcome)
	}
	if err != nil && sink.AsError(err).Class != sink.Refused {
		return err
	}
	return &sink.Error{Class: sink.Incompatible, Reason: sink.RefusesEverything, Message: "it still refuses single records"}
}

// batches makes what the sink takes of records: a batch for each stream, in the order in which the streams begin.
func (l *lane) batches(records []*queue.Record) ([]sink.Batch, error) {
	var all []sink.Batch
	places := map[string]int{}
	for _, r := range records {
		at, known := places[string(r.Stream)]
		if !known {
			stream, err := l.stream(r)
			if err != nil {
				return nil, err
			}
			at = len(all)
			places[string(r.Stream)], all = at, append(all, sink.Batch{Stream: stream})
		}
		record, err := recordOf(r)
		if err != nil {
			return nil, err
		}
		all[at].Records = append(all[at].Records, record)
	}
	return all, nil
}

// stream is the one that a record came in, or the exporter's own.
func (l *lane) stream(r *queue.Record) (*forwardingv1.StreamId, error) {
	if r.Stream == nil {
		o := l.w.options
		return &forwardingv1.StreamId{
			ClusterId: o.ClusterID, Tenant: l.tenant, Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: StreamName, Uid: o.Queue.ID(),
		}, nil
	}
	stream := &forwardingv1.StreamId{}
	return stream, proto.Unmarshal(r.Stream, stream)
}

func recordOf(r *queue.Record) (sink.Record, error) {
	if r.Message == nil {
		return sink.Record{EventID: r.ID, Sequence: r.Sequence, ObservedAt: r.Time, Line: r.Line, Metadata: r.Metadata}, nil
	}
	message := r.Decoded
	if message == nil {
		var err error
		if message, err = wire.DecodeRecord(r.Message); err != nil {
			return sink.Record{}, err
		}
	}
	return sink.Record{
		EventID: message.GetEventId(), Sequence: message.GetSequence(), ObservedAt: message.GetObservedAt().AsTime(), Message: message,
	}, nil
}
