// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
)

// Short names of verdicts and reasons.
const (
	isOpen       = forwardingv1.Completeness_COMPLETENESS_OPEN
	isComplete   = forwardingv1.Completeness_COMPLETENESS_COMPLETE
	isIncomplete = forwardingv1.Completeness_COMPLETENESS_INCOMPLETE
	isConflict   = forwardingv1.Completeness_COMPLETENESS_CONFLICT

	malformed   = forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED
	tooLarge    = forwardingv1.RejectionReason_REJECTION_REASON_TOO_LARGE
	mismatch    = forwardingv1.RejectionReason_REJECTION_REASON_DIGEST_MISMATCH
	conflict    = forwardingv1.RejectionReason_REJECTION_REASON_CONFLICT
	unsupported = forwardingv1.RejectionReason_REJECTION_REASON_UNSUPPORTED
)

// Cases are all cases, in the order in which they run.
func Cases() []Case {
	return slices.Concat(greeting(), negotiation(), order(), acks(), duplicates(), conflicts(), closings(), gaps(), unknown(), limits())
}

// later is a field that no version has yet.
func later() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "of a later version")
}

func withLater[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(later())
	return m
}

func greeting() []Case {
	greets := func(h *forwardingv1.Hello) func(*probe) error {
		return func(p *probe) error {
			t, err := p.greet(h)
			if err != nil {
				return err
			}
			if t.welcome.GetApiVersion() != forwardingv1.Version {
				return fmt.Errorf("the welcome says version %q", t.welcome.GetApiVersion())
			}
			return nil
		}
	}
	features := hello()
	features.Features, features.Metadata = []string{"zstd", "not-known-v9"}, map[string]string{"team": "a"}
	return []Case{
		{"hello/welcome", "hello is answered with a welcome of version v1", greets(hello())},
		{"hello/features", "features and metadata that are not known are ignored", greets(features)},
		{"hello/later", "fields of later versions are ignored", greets(withLater(hello()))},
		{"hello/version", "another version is answered with UNIMPLEMENTED and the versions that are there", func(p *probe) error {
			h := hello()
			h.ApiVersion = "v999"
			t, err := p.raw()
			if err != nil {
				return err
			}
			if err := t.say(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: h}}); err != nil {
				return err
			}
			_, err = t.stream.Recv()
			return otherVersion(err)
		}},
		{"hello/version-batch", "the same holds for a single batch", func(p *probe) error {
			h := hello()
			h.ApiVersion = "v999"
			_, err := p.client.ForwardBatch(p.ctx, &forwardingv1.ForwardBatchRequest{Hello: h, Batch: &forwardingv1.Batch{Number: 1, Stream: p.scan()}})
			return otherVersion(err)
		}},
		{"hello/missing", "a batch before hello is answered with FAILED_PRECONDITION, and is not stored", func(p *probe) error {
			t, err := p.raw()
			if err != nil {
				return err
			}
			id := p.scan()
			if err := errors.Join(t.batch(id, results(id, 1)...), t.refused(codes.FailedPrecondition)); err != nil {
				return err
			}
			return p.verdict(id, isOpen, 0)
		}},
		{"hello/alone", "a stream that ends after hello ends well", func(p *probe) error {
			t, err := p.open()
			if err != nil {
				return err
			}
			return t.end()
		}},
	}
}

// end ends the stream and wants the receiver to end it as well.
func (t *talk) end() error {
	if err := t.stream.CloseSend(); err != nil {
		return err
	}
	if said, err := t.stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream does not end: %v, %w", said, err)
	}
	return nil
}

func otherVersion(err error) error {
	said := status.Convert(err)
	if said.Code() != codes.Unimplemented {
		return fmt.Errorf("the answer is %v", said.Code())
	}
	for _, detail := range said.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if ok && info.GetReason() == forwardingv1.ErrorVersionNotSupported && strings.Contains(info.GetMetadata()["supported"], forwardingv1.Version) {
			return nil
		}
	}
	return fmt.Errorf("no ErrorInfo says %s and which versions are there", forwardingv1.ErrorVersionNotSupported)
}

