// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Bounds of one batch, and the silence that a far end is allowed.
const (
	maxRecords = 500
	maxBytes   = 1 << 20
	timeout    = 30 * time.Second
)

// prover is a sink that tells what it has of a stream.
type prover interface {
	sink.Sink
	sink.Prover
}

// remote is the transport by gRPC.
type remote struct {
	far               prover
	clusterID, tenant string

	mu  sync.Mutex
	err error
}

func (r *remote) lastError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *remote) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// stream is the client's session.
func (r *remote) stream(w *decision.Window) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{
		ClusterId: r.clusterID, Tenant: r.tenant, Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: w.Producer(), Uid: w.Session(),
	}
}

// Serve asks what the far end has of the session, then delivers the rest, one batch after the other.
func (r *remote) Serve(ctx context.Context, w *decision.Window) (delivered bool) {
	verdict, err := r.far.Proof(ctx, r.stream(w))
	if err != nil {
		r.note(err)
		return false
	}
	w.Acknowledge(verdict.HighestSequence)
	w.Connected(true)
	defer w.Connected(false)
	for most := maxRecords; ; {
		lines := w.After(w.First() - 1)
		if len(lines) == 0 {
			select {
			case <-w.Wake():
				continue
			case <-ctx.Done():
				return delivered
			}
		}
		lines = cut(lines, most)
		err := r.deliver(ctx, w, lines)
		r.note(err)
		switch {
		case err == nil:
			delivered = true
			most = min(maxRecords, 2*most)
		case sink.AsError(err).Class == sink.Refused && len(lines) > 1:
			most = len(lines) / 2 // until the record that is refused goes alone
		case sink.AsError(err).Class == sink.Refused:
			e := sink.AsError(err)
			w.Reject(lines[0].Number, &decision.RejectedError{Code: string(e.Reason), Message: e.Message}, false)
			w.Acknowledge(lines[0].Number)
		default:
			return delivered
		}
	}
}

// cut bounds a batch.
func cut(lines []decision.Line, most int) []decision.Line {
	size := 0
	for i, line := range lines {
		if size += len(line.Text); i == most || i > 0 && size > maxBytes {
			return lines[:i]
		}
	}
	return lines
}

func (r *remote) deliver(ctx context.Context, w *decision.Window, lines []decision.Line) error {
	batch := sink.Batch{Stream: r.stream(w)}
	numbers := map[string]uint64{}
	for _, line := range lines {
		batch.Records = append(batch.Records, sink.Record{
			EventID: line.ID, Sequence: line.Number, ObservedAt: time.Now(), Line: bytes.TrimSuffix(line.Text, []byte("\n")), //nolint:forbidigo // when it is sent
		})
		numbers[line.ID] = line.Number
	}
	outcome, err := r.far.Deliver(ctx, batch)
	if err != nil {
		return err
	}
	for _, rejected := range outcome.Rejected {
		w.Reject(numbers[rejected.EventID], &decision.RejectedError{Code: rejected.Reason, Message: rejected.Message}, false)
	}
	w.Acknowledge(lines[len(lines)-1].Number)
	return nil
}
