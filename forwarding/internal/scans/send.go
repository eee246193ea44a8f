// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Verdict is what is known of a Scan at a far end.
type Verdict string

// Verdicts. Only the first two end the sending.
const (
	// Complete: the far end keeps what it acknowledges, and has told our count and chain.
	Complete Verdict = "Complete"
	// Accepted: the far end has acknowledged everything.
	Accepted Verdict = "Accepted"
	// Incomplete: the far end misses records.
	Incomplete Verdict = "Incomplete"
	// Conflict: the far end holds other records under the same ids.
	Conflict Verdict = "Conflict"
	// Pending: the far end has not acknowledged everything.
	Pending Verdict = "Pending"
)

// Report is how the sending of one Scan to one sink has ended. Records counts the closing record, too.
type Report struct {
	Records, Stored, Duplicates, Rejected uint64
	Verdict                               Verdict
	Chain                                 []byte
	// Rejections are the first of the records that were rejected.
	Rejections []sink.Rejection
	// Cursor is behind the last record that the far end has acknowledged, without the closing one.
	Cursor Cursor
	// Missing counts the records that the far end misses, where it says so.
	Missing uint64
}

// Cursor is how far a far end has a Scan. The zero value is the start.
type Cursor struct {
	mapping.Position

	// Chain is over what was accepted up to there; nil for nothing.
	Chain []byte
	// Accepted and Rejected count the records up to there that the far end took and refused.
	Accepted, Rejected uint64
}

// DeadLetters counts what will never get to the far end: what it refused, and the elements that no record could be made of.
func (c Cursor) DeadLetters() uint64 { return c.Rejected + c.Refused }

// maxRejections bounds the rejections that are told one by one.
const maxRejections = 100

// reject notes rejections without counting them.
func (r *Report) reject(rejections ...sink.Rejection) {
	r.Rejections = append(r.Rejections, rejections[:min(len(rejections), maxRejections-len(r.Rejections))]...)
}

// Each gives all records of a Scan to one, the closing record as if the far end had accepted all others.
func Each(reader *mapping.Reader, one func(sink.Record) error) error {
	chain, count := make([]byte, chainBytes), uint64(0)
	for {
		record, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return one(reader.Closing(count, chain))
		}
		if err != nil {
			return err
		}
		chain, count = forwardingv1.AppendChain(chain, record.Message.GetDigest()), count+1
		if err := one(record); err != nil {
			return err
		}
	}
}

// Limits bound a batch. Zeros take the defaults.
type Limits struct {
	MaxRecords, MaxBytes int
}

// Bounds of a batch where nobody says others.
const (
	defaultMaxRecords = 500
	defaultMaxBytes   = 1 << 20
)

// Sending is what one Scan needs to be sent to one sink.
type Sending struct {
	Sink   sink.Sink
	Limits Limits
	Retry  Retry
	// Open opens the records behind a position, as often as they have to be sent.
	Open func(ctx context.Context, at mapping.Position) (*mapping.Reader, io.Closer, error)
	// From is where an earlier sending came to. Where Stream is set, a far end that holds less than that gets everything.
	From   Cursor
	Stream *forwardingv1.StreamId
	// Progress is told each batch that was acknowledged; false ends the sending there, with ErrStopped. Nil: nothing is told.
	Progress func(cursor Cursor, bytes int) bool
	// Guard sees when the far end refuses everything; nil: that is not looked at.
	Guard Guard
}

// Guard sees what becomes of records. A far end that refuses everything is not a fault of the records.
type Guard interface {
	// Note takes what became of a batch, in order, and is true where the far end refuses everything by now.
	Note(accepted []bool) bool
	// IsOpen is true while the far end refuses everything: then single records ask whether that is still so.
	IsOpen() (open, newest bool)
}

// ErrStopped ends a sending that Progress has stopped.
var ErrStopped = errors.New("the sending was stopped")

// attempts is how often a Scan is sent without progress: a far end that misses records gets them, or everything, once more.
const attempts = 2

