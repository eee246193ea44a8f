// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// probe is what a case has to do with.
type probe struct {
	ctx     context.Context //nolint:containedctx // a probe lives as long as its case
	client  forwardingv1.ForwardingServiceClient
	cluster string
}

func hello() *forwardingv1.Hello {
	return &forwardingv1.Hello{ApiVersion: forwardingv1.Version, Sender: "conformance", SenderVersion: "1"}
}

// scan is a stream that nobody else uses.
func (p *probe) scan() *forwardingv1.StreamId {
	return &forwardingv1.StreamId{
		ClusterId: p.cluster, Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: "uid-1", Revision: 1,
	}
}

// seal gives a record its sequence, its id and its digest.
func seal(id *forwardingv1.StreamId, record *forwardingv1.Record, sequence uint64) *forwardingv1.Record {
	record.Sequence, record.EventId, record.Schema = sequence, forwardingv1.EventID(id, sequence), forwardingv1.Schema
	record.Digest = forwardingv1.Digest(record)
	return record
}

func result(id *forwardingv1.StreamId, sequence uint64, title string) *forwardingv1.Record {
	return seal(id, &forwardingv1.Record{Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: title, Severity: "high"}}}, sequence)
}

// results are n Results from sequence 1 on.
func results(id *forwardingv1.StreamId, n int) []*forwardingv1.Record {
	list := make([]*forwardingv1.Record, 0, n)
	for i := range n {
		list = append(list, result(id, uint64(i)+1, fmt.Sprint("finding ", i)))
	}
	return list
}

// closing is the closing record behind these records, with the highest sequence that the Scan had.
func closing(id *forwardingv1.StreamId, list []*forwardingv1.Record, total uint64) *forwardingv1.Record {
	chain := make([]byte, forwardingv1.DigestSize)
	for _, r := range list {
		chain = forwardingv1.AppendChain(chain, r.GetDigest())
	}
	body := &forwardingv1.Closing{Records: uint64(len(list)), Chain: chain, FindingsTotal: total}
	return seal(id, &forwardingv1.Record{Body: &forwardingv1.Record_Closing{Closing: body}}, total+1)
}

// whole is a Scan with n records and its closing record.
func whole(id *forwardingv1.StreamId, n int) []*forwardingv1.Record {
	list := results(id, n)
	return append(list, closing(id, list, uint64(n)))
}

// talk is one stream to the receiver.
type talk struct {
	stream  grpc.BidiStreamingClient[forwardingv1.ForwardRequest, forwardingv1.ForwardResponse]
	welcome *forwardingv1.Welcome
	sent    uint64
	acks    []*forwardingv1.Ack
}

// raw opens a stream without a word.
func (p *probe) raw(options ...grpc.CallOption) (*talk, error) {
	stream, err := p.client.Forward(p.ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	return &talk{stream: stream}, nil
}

// open opens a stream and says hello.
func (p *probe) open(options ...grpc.CallOption) (*talk, error) { return p.greet(hello(), options...) }

func (p *probe) greet(h *forwardingv1.Hello, options ...grpc.CallOption) (*talk, error) {
	t, err := p.raw(options...)
	if err != nil {
		return nil, err
	}
	if err := t.say(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: h}}); err != nil {
		return nil, err
	}
	said, err := t.stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("wait for the welcome: %w", err)
	}
	if t.welcome = said.GetWelcome(); t.welcome == nil {
		return nil, fmt.Errorf("the answer to hello is not a welcome: %v", said)
	}
	return t, nil
}

// say sends; where the receiver has ended the stream, its reason is read later.
func (t *talk) say(request *forwardingv1.ForwardRequest) error {
	if err := t.stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (t *talk) numbered(number uint64, id *forwardingv1.StreamId, list ...*forwardingv1.Record) error {
	batch := &forwardingv1.Batch{Number: number, Stream: id, Records: list}
	return t.say(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: batch}})
}

func (t *talk) batch(id *forwardingv1.StreamId, list ...*forwardingv1.Record) error {
	t.sent++
	return t.numbered(t.sent, id, list...)
}