func negotiation() []Case {
	ask := func(p *probe, versions ...string) (*forwardingv1.NegotiateResponse, error) {
		return p.client.Negotiate(p.ctx, &forwardingv1.NegotiateRequest{ApiVersions: versions})
	}
	return []Case{
		{"negotiate/version", "Negotiate lists v1", func(p *probe) error {
			answer, err := ask(p, forwardingv1.Version)
			if err == nil && !slices.Contains(answer.GetApiVersions(), forwardingv1.Version) {
				err = fmt.Errorf("the list is %v", answer.GetApiVersions())
			}
			return err
		}},
		{"negotiate/others", "Negotiate lists v1 also to those who speak something else", func(p *probe) error {
			answer, err := ask(p, "v998", "v999")
			if err == nil && !slices.Contains(answer.GetApiVersions(), forwardingv1.Version) {
				err = fmt.Errorf("the list is %v", answer.GetApiVersions())
			}
			return err
		}},
		{"negotiate/limits", "Negotiate and welcome tell the same limits", func(p *probe) error {
			answer, err := ask(p, forwardingv1.Version)
			if err != nil {
				return err
			}
			t, err := p.open()
			if err != nil {
				return err
			}
			if told, welcomed := answer.GetLimits().WithDefaults(), t.welcome.GetLimits().WithDefaults(); !proto.Equal(told, welcomed) {
				return fmt.Errorf("told are %v and %v", told, welcomed)
			}
			return nil
		}},
		{"negotiate/stores", "Negotiate and welcome say the same of whether anything is kept", func(p *probe) error {
			answer, err := ask(p, forwardingv1.Version)
			if err != nil {
				return err
			}
			t, err := p.open()
			if err == nil && t.welcome.GetStores() != answer.GetStores() {
				err = fmt.Errorf("told are %t and %t", answer.GetStores(), t.welcome.GetStores())
			}
			return err
		}},
	}
}

func order() []Case {
	return []Case{
		{"order/first", "the first batch of a stream has number 1", outOfOrder(2)},
		{"order/gap", "a number that is left out ends the stream", outOfOrder(1, 3)},
		{"order/anew", "numbers begin anew with each stream", func(p *probe) error {
			id := p.scan()
			return errors.Join(p.taken(id, result(id, 1, "a")), p.taken(id, result(id, 2, "b")))
		}},
		{"order/falling", "a sequence that does not rise within a batch is refused as MALFORMED", func(p *probe) error {
			id := p.scan()
			ack, err := p.send(id, result(id, 2, "b"), result(id, 1, "a"))
			if err != nil {
				return err
			}
			return rejected(ack, 1, forwardingv1.EventID(id, 1), malformed)
		}},
		{"order/later", "a later batch may hold lower sequences, as those that were missing", func(p *probe) error {
			id := p.scan()
			return errors.Join(p.taken(id, result(id, 5, "e")), p.taken(id, result(id, 2, "b")), p.verdict(id, isOpen, 2))
		}},
	}
}

func acks() []Case {
	return []Case{
		{"acks/each", "a batch is acknowledged though nothing follows it", func(p *probe) error {
			id := p.scan()
			return p.taken(id, results(id, 3)...)
		}},
		{"acks/cumulative", "acks rise to the last batch, and none covers more than 64 or goes beyond what was sent", cumulative},
		{"acks/stored", "what is acknowledged is there at once, also by another connection", func(p *probe) error {
			id := p.scan()
			return errors.Join(p.taken(id, results(id, 10)...), p.verdict(id, isOpen, 10))
		}},
		{"acks/half-close", "a sender that ends its half gets all acks, and then the end", halfClose},
		{"acks/broken", "after a connection that broke all is sent again, and is there once", broken},
		{"acks/empty", "a batch without records is acknowledged", func(p *probe) error { return p.taken(p.scan()) }},
		{"acks/single", "a single batch is answered with its ack", func(p *probe) error {
			id := p.scan()
			ack, err := p.single(id, results(id, 3)...)
			if err != nil {
				return err
			}
			return errors.Join(counts(ack, 3, 0), p.verdict(id, isOpen, 3))
		}},
		{"acks/deadline", "a call whose time is over ends with DEADLINE_EXCEEDED, and the next one works", deadline},
		{"acks/compressed", "compressions that the welcome lists are understood", compressed},
	}
}

