// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() {
	sink.Register("nats", Open)
	sink.Register("tls", Open)
}

const (
	defaultTimeout = 30 * time.Second
	defaultPort    = "4222"
	// maxInFlight is how many messages wait for their acknowledgement.
	maxInFlight = 256
)

// Sink publishes to subjects of one server.
type Sink struct {
	config   sink.Config
	template string
	address  string
	plain    bool
	ordered  bool
	timeout  time.Duration
	trust    *trust.Client
	now      func() time.Time

	inFlight *semaphore.Weighted
	alone    chan struct{} // whoever holds the token delivers alone, where order counts
	opening  chan struct{} // whoever holds the token may change conn
	conn     *connection
}

// Open makes the sink. It connects with the first delivery.
func Open(config sink.Config) (sink.Sink, error) {
	s := &Sink{
		config: config, template: strings.Trim(config.URL.Path, "/"), address: config.URL.Host, plain: config.Insecure,
		ordered: config.Options["ordered"] == "true", timeout: config.Timeout,
		inFlight: semaphore.NewWeighted(maxInFlight), alone: make(chan struct{}, 1), opening: make(chan struct{}, 1),
	}
	if err := checkSubject(s.template); err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	if config.URL.Port() == "" {
		s.address = net.JoinHostPort(config.URL.Hostname(), defaultPort)
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	s.now = time.Now //nolint:forbidigo // certificates are judged now
	s.trust = trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: s.plain, Dial: config.Dial, Expires: config.Expires,
		Now: s.now,
	})
	return s, nil
}

// Deliver publishes the records in their order and waits for all acknowledgements.
func (s *Sink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	if s.ordered {
		select {
		case s.alone <- struct{}{}:
			defer func() { <-s.alone }()
		case <-ctx.Done():
			return sink.Outcome{}, s.explain(ctx.Err())
		}
	}
	c, err := s.open(ctx)
	if err != nil {
		return sink.Outcome{}, err
	}
	d := &delivery{sink: s, conn: c}
	defer d.abandon()
	subject := subjectOf(s.template, batch.Stream)
	for _, record := range batch.Records {
		if err := d.room(ctx); err != nil {
			return sink.Outcome{}, s.explain(err)
		}
		if d.failure != nil {
			break
		}
		d.publish(subject, batch.Stream, record)
	}
	for len(d.waiting) > 0 && !d.silent {
		d.collect(ctx)
	}
	if d.failure != nil {
		return sink.Outcome{}, d.failure
	}
	return d.outcome, nil
}

// delivery is one batch on its way.
type delivery struct {
	sink    *Sink
	conn    *connection
	waiting []message
	outcome sink.Outcome
	failure *sink.Error
	silent  bool // no more answers come
}

// message waits for its acknowledgement.
type message struct {
	id     string
	answer jetstream.PubAckFuture
}

// room waits until one more message may be in flight.
func (d *delivery) room(ctx context.Context) error {
	if d.sink.ordered {
		for len(d.waiting) > 0 && !d.silent {
			d.collect(ctx)
		}
	}
	for !d.sink.inFlight.TryAcquire(1) {
		if len(d.waiting) == 0 {
			return d.sink.inFlight.Acquire(ctx, 1) // others hold everything, and give it back
		}
		d.collect(ctx)
	}
	if d.failure != nil {
		d.sink.inFlight.Release(1)
	}
	return nil
}

// publish sends one message. What cannot be sent for what is in it is refused at once.
func (d *delivery) publish(subject string, stream *forwardingv1.StreamId, record sink.Record) {
	body, err := cloudevent.Append(nil, stream, record)
	var answer jetstream.PubAckFuture
	if err != nil {
		err = &sink.Error{Class: sink.Refused, Reason: "Malformed", Message: err.Error()}
	} else {
		options := []jetstream.PublishOpt{jetstream.WithMsgID(record.EventID), jetstream.WithRetryAttempts(0)}
		if expected := d.sink.config.Options["stream"]; expected != "" {
			options = append(options, jetstream.WithExpectStream(expected))
		}
		event := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Content-Type": {"application/cloudevents+json"}}}
		answer, err = d.conn.stream.PublishMsgAsync(event, options...)
	}
	if err != nil {
		d.sink.inFlight.Release(1)
		d.failed(record.EventID, err)
		return
	}
	d.waiting = append(d.waiting, message{id: record.EventID, answer: answer})
}

// collect waits for the answer to the oldest message.
func (d *delivery) collect(ctx context.Context) {
	oldest := d.waiting[0]
	timer := time.NewTimer(d.sink.timeout)
	defer timer.Stop()
	select {
	case ack := <-oldest.answer.Ok():
		if ack.Duplicate {
			d.outcome.Duplicates++
		}
	case err := <-oldest.answer.Err():
		d.failed(oldest.id, err)
	case denied := <-d.conn.denied:
		d.conn.client.Close()
		d.sink.trust.Refused(ctx) // the next connection comes with the secrets of then
		d.end(denied)
		return
	case <-d.conn.closed:
		err := d.conn.client.LastError()
		if err == nil {
			err = nats.ErrConnectionClosed
		}
		d.end(d.sink.explain(err))
		return
	case <-timer.C:
		d.conn.client.Close()
		d.end(&sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: fmt.Sprintf("the server has not acknowledged within %s", d.sink.timeout)})
		return
	case <-ctx.Done():
		d.end(d.sink.explain(ctx.Err()))
		return
	}
	d.waiting = d.waiting[1:]
	d.sink.inFlight.Release(1)
}

