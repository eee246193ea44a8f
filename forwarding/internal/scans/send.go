// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

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
}

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
	// Open opens the records from the start, as often as they have to be sent.
	Open func() (*mapping.Reader, io.Closer, error)
}

// attempts is how often a Scan is sent as a whole: a far end that misses records gets everything once more.
const attempts = 2

// Send sends everything and asks for the verdict. An error says why the verdict is neither Complete nor Accepted.
func (s *Sending) Send(ctx context.Context) (Report, error) {
	var report Report
	for range attempts {
		r, err := s.once(ctx)
		if err != nil {
			return r, err
		}
		report = r
		if r.Verdict != Incomplete {
			break
		}
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
}

func (s *Sending) once(ctx context.Context) (report Report, err error) {
	if s.Limits.MaxRecords <= 0 {
		s.Limits.MaxRecords = defaultMaxRecords
	}
	if s.Limits.MaxBytes <= 0 {
		s.Limits.MaxBytes = defaultMaxBytes
	}
	reader, closer, err := s.Open()
	if err != nil {
		return Report{Verdict: Pending}, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	p := &passage{sending: s, batch: sink.Batch{Stream: reader.Stream()}, deliver: delivery{sink: s.Sink, retry: s.Retry}}
	p.report.Verdict = Pending
	if err := p.records(ctx, reader); err != nil {
		return p.report, err
	}
	accepted := p.report.Records - p.report.Rejected
	p.report.Rejected += reader.RejectedCount()
	for _, rejected := range reader.Rejected() {
		p.report.reject(sink.Rejection{EventID: rejected.EventID, Reason: rejected.Reason, Message: rejected.Message})
	}
	if err := p.add(ctx, reader.Closing(accepted, p.chain())); err != nil {
		return p.report, err
	}
	if err := p.flush(ctx); err != nil {
		return p.report, err
	}
	p.report.Verdict, err = p.verdict(ctx, accepted)
	return p.report, err
}

// records sends all but the closing record.
func (p *passage) records(ctx context.Context, reader *mapping.Reader) error {
	for {
		record, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return p.flush(ctx)
		}
		if err != nil {
			return err
		}
		if err := p.add(ctx, record); err != nil {
			return err
		}
	}
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
func (p *passage) add(ctx context.Context, record sink.Record) error {
	size := proto.Size(record.Message)
	if len(p.batch.Records) > 0 && (len(p.batch.Records) >= p.sending.Limits.MaxRecords || p.bytes+size > p.sending.Limits.MaxBytes) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.batch.Records = append(p.batch.Records, record)
	p.bytes += size
	p.report.Records++
	return nil
}

// flush sends the batch and counts what became of its records.
func (p *passage) flush(ctx context.Context) error {
	if len(p.batch.Records) == 0 {
		return nil
	}
	outcome, err := p.deliver.batch(ctx, p.batch)
	if err != nil {
		return err
	}
	rejected := map[string]bool{}
	for _, rejection := range outcome.Rejected {
		rejected[rejection.EventID] = true
	}
	p.report.reject(outcome.Rejected...)
	for _, record := range p.batch.Records {
		if rejected[record.EventID] {
			p.report.Rejected++
			continue
		}
		if record.Message.GetClosing() == nil {
			p.report.Chain = forwardingv1.AppendChain(p.report.Chain, record.Message.GetDigest())
		}
		p.report.Stored++
	}
	duplicates := min(uint64(max(outcome.Duplicates, 0)), p.report.Stored)
	p.report.Duplicates += duplicates
	p.report.Stored -= duplicates
	for _, state := range outcome.Streams {
		if proto.Equal(state.GetStream(), p.batch.Stream) {
			p.state = state
		}
	}
	p.batch.Records, p.bytes = p.batch.Records[:0], 0
	return nil
}

// verdict asks the far end what it holds, where it can tell.
func (p *passage) verdict(ctx context.Context, accepted uint64) (Verdict, error) {
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
