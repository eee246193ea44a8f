// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"sync/atomic"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// Keeper takes what a receiver accepted. *store.Store is one.
type Keeper interface {
	// Start hands over a batch. store.ErrFull means that there is no room for it.
	Start(ctx context.Context, batch store.Batch) (store.Pending, error)
	// Stream tells what of a stream is there.
	Stream(authority string, id *forwardingv1.StreamId) (*forwardingv1.StreamState, error)
	// Stores is false where nothing is kept.
	Stores() bool
}

// Discard is a Keeper that counts and keeps nothing.
type Discard struct{ received, rejected atomic.Uint64 }

// Start counts.
func (d *Discard) Start(_ context.Context, batch store.Batch) (store.Pending, error) {
	d.received.Add(uint64(len(batch.Records)) + batch.Refused)
	d.rejected.Add(batch.Refused)
	return store.Finished(store.Outcome{Stored: uint64(len(batch.Records))}), nil
}

// Stream knows of no stream.
func (*Discard) Stream(_ string, id *forwardingv1.StreamId) (*forwardingv1.StreamState, error) {
	return &forwardingv1.StreamState{Stream: id, Completeness: forwardingv1.Completeness_COMPLETENESS_OPEN, Chain: make([]byte, forwardingv1.DigestSize)}, nil
}

// Stores is false.
func (*Discard) Stores() bool { return false }

// Counters counts since the start.
func (d *Discard) Counters() store.Counters {
	return store.Counters{Received: d.received.Load(), Rejected: d.rejected.Load()}
}