// single hands over one batch in a call of its own.
func (p *probe) single(id *forwardingv1.StreamId, list ...*forwardingv1.Record) (*forwardingv1.Ack, error) {
	request := &forwardingv1.ForwardBatchRequest{Hello: hello(), Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: list}}
	answer, err := p.client.ForwardBatch(p.ctx, request)
	return answer.GetAck(), err
}

func duplicates() []Case {
	again := func(p *probe, send func(*forwardingv1.StreamId, ...*forwardingv1.Record) (*forwardingv1.Ack, error)) error {
		id := p.scan()
		if err := p.taken(id, results(id, 5)...); err != nil {
			return err
		}
		ack, err := send(id, results(id, 5)...)
		if err != nil {
			return err
		}
		return errors.Join(counts(ack, 0, 5), p.verdict(id, isOpen, 5))
	}
	other := func(change func(*forwardingv1.StreamId)) func(*probe) error {
		return func(p *probe) error {
			id, there := p.scan(), p.scan()
			change(there)
			list := results(id, 3) // the ids are those of the first stream
			return errors.Join(p.taken(id, list...), p.taken(there, list...), p.verdict(there, isOpen, 3))
		}
	}
	return []Case{
		{"duplicates/stream", "a record that comes again on another stream is counted as duplicate, and stored once", func(p *probe) error {
			return again(p, p.send)
		}},
		{"duplicates/single", "so is one that comes again in a single batch", func(p *probe) error { return again(p, p.single) }},
		{"duplicates/same-stream", "so is one that comes again on the same stream", func(p *probe) error {
			t, err := p.open()
			if err != nil {
				return err
			}
			id := p.scan()
			if err := errors.Join(t.batch(id, results(id, 4)...), t.batch(id, results(id, 4)...)); err != nil {
				return err
			}
			ack, err := t.acked()
			if err != nil {
				return err
			}
			return errors.Join(counts(ack, 4, 4), p.verdict(id, isOpen, 4))
		}},
		{"duplicates/whole", "a whole Scan that comes again stays COMPLETE with the same count", func(p *probe) error {
			id := p.scan()
			if err := p.taken(id, whole(id, 6)...); err != nil {
				return err
			}
			ack, err := p.send(id, whole(id, 6)...)
			if err != nil {
				return err
			}
			return errors.Join(counts(ack, 0, 7), p.verdict(id, isComplete, 6))
		}},
		{"duplicates/tenant", "the same id in another tenant is not a duplicate", other(func(id *forwardingv1.StreamId) { id.Tenant = "team-b" })},
		{"duplicates/cluster", "the same id in another cluster is not a duplicate", other(func(id *forwardingv1.StreamId) { id.ClusterId += "-b" })},
	}
}

func conflicts() []Case {
	differs := func(p *probe, send func(*forwardingv1.StreamId, ...*forwardingv1.Record) (*forwardingv1.Ack, error)) error {
		id := p.scan()
		if err := p.taken(id, results(id, 2)...); err != nil {
			return err
		}
		ack, err := send(id, result(id, 2, "something else"), result(id, 3, "more"))
		if err != nil {
			return err
		}
		return rejected(ack, 1, forwardingv1.EventID(id, 2), conflict)
	}
	return []Case{
		{"conflict/stream", "the same id with another body is refused as CONFLICT, and its batch is acknowledged", func(p *probe) error {
			return differs(p, p.send)
		}},
		{"conflict/single", "so it is in a single batch", func(p *probe) error { return differs(p, p.single) }},
		{"conflict/first", "the first body wins", func(p *probe) error {
			id := p.scan()
			first := results(id, 2)
			if err := p.taken(id, first...); err != nil {
				return err
			}
			if _, err := p.send(id, result(id, 2, "something else")); err != nil {
				return err
			}
			return errors.Join(p.taken(id, closing(id, first, 2)), p.verdict(id, isComplete, 2))
		}},
	}
}

