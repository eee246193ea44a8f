// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// refusal sees that brokers and we do not trust each other. The client goes on trying to connect for as long as a record may wait;
// whoever waits is told at once instead.
type refusal struct {
	dialer *trust.Client

	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]struct{}
}

var _ kgo.HookBrokerConnect = (*refusal)(nil)

// OnBrokerConnect is called with each attempt.
func (r *refusal) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		return
	}
	e := classify(err)
	if reason := r.dialer.Reason(); reason != nil && reason.Class == sink.Auth {
		e = reason
	}
	if e.Class != sink.Auth {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.waiting {
		(*cancel)(e)
	}
}

// wait gives a context that ends with the refusal as its cause. The function ends the waiting.
func (r *refusal) wait(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[&cancel] = struct{}{}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, &cancel)
		cancel(nil)
	}
}

// explain says why a request failed.
func (r *refusal) explain(ctx context.Context, err error) *sink.Error {
	if refused, ok := errors.AsType[*sink.Error](context.Cause(ctx)); ok {
		return refused
	}
	return classify(err)
}