// acked gathers acks until all that was sent is acknowledged.
func (t *talk) acked() (*forwardingv1.Ack, error) {
	all := &forwardingv1.Ack{}
	for all.GetThrough() < t.sent {
		said, err := t.stream.Recv()
		if err != nil {
			return all, fmt.Errorf("wait for the ack of batch %d: %w", t.sent, err)
		}
		ack := said.GetAck()
		if ack == nil {
			return all, fmt.Errorf("instead of an ack comes %v", said)
		}
		if ack.GetThrough() <= all.GetThrough() || ack.GetThrough() > t.sent {
			return all, fmt.Errorf("an ack through %d follows one through %d, and %d batches were sent", ack.GetThrough(), all.GetThrough(), t.sent)
		}
		t.acks = append(t.acks, ack)
		stored, duplicates := all.GetStored()+ack.GetStored(), all.GetDuplicates()+ack.GetDuplicates()
		proto.Merge(all, &forwardingv1.Ack{Rejections: ack.GetRejections(), Streams: ack.GetStreams()})
		all.Through, all.Stored, all.Duplicates = ack.GetThrough(), stored, duplicates
	}
	return all, nil
}

// refused wants the receiver to end the stream with one of these codes, and to acknowledge nothing.
func (t *talk) refused(want ...codes.Code) error {
	said, err := t.stream.Recv()
	if err == nil {
		return fmt.Errorf("the receiver goes on: %v", said)
	}
	if code := status.Code(err); !slices.Contains(want, code) {
		return fmt.Errorf("the stream ends with %v, want %v: %w", code, want, err)
	}
	return nil
}

// send hands records over on a stream of their own, in one batch.
func (p *probe) send(id *forwardingv1.StreamId, list ...*forwardingv1.Record) (*forwardingv1.Ack, error) {
	t, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := t.batch(id, list...); err != nil {
		return nil, err
	}
	ack, err := t.acked()
	if err != nil {
		return nil, err
	}
	return ack, t.stream.CloseSend()
}

// taken sends records that the receiver has to store or know, all of them.
func (p *probe) taken(id *forwardingv1.StreamId, list ...*forwardingv1.Record) error {
	ack, err := p.send(id, list...)
	if err != nil {
		return err
	}
	return counts(ack, uint64(len(list)), 0)
}

func counts(ack *forwardingv1.Ack, stored, duplicates uint64) error {
	if ack.GetStored() != stored || ack.GetDuplicates() != duplicates || len(ack.GetRejections()) > 0 {
		return fmt.Errorf("the ack counts %d stored, %d duplicates and %d rejections, want %d and %d and none: %v",
			ack.GetStored(), ack.GetDuplicates(), len(ack.GetRejections()), stored, duplicates, ack.GetRejections())
	}
	return nil
}

// rejected wants an ack that refuses exactly one record.
func rejected(ack *forwardingv1.Ack, stored uint64, id string, reasons ...forwardingv1.RejectionReason) error {
	if len(ack.GetRejections()) != 1 {
		return fmt.Errorf("%d records are refused, want one: %v", len(ack.GetRejections()), ack.GetRejections())
	}
	r := ack.GetRejections()[0]
	if r.GetEventId() != id || !slices.Contains(reasons, r.GetReason()) {
		return fmt.Errorf("%q is refused with %v, want %q with %v", r.GetEventId(), r.GetReason(), id, reasons)
	}
	if ack.GetStored() != stored {
		return fmt.Errorf("%d records beside the refused one are stored, want %d", ack.GetStored(), stored)
	}
	return nil
}

// state asks what of a stream is stored.
func (p *probe) state(id *forwardingv1.StreamId) (*forwardingv1.StreamState, error) {
	answer, err := p.client.GetStream(p.ctx, &forwardingv1.GetStreamRequest{Stream: id})
	if err != nil {
		return nil, fmt.Errorf("GetStream: %w", err)
	}
	return answer.GetState(), nil
}

// verdict wants this verdict and this many records of a stream.
func (p *probe) verdict(id *forwardingv1.StreamId, want forwardingv1.Completeness, records uint64) error {
	state, err := p.state(id)
	if err != nil {
		return err
	}
	if state.GetCompleteness() != want || state.GetRecords() != records {
		return fmt.Errorf("the stream is %v with %d records, want %v with %d", state.GetCompleteness(), state.GetRecords(), want, records)
	}
	return nil
}