func closings() []Case {
	return []Case{
		{"closing/complete", "count and chain that agree are COMPLETE, and the closing record does not count", func(p *probe) error {
			id := p.scan()
			return errors.Join(p.taken(id, whole(id, 12)...), p.verdict(id, isComplete, 12))
		}},
		{"closing/chain", "GetStream tells the chain of the records", func(p *probe) error {
			id := p.scan()
			list := whole(id, 4)
			if err := p.taken(id, list...); err != nil {
				return err
			}
			state, err := p.state(id)
			if want := list[4].GetClosing().GetChain(); err == nil && string(state.GetChain()) != string(want) {
				err = fmt.Errorf("the chain is %x, want %x", state.GetChain(), want)
			}
			return err
		}},
		{"closing/told", "the verdict comes with the ack", func(p *probe) error {
			id := p.scan()
			ack, err := p.send(id, whole(id, 2)...)
			if err != nil {
				return err
			}
			if len(ack.GetStreams()) != 1 || ack.GetStreams()[0].GetCompleteness() != isComplete || ack.GetStreams()[0].GetRecords() != 2 {
				return fmt.Errorf("the ack tells %v", ack.GetStreams())
			}
			return nil
		}},
		{"closing/empty", "a Scan without records is COMPLETE with its closing record", func(p *probe) error {
			id := p.scan()
			return errors.Join(p.taken(id, whole(id, 0)...), p.verdict(id, isComplete, 0))
		}},
		{"closing/early", "records may come behind their closing record", func(p *probe) error {
			id := p.scan()
			list := whole(id, 3)
			return errors.Join(p.taken(id, list[3]), p.verdict(id, isIncomplete, 0), p.taken(id, list[:3]...), p.verdict(id, isComplete, 3))
		}},
		{"closing/other-chain", "a right count with another chain is CONFLICT", func(p *probe) error {
			id := p.scan()
			list := results(id, 3)
			end := closing(id, append(results(id, 2), result(id, 3, "something else")), 3)
			return errors.Join(p.taken(id, append(list, end)...), p.verdict(id, isConflict, 3))
		}},
		{"closing/too-many", "more records than the closing record counts are CONFLICT", func(p *probe) error {
			id := p.scan()
			list := results(id, 3)
			return errors.Join(p.taken(id, append(list, closing(id, list[:2], 3))...), p.verdict(id, isConflict, 3))
		}},
		{"closing/filter", "gaps that a filter made are not gaps", func(p *probe) error {
			id := p.scan()
			list := []*forwardingv1.Record{result(id, 1, "a"), result(id, 4, "d")}
			end := closing(id, list, 9)
			end.GetClosing().Filter = "minSeverity=HIGH"
			return errors.Join(p.taken(id, append(list, seal(id, end, 10))...), p.verdict(id, isComplete, 2))
		}},
		{"closing/revision", "another revision of a Scan is another stream", func(p *probe) error {
			id, next := p.scan(), p.scan()
			next.Revision++
			return errors.Join(p.taken(id, whole(id, 3)...), p.taken(next, whole(next, 2)...), p.verdict(id, isComplete, 3), p.verdict(next, isComplete, 2))
		}},
	}
}