// Send sends everything behind From and asks for the verdict. An error says why the verdict is neither Complete nor Accepted.
func (s *Sending) Send(ctx context.Context) (Report, error) {
	if s.Limits.MaxRecords <= 0 {
		s.Limits.MaxRecords = defaultMaxRecords
	}
	if s.Limits.MaxBytes <= 0 {
		s.Limits.MaxBytes = defaultMaxBytes
	}
	first := &passage{sending: s, deliver: delivery{sink: s.Sink, retry: s.Retry, guard: s.Guard}, cursor: s.From, good: s.From}
	report, err := first.run(ctx)
	if err != nil {
		return report, err
	}
	missing := report.Missing
	for tries := 1; report.Verdict == Incomplete && tries < attempts; {
		again := &passage{sending: s, deliver: first.deliver}
		if len(first.gaps) > 0 {
			again.gaps, again.of = first.gaps, &report
		}
		if report, err = again.run(ctx); err != nil {
			return report, err
		}
		if report.Missing >= missing {
			tries++
		}
		missing, first = report.Missing, again
	}
	switch report.Verdict {
	case Complete, Accepted:
		return report, nil
	case Conflict:
		return report, &sink.Error{
			Class: sink.Refused, Reason: sink.ResultsChanged,
			Message: "the far end holds other results of this Scan in this revision: run the Scan again, or raise the epoch",
		}
	case Incomplete, Pending:
	}
	return report, &sink.Error{
		Class: sink.Transport, Reason: sink.Incomplete,
		Message: fmt.Sprintf("the far end misses records, also after they were sent %d times", attempts),
	}
}

// passage is one time that the records are sent.
type passage struct {
	sending *Sending
	deliver delivery
	report  Report
	batch   sink.Batch
	bytes   int
	state   *forwardingv1.StreamState
	cursor  Cursor // behind what is acknowledged
	good    Cursor // behind the last batch that the far end took whole
	next    mapping.Position
	// gaps are the sequences that the far end misses; none: everything is sent.
	gaps []*forwardingv1.SequenceRange
	// of is the report of the passage that sent everything, where this one sends the gaps.
	of *Report
}

