// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"slices"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// Sink takes batches. Calls of one Sink overlap for batches of different tenants, and for those of one tenant where the Sink is [Unordered].
type Sink interface {
	// Deliver hands over one batch. With a nil error the far end has all records but those that Outcome names as rejected.
	// Any other answer is an *Error, and then the far end may hold some, all or none of the batch.
	Deliver(ctx context.Context, batch Batch) (Outcome, error)
	// Probe asks whether the far end would take records, without giving it one.
	Probe(ctx context.Context) error
	// Close ends connections. No call follows it.
	Close() error
}

// Gatherer is a Sink that takes the records of several streams in one call.
type Gatherer interface {
	// Gather is Deliver for batches of streams that differ. Its error says that the far end may hold some, all or none of all batches.
	Gather(ctx context.Context, batches []Batch) (Outcome, error)
}

// Unordered is a Sink that can say that its far end promises no order: then what comes later may be on its way before it is known that what came
// before has arrived.
type Unordered interface {
	Unordered() bool
}

// Prover is a Sink that can say afterwards what the far end holds of a stream.
type Prover interface {
	Proof(ctx context.Context, stream *forwardingv1.StreamId) (Verdict, error)
}

// Batch holds records of one stream in rising sequence.
type Batch struct {
	Stream  *forwardingv1.StreamId
	Records []Record
}

// Record is one record on its way. Of a decision Line is the line of JSON as the producer wrote it, without its newline;
// of all others Line is nil. Message is the record as the protocol knows it; of a decision it may be nil, and is made from Line.
type Record struct {
	EventID    string
	Sequence   uint64
	ObservedAt time.Time
	Line       []byte
	Message    *forwardingv1.Record
	// Metadata is what the exporter knows about the producer of a decision; it becomes Decision.extra.
	Metadata map[string]string
}

// MetadataProducer is the key of Metadata that names the program which has handed a decision in.
const MetadataProducer = "producer"

// StreamOf is the stream that a record of the batch belongs to. The batch of an exporter holds what its queue has in order; of that, the decisions of
// each producer that has said its name are a stream of their own. Sequences are those of the queue: a stream of one producer has gaps where others
// have handed in records, and all streams of a queue (UID) together have each sequence once.
func (b Batch) StreamOf(r *Record) *forwardingv1.StreamId {
	name := b.nameOf(r)
	if name == b.Stream.GetName() {
		return b.Stream
	}
	return &forwardingv1.StreamId{
		ClusterId: b.Stream.GetClusterId(), Tenant: b.Stream.GetTenant(), Kind: b.Stream.GetKind(), Name: name,
		Uid: b.Stream.GetUid(), Revision: b.Stream.GetRevision(),
	}
}

// nameOf is the name of the stream that a record belongs to.
func (b Batch) nameOf(r *Record) string {
	if producer := r.Metadata[MetadataProducer]; r.Line != nil && producer != "" {
		return producer
	}
	return b.Stream.GetName()
}

// ByStream cuts the batch into one for each stream, in the order in which they begin.
func (b Batch) ByStream() []Batch {
	if len(b.Records) == 0 {
		return nil
	}
	first := b.StreamOf(&b.Records[0])
	if !slices.ContainsFunc(b.Records, func(r Record) bool { return b.nameOf(&r) != first.GetName() }) {
		return []Batch{{Stream: first, Records: b.Records}}
	}
	var all []Batch
	places := map[string]int{}
	for i := range b.Records {
		name := b.nameOf(&b.Records[i])
		at, known := places[name]
		if !known {
			at = len(all)
			places[name], all = at, append(all, Batch{Stream: b.StreamOf(&b.Records[i])})
		}
		all[at].Records = append(all[at].Records, b.Records[i])
	}
	return all
}

// Outcome is what a far end answered to a batch.
type Outcome struct {
	// Duplicates counts the records that the far end already had.
	Duplicates int
	// Rejected names the records that the far end refuses for ever.
	Rejected []Rejection
	// Streams are the states of streams that the far end told, in the protocol's words. Only receivers tell them.
	Streams []*forwardingv1.StreamState
}

// Rejection is one record that a far end refuses.
type Rejection struct {
	EventID string
	Reason  string // such as TooLarge, Conflict, Malformed
	Message string // the far end's words: at most 256 printable characters
}

// Verdict is what a far end holds of a stream.
type Verdict struct {
	// Proved is true where the far end keeps what it acknowledges and told count and chain.
	Proved          bool
	Completeness    forwardingv1.Completeness
	Records         uint64
	Missing         uint64
	Gaps            []*forwardingv1.SequenceRange
	Chain           []byte
	HighestSequence uint64
}