func gaps() []Case {
	return []Case{
		{"gaps/one", "a record that is missing is counted and named", named(5, []int{3}, &forwardingv1.SequenceRange{First: 3, Last: 3})},
		{
			"gaps/several", "several gaps are named, in order",
			named(9, []int{1, 4, 5, 9},
				&forwardingv1.SequenceRange{First: 1, Last: 1}, &forwardingv1.SequenceRange{First: 4, Last: 5}, &forwardingv1.SequenceRange{First: 9, Last: 9}),
		},
		{"gaps/filled", "what was missing makes the stream COMPLETE", func(p *probe) error {
			id, list, err := without(p, 5, 3)
			if err != nil {
				return err
			}
			return errors.Join(p.verdict(id, isIncomplete, 4), p.taken(id, list[2]), p.verdict(id, isComplete, 5))
		}},
		{"gaps/open", "a stream without its closing record is OPEN and tells its highest sequence", func(p *probe) error {
			id := p.scan()
			if err := p.taken(id, results(id, 7)...); err != nil {
				return err
			}
			state, err := p.state(id)
			if err == nil && (state.GetCompleteness() != isOpen || state.GetHighestSequence() != 7) {
				err = fmt.Errorf("the stream is %v up to %d", state.GetCompleteness(), state.GetHighestSequence())
			}
			return err
		}},
		{"gaps/nothing", "of a stream that is not known nothing is stored", func(p *probe) error {
			state, err := p.state(p.scan())
			if status.Code(errors.Unwrap(err)) == codes.NotFound {
				return nil
			}
			if err == nil && state.GetRecords() > 0 {
				err = fmt.Errorf("%d records are", state.GetRecords())
			}
			return err
		}},
	}
}

func unknown() []Case {
	return []Case{
		{"unknown/record", "fields of later versions in a record are taken", func(p *probe) error {
			id := p.scan()
			return p.taken(id, withLater(result(id, 1, "a")))
		}},
		{"unknown/body", "a body of a later version is refused as UNSUPPORTED, and what is beside it is stored", func(p *probe) error {
			id := p.scan()
			strange := withLater(&forwardingv1.Record{
				EventId: forwardingv1.EventID(id, 2), Sequence: 2, Schema: forwardingv1.Schema, Digest: make([]byte, forwardingv1.DigestSize),
			})
			ack, err := p.send(id, result(id, 1, "a"), strange, result(id, 3, "c"))
			if err != nil {
				return err
			}
			return rejected(ack, 2, strange.GetEventId(), unsupported)
		}},
		{"unknown/schema", "a record of a later schema is stored without a look at its digest", func(p *probe) error {
			id := p.scan()
			r := result(id, 1, "a")
			r.Schema, r.Digest = forwardingv1.Schema+1, []byte(strings.Repeat("x", forwardingv1.DigestSize))
			return errors.Join(p.taken(id, r), p.verdict(id, isOpen, 1))
		}},
		{"unknown/batch", "fields of later versions in a batch are ignored", func(p *probe) error {
			t, err := p.open()
			if err != nil {
				return err
			}
			id := p.scan()
			batch := withLater(&forwardingv1.Batch{Number: 1, Stream: id, Records: results(id, 2)})
			t.sent = 1
			if err := t.say(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: batch}}); err != nil {
				return err
			}
			ack, err := t.acked()
			if err != nil {
				return err
			}
			return counts(ack, 2, 0)
		}},
	}
}

func limits() []Case {
	// one sends three records, of which the second is not as it should be.
	one := func(change func(*forwardingv1.Record), reasons ...forwardingv1.RejectionReason) func(*probe) error {
		return func(p *probe) error {
			id := p.scan()
			list := results(id, 3)
			change(list[1])
			ack, err := p.send(id, list...)
			if err != nil {
				return err
			}
			return rejected(ack, 2, list[1].GetEventId(), reasons...)
		}
	}
	return []Case{
		{"limits/digest", "a body that is not that of its digest is refused as DIGEST_MISMATCH", one(func(r *forwardingv1.Record) {
			r.GetResult().Title = "changed on the way"
		}, mismatch)},
		{"limits/no-digest", "a record without digest is refused", one(func(r *forwardingv1.Record) { r.Digest = nil }, malformed, mismatch)},
		{"limits/no-id", "a record without id is refused", one(func(r *forwardingv1.Record) { r.EventId = "" }, malformed)},
		{"limits/no-cluster", "records of a stream without cluster are refused", func(p *probe) error {
			id := p.scan()
			list := results(id, 1)
			ack, err := p.send(&forwardingv1.StreamId{Tenant: "team-a", Kind: id.GetKind(), Uid: id.GetUid(), Revision: 1}, list...)
			if err != nil {
				return err
			}
			return rejected(ack, 0, list[0].GetEventId(), malformed)
		}},
		{"limits/record", "a record over the limit is refused as TOO_LARGE, and what is beside it is stored", recordOverLimit},
		{"limits/largest", "a record just below the limit is stored whole", recordAtLimit},
		{"limits/records", "more records than a batch may have are refused, and none is stored", recordsOverLimit},
		{"limits/message", "a message over the limit ends the stream, and nothing of it is stored", messageOverLimit},
	}
}