// run sends what belongs to this passage, with the closing record, and judges.
func (p *passage) run(ctx context.Context) (report Report, err error) {
	p.report.Verdict = Pending
	if p.of != nil {
		p.report = *p.of
		p.report.Verdict = Pending
	}
	if err := p.lost(ctx); err != nil {
		return p.told(), err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, closer, err := p.sending.Open(reading, p.cursor.Position)
	if err != nil {
		return p.told(), err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	p.batch.Stream = reader.Stream()
	if p.of == nil {
		p.report.Records, p.report.Rejected, p.report.Chain = p.cursor.Accepted+p.cursor.Rejected, p.cursor.Rejected, p.cursor.Chain
	}
	if err := p.records(ctx, reader, cancel); err != nil {
		return p.told(), err
	}
	if p.of == nil {
		p.cursor.Refused = reader.RejectedCount()
		p.report.Rejected += reader.RejectedCount()
		for _, rejected := range reader.Rejected() {
			p.report.reject(sink.Rejection{EventID: rejected.EventID, Reason: rejected.Reason, Message: rejected.Message})
		}
	} else {
		p.cursor = p.of.Cursor
	}
	if p.cursor.Accepted == 0 && p.cursor.Rejected > 0 && p.sending.Guard != nil {
		p.cursor = Cursor{}
		return p.told(), refusesEverything()
	}
	if err := p.close(ctx, reader); err != nil {
		return p.told(), err
	}
	p.report.Verdict, err = p.verdict(ctx)
	return p.told(), err
}

// told is the report with the cursor.
func (p *passage) told() Report {
	p.report.Cursor = p.cursor
	return p.report
}

// close sends the closing record.
func (p *passage) close(ctx context.Context, reader *mapping.Reader) error {
	if p.of != nil {
		p.report.Records-- // it was counted then
	}
	closing := reader.Closing(p.cursor.Accepted, p.chain())
	if err := p.add(ctx, closing, proto.Size(closing.Message)); err != nil {
		return err
	}
	return p.flush(ctx)
}

// lost begins anew where the far end has less than it acknowledged.
func (p *passage) lost(ctx context.Context) error {
	prover, can := p.sending.Sink.(sink.Prover)
	if !can || p.cursor.Sequence == 0 || p.sending.Stream == nil {
		return nil
	}
	var held sink.Verdict
	err := p.deliver.retry.do(ctx, func() (err error) {
		held, err = prover.Proof(ctx, p.sending.Stream)
		return err
	})
	if err != nil {
		return err
	}
	if held.Completeness != forwardingv1.Completeness_COMPLETENESS_UNSPECIFIED && held.Records < p.cursor.Accepted {
		p.cursor, p.good = Cursor{}, Cursor{}
	}
	return nil
}

// wants tells whether a record belongs to this passage.
func (p *passage) wants(sequence uint64) bool {
	if len(p.gaps) == 0 {
		return true
	}
	for _, gap := range p.gaps {
		if gap.GetFirst() <= sequence && sequence <= gap.GetLast() {
			return true
		}
	}
	return false
}

// records sends all but the closing record. cancel ends a read that is under way.
func (p *passage) records(ctx context.Context, reader *mapping.Reader, cancel context.CancelFunc) error {
	pieces, stop := readAhead(reader)
	defer stop()
	for piece := range pieces {
		for _, one := range piece {
			p.next = one.before
			err := one.err
			switch {
			case errors.Is(err, io.EOF):
				return p.flush(ctx)
			case err == nil && p.wants(one.record.Sequence):
				err = p.add(ctx, one.record, one.size)
			}
			if err != nil {
				cancel()
				return err
			}
		}
	}
	return nil
}

// chain is the chain of what was accepted; 32 zero bytes for nothing.
func (p *passage) chain() []byte {
	if p.report.Chain == nil {
		return make([]byte, chainBytes)
	}
	return p.report.Chain
}

const chainBytes = 32

// add puts a record into the batch, after sending the batch where the record does not fit.
func (p *passage) add(ctx context.Context, record sink.Record, size int) error {
	if len(p.batch.Records) > 0 && (len(p.batch.Records) >= p.sending.Limits.MaxRecords || p.bytes+size > p.sending.Limits.MaxBytes) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.batch.Records = append(p.batch.Records, record)
	p.bytes += size
	if p.of == nil || record.Message.GetClosing() != nil {
		p.report.Records++
	}
	return nil
}

// flush sends the batch and counts what became of its records.
func (p *passage) flush(ctx context.Context) error {
	if len(p.batch.Records) == 0 {
		return nil
	}
	if err := p.ask(ctx); err != nil {
		return err
	}
	outcome, err := p.deliver.batch(ctx, p.batch)
	if err != nil {
		if sink.AsError(err).Reason == sink.RefusesEverything {
			p.cursor = p.good
		}
		return err
	}
	if err := p.count(outcome); err != nil {
		return err
	}
	bytes, closing := p.bytes, p.batch.Records[len(p.batch.Records)-1].Message.GetClosing() != nil
	p.batch.Records, p.bytes = p.batch.Records[:0], 0
	if p.of == nil && !closing && p.sending.Progress != nil && !p.sending.Progress(p.cursor, bytes) {
		return ErrStopped
	}
	return nil
}

// ask sends one record alone where the far end has refused everything so far.
func (p *passage) ask(ctx context.Context) error {
	if p.sending.Guard == nil {
		return nil
	}
	open, newest := p.sending.Guard.IsOpen()
	if !open {
		return nil
	}
	record := p.batch.Records[0]
	if newest {
		record = p.batch.Records[len(p.batch.Records)-1]
	}
	outcome, err := p.deliver.batch(ctx, sink.Batch{Stream: p.batch.Stream, Records: []sink.Record{record}})
	if err != nil {
		return err
	}
	p.sending.Guard.Note([]bool{len(outcome.Rejected) == 0})
	if len(outcome.Rejected) > 0 {
		return refusesEverything()
	}
	return nil
}

func refusesEverything() error {
	return &sink.Error{
		Class: sink.Incompatible, Reason: sink.RefusesEverything,
		Message: "the far end refuses every record: look at what it expects; single records are sent until it takes one",
	}
}

// count notes what became of the records of the batch.
func (p *passage) count(outcome sink.Outcome) error {
	rejected := map[string]bool{}
	for _, rejection := range outcome.Rejected {
		rejected[rejection.EventID] = true
	}
	p.report.reject(outcome.Rejected...)
	accepted := make([]bool, len(p.batch.Records))
	stored := uint64(0)
	p.move()
	for i, record := range p.batch.Records {
		if accepted[i] = !rejected[record.EventID]; accepted[i] {
			stored++
		}
		p.step(record, accepted[i])
	}
	duplicates := min(uint64(max(outcome.Duplicates, 0)), stored)
	p.report.Duplicates += duplicates
	p.report.Stored += stored - duplicates
	for _, state := range outcome.Streams {
		if proto.Equal(state.GetStream(), p.batch.Stream) {
			p.state = state
		}
	}
	if p.sending.Guard != nil && p.sending.Guard.Note(accepted) {
		p.cursor = p.good // what the far end has refused lately is sent again
		return refusesEverything()
	}
	if len(rejected) == 0 {
		p.good = p.cursor
	}
	return nil
}

// move puts the cursor behind the batch, whose last record was the last one that was read but for the one that did not fit.
func (p *passage) move() {
	if p.of != nil || p.batch.Records[0].Message.GetClosing() != nil {
		return
	}
	outcomes := maps.Clone(p.cursor.Outcomes)
	if outcomes == nil {
		outcomes = map[string]uint64{}
	}
	for _, record := range p.batch.Records {
		if outcome := record.Message.GetResult().GetOutcome(); outcome != "" {
			outcomes[outcome]++
		}
	}
	p.cursor.Position = p.next
	p.cursor.Outcomes = outcomes
}

// step counts one record.
func (p *passage) step(record sink.Record, accepted bool) {
	if !accepted {
		p.report.Rejected++
	}
	if record.Message.GetClosing() != nil || p.of != nil {
		return
	}
	if !accepted {
		p.cursor.Rejected++
		return
	}
	p.cursor.Accepted++
	p.report.Chain = forwardingv1.AppendChain(p.report.Chain, record.Message.GetDigest())
	p.cursor.Chain = p.report.Chain
}

// verdict asks the far end what it holds, where it can tell.
func (p *passage) verdict(ctx context.Context) (Verdict, error) {
	accepted := p.cursor.Accepted
	prover, can := p.sending.Sink.(sink.Prover)
	if !can {
		if p.state == nil {
			return Accepted, nil
		}
		return judge(sink.Verdict{Completeness: p.state.GetCompleteness(), Records: p.state.GetRecords(), Chain: p.state.GetChain()}, accepted, p.chain()), nil
	}
	var held sink.Verdict
	err := p.deliver.retry.do(ctx, func() (err error) {
		held, err = prover.Proof(ctx, p.batch.Stream)
		return err
	})
	if err != nil {
		return Pending, err
	}
	p.gaps, p.report.Missing = held.Gaps, held.Missing
	return judge(held, accepted, p.chain()), nil
}

// judge compares what the far end holds with what it has accepted. A far end that tells no completeness has acknowledged everything.
func judge(held sink.Verdict, records uint64, chain []byte) Verdict {
	switch held.Completeness {
	case forwardingv1.Completeness_COMPLETENESS_COMPLETE:
		switch {
		case held.Records != records || !bytes.Equal(held.Chain, chain):
			return Conflict
		case held.Proved:
			return Complete
		}
		return Accepted
	case forwardingv1.Completeness_COMPLETENESS_CONFLICT:
		return Conflict
	case forwardingv1.Completeness_COMPLETENESS_INCOMPLETE, forwardingv1.Completeness_COMPLETENESS_OPEN:
		return Incomplete
	case forwardingv1.Completeness_COMPLETENESS_UNSPECIFIED:
	}
	if held.Proved {
		return Complete
	}
	return Accepted
}
