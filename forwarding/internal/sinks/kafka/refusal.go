// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// refusal sees that brokers and we do not trust each other. The client goes on trying to connect for as long as a record may wait;
// whoever waits is told at once instead.
type refusal struct {
	dialer *trust.Client
	// sasl says that the sink tells brokers who it is.
	sasl bool

	mu      sync.Mutex
	waiting map[*context.CancelCauseFunc]struct{}
}

var _ kgo.HookBrokerConnect = (*refusal)(nil)

// OnBrokerConnect is called with each attempt.
func (r *refusal) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if err == nil {
		return
	}
	e := classify(err)
	if r.sasl && conn != nil && isHangUp(err) {
		// Some brokers say no word to whom they do not know. Before the exchange of SASL such an end has another type.
		e = &sink.Error{
			Class: sink.Auth, Reason: sink.TokenRejected,
			Message: "the broker ended the connection when the sink said who it is: look at the mechanism, the user name and the password or token",
		}
	}
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

// isHangUp tells whether the other side has ended a connection.
func isHangUp(err error) bool {
	if errors.As(err, new(*kgo.ErrFirstReadEOF)) {
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
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