// cumulative sends many batches before it reads an ack.
func cumulative(p *probe) error {
	t, err := p.open()
	if err != nil {
		return err
	}
	id := p.scan()
	for _, r := range results(id, 300) {
		if err := t.batch(id, r); err != nil {
			return err
		}
	}
	ack, err := t.acked()
	if err != nil {
		return err
	}
	var before uint64
	for _, a := range t.acks {
		if a.GetThrough()-before > 64 {
			return fmt.Errorf("an ack goes from %d to %d", before, a.GetThrough())
		}
		before = a.GetThrough()
	}
	return counts(ack, 300, 0)
}

// halfClose ends its half before it reads an ack.
func halfClose(p *probe) error {
	t, err := p.open()
	if err != nil {
		return err
	}
	id := p.scan()
	if err := t.batch(id, results(id, 10)...); err != nil {
		return err
	}
	if err := t.stream.CloseSend(); err != nil {
		return err
	}
	if _, err := t.acked(); err != nil {
		return err
	}
	return t.end()
}

// broken cuts a connection, and sends all again.
func broken(p *probe) error {
	id := p.scan()
	list := whole(id, 20)
	ctx, cancel := context.WithCancel(p.ctx)
	broken := &probe{ctx: ctx, client: p.client, cluster: p.cluster}
	t, err := broken.open()
	if err == nil {
		err = t.batch(id, list[:10]...)
	}
	cancel()
	if err != nil {
		return err
	}
	ack, err := p.send(id, list...)
	if err != nil {
		return err
	}
	if ack.GetStored()+ack.GetDuplicates() != 21 {
		return fmt.Errorf("the ack counts %d and %d", ack.GetStored(), ack.GetDuplicates())
	}
	return p.verdict(id, isComplete, 20)
}

// deadline makes a call whose time is over.
func deadline(p *probe) error {
	ctx, cancel := context.WithTimeout(p.ctx, time.Nanosecond)
	defer cancel()
	id := p.scan()
	late := &probe{ctx: ctx, client: p.client, cluster: p.cluster}
	if _, err := late.single(id, results(id, 1)...); status.Code(err) != codes.DeadlineExceeded {
		return fmt.Errorf("the answer is %w", err)
	}
	_, err := p.single(id, results(id, 1)...)
	return err
}

