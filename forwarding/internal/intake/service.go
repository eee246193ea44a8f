// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/decisionwire"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
)

// Keeper is the queue as ForwardingService sees it: records are acknowledged when they are synced.
type Keeper struct {
	Options Options
	Callers Callers
	// ClusterID is that of streams whose sender names none.
	ClusterID string

	repeated repeated
}

// Identify tells who calls, and that a caller writes to streams of its own tenant only.
func (k *Keeper) Identify(ctx context.Context) (receiver.Caller, error) {
	var named Named
	if k.Callers.Tokens != nil {
		var err error
		if named, err = receiver.Bearer(ctx, k.Callers.Tokens); err != nil {
			return receiver.Caller{}, err
		}
	}
	tenant := k.Callers.tenant(named, receiver.Certificate(ctx))
	return receiver.Caller{
		Authority: tenant,
		Refuses: func(stream *forwardingv1.StreamId) string {
			if stream.GetTenant() == tenant {
				return ""
			}
			return fmt.Sprintf("the sender is tenant %s, the stream is of tenant %s", tenant, stream.GetTenant())
		},
		Complete: func(stream *forwardingv1.StreamId) {
			if stream.GetTenant() == "" {
				stream.Tenant = tenant
			}
			if stream.GetClusterId() == "" {
				stream.ClusterId = k.ClusterID
			}
		},
		Validate: validate,
	}, nil
}

// validate holds a decision to the rules that a line of the socket is held to: a sink that writes lines would refuse it later, when its producer
// hears nothing of that any more.
func validate(record *forwardingv1.Record) error {
	if d := record.GetDecision(); d != nil {
		return decisionwire.Validate(d)
	}
	return nil
}

// Start takes a batch as a whole, or tells that there is no room for it. Records that are here already are not taken again.
func (k *Keeper) Start(_ context.Context, batch store.Batch) (store.Pending, error) {
	if len(batch.Records) == 0 {
		return store.Finished(store.Outcome{}), nil
	}
	stream, err := proto.Marshal(batch.Stream)
	if err != nil {
		return store.Pending{}, err
	}
	messages, all := make([][]byte, 0, len(batch.Records)), make([]byte, 0, batch.Bytes)
	for _, record := range batch.Records {
		begin := len(all)
		if all, err = wire.AppendRecord(all, record); err != nil {
			return store.Pending{}, fmt.Errorf("encode record %s: %w", record.GetEventId(), err)
		}
		messages = append(messages, all[begin:len(all):len(all)])
	}
	return k.submit(batch, stream, messages)
}

func (k *Keeper) submit(batch store.Batch, stream []byte, messages [][]byte) (store.Pending, error) {
	k.repeated.Lock()
	defer k.repeated.Unlock()
	k.repeated.init()
	tenant, now := batch.Stream.GetTenant(), k.Options.Now()
	s := &queue.Submission{Session: sessionOf(batch.Authority, batch.Stream)}
	var marks []mark
	for i, record := range batch.Records {
		s.Through = max(s.Through, record.GetSequence())
		m := k.repeated.mark(s.Session, record)
		if k.repeated.known(m) {
			continue
		}
		r := &queue.Record{ID: record.GetEventId(), Time: now, Stream: stream, Message: messages[i], Decoded: record}
		if err := k.Options.Queue.Reserve(tenant, r.Size()); err != nil {
			k.release(s)
			return store.Pending{}, fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		s.Entries, marks = append(s.Entries, queue.Entry{Tenant: tenant, Record: r}), append(marks, m)
	}
	for _, m := range marks {
		k.repeated.add(m)
	}
	pending, finish := store.Handed()
	s.Done = func(err error) {
		if errors.Is(err, queue.ErrClosed) {
			err = store.ErrClosed
		}
		if err == nil {
			k.Options.Observe.Enqueued("grpc", tenant, len(s.Entries))
		}
		finish(store.Outcome{Stored: uint64(len(s.Entries)), Duplicates: uint64(len(messages) - len(s.Entries))}, err)
	}
	k.Options.Queue.Submit(s)
	return pending, nil
}

func (k *Keeper) release(s *queue.Submission) {
	for _, e := range s.Entries {
		k.Options.Queue.Release(e.Tenant, e.Record.Size())
	}
}

// Stream tells what came in of a stream. An exporter sees no end of it.
func (k *Keeper) Stream(authority string, id *forwardingv1.StreamId) (*forwardingv1.StreamState, error) {
	through, records, _ := k.Options.Queue.Session(sessionOf(authority, id))
	return &forwardingv1.StreamState{
		Stream: id, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN, Records: records, HighestSequence: through,
		Chain: make([]byte, forwardingv1.DigestSize),
	}, nil
}

// Stores is false: an exporter keeps records until they are delivered, and proves nothing.
func (*Keeper) Stores() bool { return false }

// sessionOf names a stream among the sessions. No session of a socket has this form.
func sessionOf(authority string, id *forwardingv1.StreamId) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %q %q %d", authority, id.GetClusterId(), id.GetTenant(), id.GetKind(), id.GetName(), id.GetUid(), id.GetRevision())
	return "stream/" + hex.EncodeToString(h.Sum(nil))
}