// failed notes an answer that is not a success: the record is refused, or the batch has failed.
func (d *delivery) failed(id string, err error) {
	e := d.sink.explain(err)
	if e.Class == sink.Refused {
		d.outcome.Rejected = append(d.outcome.Rejected, sink.Rejection{EventID: id, Reason: string(e.Reason), Message: e.Message})
		return
	}
	if d.failure == nil {
		d.failure = e
	}
}

// end gives up waiting.
func (d *delivery) end(e *sink.Error) {
	if d.failure == nil {
		d.failure = e
	}
	d.silent = true
	d.abandon()
}

// abandon gives back what the delivery holds.
func (d *delivery) abandon() {
	d.sink.inFlight.Release(int64(len(d.waiting)))
	d.waiting = nil
}

// Probe connects and asks the server for an answer.
func (s *Sink) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := c.client.FlushWithContext(ctx); err != nil {
		return s.explain(err)
	}
	return nil
}

// Proof tells whether the stream keeps what it acknowledges: in files, and without dropping old messages for new ones.
// It asks on a connection of its own: a sender that may only publish proves nothing, and its publishing goes on.
func (s *Sink) Proof(ctx context.Context, stream *forwardingv1.StreamId) (sink.Verdict, error) {
	if s.config.Options["provesStorage"] == "true" {
		return sink.Verdict{Proved: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return sink.Verdict{}, err
	}
	defer c.client.Close()
	type answer struct {
		config jetstream.StreamConfig
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		config, err := configOf(ctx, c.stream, subjectOf(s.template, stream))
		answered <- answer{config, err}
	}()
	select {
	case <-c.denied: //nolint:errcheck // who may not ask has no proof, and that is not a failure
		return sink.Verdict{}, nil
	case a := <-answered:
		if a.err != nil {
			return sink.Verdict{}, s.explain(a.err)
		}
		return sink.Verdict{Proved: a.config.Storage == jetstream.FileStorage && a.config.Discard == jetstream.DiscardNew && !a.config.NoAck}, nil
	}
}

// configOf gives the configuration of the stream that takes a subject.
func configOf(ctx context.Context, from jetstream.JetStream, subject string) (jetstream.StreamConfig, error) {
	name, err := from.StreamNameBySubject(ctx, subject)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	found, err := from.Stream(ctx, name)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return found.CachedInfo().Config, nil
}

// Close ends the connection.
func (s *Sink) Close() error {
	s.opening <- struct{}{}
	defer func() { <-s.opening }()
	if s.conn != nil {
		s.conn.client.Close()
		s.conn = nil
	}
	return nil
}

// Codes of errors of JetStream.
const (
	codeAccountLimits   = 10002
	codeUnavailable     = 10008
	codeNoResources     = 10023
	codeNoMemory        = 10028
	codeNoStorage       = 10047
	codeMessageTooLarge = 10054
	codeStoreFailed     = 10077 // such as "maximum bytes exceeded"
)

// explain says what an error means for the data.
func (s *Sink) explain(err error) *sink.Error {
	if known, ok := errors.AsType[*sink.Error](err); ok {
		return known
	}
	var class sink.Class
	var reason sink.Reason
	var answer jetstream.JetStreamError
	switch {
	case errors.As(err, &answer) && answer.APIError() != nil:
		class, reason = classOf(answer.APIError())
	case errors.Is(err, nats.ErrMaxPayload):
		class, reason = sink.Refused, sink.TooLarge
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrStreamNotFound),
		errors.Is(err, nats.ErrHeadersNotSupported), errors.Is(err, nats.ErrNkeysNotSupported), errors.Is(err, nats.ErrNoInfoReceived),
		errors.Is(err, jetstream.ErrInvalidJSAck):
		class, reason = sink.Incompatible, sink.NotCompatible
	case errors.Is(err, nats.ErrPermissionViolation):
		class, reason = sink.Auth, sink.PermissionDenied
	case isAuth(err):
		class, reason = sink.Auth, sink.TokenRejected
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
		class, reason = sink.Overload, sink.Overloaded
	default:
		if refused := s.trust.Reason(); refused != nil {
			return refused
		}
		if errors.Is(err, nats.ErrTimeout) {
			return &sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: err.Error()}
		}
		return trust.Classify(err)
	}
	return &sink.Error{Class: class, Reason: reason, Message: fmt.Sprintf("%.256s", err.Error())}
}

func isAuth(err error) bool {
	for _, known := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrUserButNoSigCB, nats.ErrNkeyButNoSigCB,
		nats.ErrTokenAlreadySet,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// classOf says what the answer of a stream means.
func classOf(answer *jetstream.APIError) (sink.Class, sink.Reason) {
	switch answer.ErrorCode {
	case codeMessageTooLarge:
		return sink.Refused, sink.TooLarge
	case codeAccountLimits, codeNoResources, codeNoMemory, codeNoStorage, codeStoreFailed:
		return sink.Overload, sink.Overloaded
	case codeUnavailable:
		return sink.Transport, sink.Disconnected
	default:
		return sink.Incompatible, sink.NotCompatible
	}
}