// compressed sends with each compression of the welcome.
func compressed(p *probe) error {
	t, err := p.open()
	if err != nil {
		return err
	}
	for i, name := range []string{wire.Zstd, wire.Gzip} {
		if !slices.Contains(t.welcome.GetFeatures(), name) {
			continue
		}
		id := p.scan()
		id.Revision += uint32(i)
		squeezed, err := p.open(grpc.UseCompressor(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := squeezed.batch(id, results(id, 10)...); err != nil {
			return err
		}
		ack, err := squeezed.acked()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := counts(ack, 10, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// recordOverLimit has a record that is a byte too large beside two that are not.
func recordOverLimit(p *probe) error {
	id := p.scan()
	t, err := p.open()
	if err != nil {
		return err
	}
	most := t.welcome.GetLimits().WithDefaults().GetMaxRecordBytes()
	big := result(id, 2, strings.Repeat("x", int(most)+1))
	if err := t.batch(id, result(id, 1, "a"), big, result(id, 3, "c")); err != nil {
		return err
	}
	ack, err := t.acked()
	if err != nil {
		return err
	}
	return rejected(ack, 2, big.GetEventId(), tooLarge)
}

// recordAtLimit has a record that is as large as it may be.
func recordAtLimit(p *probe) error {
	id := p.scan()
	t, err := p.open()
	if err != nil {
		return err
	}
	const beside = 1 << 10 // id, digest and the rest of a record
	most := t.welcome.GetLimits().WithDefaults().GetMaxRecordBytes()
	if err := t.batch(id, result(id, 1, strings.Repeat("x", int(most)-beside))); err != nil {
		return err
	}
	ack, err := t.acked()
	if err != nil {
		return err
	}
	return counts(ack, 1, 0)
}

// recordsOverLimit has a record more than a batch may have.
func recordsOverLimit(p *probe) error {
	id := p.scan()
	t, err := p.open()
	if err != nil {
		return err
	}
	most := int(t.welcome.GetLimits().WithDefaults().GetMaxRecordsPerBatch())
	if err := errors.Join(t.batch(id, results(id, most+1)...), t.refused(codes.InvalidArgument, codes.ResourceExhausted)); err != nil {
		return err
	}
	return p.verdict(id, isOpen, 0)
}

// messageOverLimit has a message that is a byte too large, and more.
func messageOverLimit(p *probe) error {
	id := p.scan()
	t, err := p.open()
	if err != nil {
		return err
	}
	most := t.welcome.GetLimits().WithDefaults().GetMaxMessageBytes()
	if err := t.batch(id, result(id, 1, strings.Repeat("x", int(most)+1))); err != nil {
		return err
	}
	if err := t.refused(codes.ResourceExhausted, codes.InvalidArgument); err != nil {
		return err
	}
	return p.verdict(id, isOpen, 0)
}

// outOfOrder sends batches with these numbers.
func outOfOrder(numbers ...uint64) func(*probe) error {
	return func(p *probe) error {
		t, err := p.open()
		if err != nil {
			return err
		}
		id := p.scan()
		for i, number := range numbers {
			if err := t.numbered(number, id, result(id, uint64(i)+1, "x")); err != nil {
				return err
			}
		}
		for {
			said, err := t.stream.Recv()
			if code := status.Code(err); code == codes.InvalidArgument || code == codes.FailedPrecondition {
				return nil
			}
			if err != nil {
				return err
			}
			if said.GetAck().GetThrough() >= numbers[len(numbers)-1] && said.GetAck().GetThrough() >= uint64(len(numbers)) {
				return fmt.Errorf("batches %v are acknowledged", numbers)
			}
		}
	}
}

// without sends a Scan of n records without some of them.
func without(p *probe, n int, missing ...int) (*forwardingv1.StreamId, []*forwardingv1.Record, error) {
	id := p.scan()
	list := whole(id, n)
	var rest []*forwardingv1.Record
	for i, r := range list {
		if !slices.Contains(missing, i+1) {
			rest = append(rest, r)
		}
	}
	return id, list, p.taken(id, rest...)
}

// named wants that these sequences are missing, and nothing else.
func named(n int, missing []int, want ...*forwardingv1.SequenceRange) func(*probe) error {
	return func(p *probe) error {
		id, _, err := without(p, n, missing...)
		if err != nil {
			return err
		}
		state, err := p.state(id)
		if err != nil {
			return err
		}
		same := slices.EqualFunc(state.GetGaps(), want, func(a, b *forwardingv1.SequenceRange) bool { return proto.Equal(a, b) })
		if state.GetCompleteness() != isIncomplete || state.GetMissing() != uint64(len(missing)) || !same {
			return fmt.Errorf("the stream is %v, %d are missing in %v, want %v", state.GetCompleteness(), state.GetMissing(), state.GetGaps(), want)
		}
		return nil
	}
}
