// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/decisionwire"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() {
	sink.Register("grpc", Open)
	sink.Register("grpcs", Open)
}

// defaultTimeout is the silence that a far end is allowed.
const defaultTimeout = 30 * time.Second

// maxPause bounds what a far end may ask for.
const maxPause = 10 * time.Minute

// Sink sends to one receiver.
type Sink struct {
	config sink.Config
	trust  *trust.Client
	conn   *grpc.ClientConn
	client forwardingv1.ForwardingServiceClient

	// alone is held by a delivery that must be the only one in flight.
	alone sync.RWMutex

	mutex       sync.Mutex
	opening     chan struct{} // holds one token: who has it may open a session
	session     *session
	compression string
	negotiated  bool
	stores      *bool
	careful     bool
	quietUntil  time.Time
	now         func() time.Time
}

// Open makes the sink. It dials with the first delivery.
func Open(config sink.Config) (sink.Sink, error) {
	if config.Timeout <= 0 {
		config.Timeout = defaultTimeout
	}
	compression, err := compressionOf(config)
	if err != nil {
		return nil, err
	}
	plain := config.Insecure || config.URL.Scheme == "grpc"
	host := config.URL.Host
	if config.URL.Port() == "" {
		host = net.JoinHostPort(config.URL.Hostname(), "443")
	}
	s := &Sink{config: config, compression: compression, negotiated: compression != auto, opening: make(chan struct{}, 1)}
	s.now = time.Now //nolint:forbidigo // pauses and certificates go by the clock of the machine
	s.trust = trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: plain, Dial: config.Dial, Expires: config.Expires,
		Now: s.now,
	})
	s.conn, err = s.trust.Conn(host, "scanyard-forwarding/"+config.Version, config.Timeout)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	s.client = forwardingv1.NewForwardingServiceClient(s.conn)
	return s, nil
}

// auto stands for what both sides have.
const auto = "auto"

func compressionOf(config sink.Config) (string, error) {
	switch strings.ToLower(config.Options["compression"]) {
	case "":
		return auto, nil
	case "none":
		return "", nil
	case "gzip":
		return wire.Gzip, nil
	case "zstd":
		return wire.Zstd, nil
	}
	return "", fmt.Errorf("sink %s: compression must be None, Gzip or Zstd, is %q", config.Name, config.Options["compression"])
}

// Close ends the connection.
func (s *Sink) Close() error { return s.conn.Close() }

// Probe asks for versions and limits.
func (s *Sink) Probe(ctx context.Context) error {
	if err := s.paused(); err != nil {
		return err
	}
	return s.tried(ctx, func(ctx context.Context) error {
		_, err := s.negotiate(ctx)
		return err
	})
}

// tried calls once more where the secrets changed since the far end refused them.
func (s *Sink) tried(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	err := call(ctx)
	if err != nil && sink.AsError(err).Class == sink.Auth && s.trust.Refused(ctx) {
		err = call(ctx)
	}
	return err
}

func (s *Sink) negotiate(ctx context.Context) (*forwardingv1.NegotiateResponse, error) {
	answer, err := s.client.Negotiate(ctx, &forwardingv1.NegotiateRequest{ApiVersions: []string{forwardingv1.Version}, SenderVersion: s.config.Version})
	if err != nil {
		return nil, s.explain(err, true)
	}
	if !slices.Contains(answer.GetApiVersions(), forwardingv1.Version) {
		return nil, &sink.Error{
			Class: sink.Incompatible, Reason: sink.NotCompatible,
			Message: fmt.Sprintf("the receiver does not have wire version %s: it has %s", forwardingv1.Version, strings.Join(answer.GetApiVersions(), ", ")),
		}
	}
	s.mutex.Lock()
	s.stores = new(answer.GetStores())
	s.mutex.Unlock()
	return answer, nil
}

// Proof asks the receiver what it holds of a stream. A receiver that keeps nothing has no verdict on anything.
func (s *Sink) Proof(ctx context.Context, stream *forwardingv1.StreamId) (sink.Verdict, error) {
	var verdict sink.Verdict
	err := s.tried(ctx, func(ctx context.Context) error {
		negotiated, err := s.negotiate(ctx)
		if err != nil {
			return err
		}
		if !negotiated.GetStores() {
			verdict = sink.Verdict{}
			return nil
		}
		answer, err := s.client.GetStream(ctx, &forwardingv1.GetStreamRequest{Stream: stream})
		if err != nil {
			return s.explain(err, true)
		}
		state := answer.GetState()
		verdict = sink.Verdict{
			Proved: true, Completeness: state.GetCompleteness(), Records: state.GetRecords(), Missing: state.GetMissing(),
			Gaps: state.GetGaps(), Chain: state.GetChain(), HighestSequence: state.GetHighestSequence(),
		}
		return nil
	})
	return verdict, err
}

// paused is the error of a far end that asked for silence.
func (s *Sink) paused() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if left := s.quietUntil.Sub(s.now()); left > 0 {
		return &sink.Error{Class: sink.Overload, Reason: sink.Overloaded, Message: "the receiver asked for silence", RetryAfter: left}
	}
	return nil
}

func (s *Sink) pause(asked time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.quietUntil = s.now().Add(min(asked, maxPause))
}

// Deliver sends a batch and waits until the receiver has it on disk.
func (s *Sink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	return s.Gather(ctx, []sink.Batch{batch})
}

// Gather sends batches of several streams one behind the other, and waits until the receiver has all of them on disk.
func (s *Sink) Gather(ctx context.Context, batches []sink.Batch) (sink.Outcome, error) {
	if err := s.paused(); err != nil {
		return sink.Outcome{}, err
	}
	s.mutex.Lock()
	careful := s.careful
	s.mutex.Unlock()
	if careful {
		s.alone.Lock()
		defer s.alone.Unlock()
	} else {
		s.alone.RLock()
		defer s.alone.RUnlock()
	}
	outcome, err := s.deliver(ctx, batches, careful)
	if err != nil && s.again(ctx, err) {
		outcome, err = s.deliver(ctx, batches, careful)
	}
	if changed := changedOnTheWay(batches, &outcome); err == nil && len(changed) > 0 {
		var later sink.Outcome
		later, err = s.deliver(ctx, changed, careful)
		outcome.Rejected = append(outcome.Rejected, later.Rejected...)
		outcome.Streams, outcome.Duplicates = append(outcome.Streams, later.Streams...), outcome.Duplicates+later.Duplicates
	}
	if err == nil && careful {
		s.mutex.Lock()
		s.careful = false
		s.mutex.Unlock()
	}
	return outcome, err
}

// changedOnTheWay takes from an outcome the records whose digest the receiver found wrong: they are sent once more, since bytes may have
// been changed on the way. What is refused then is told.
func changedOnTheWay(batches []sink.Batch, outcome *sink.Outcome) (again []sink.Batch) {
	mismatch := camel(strings.TrimPrefix(forwardingv1.RejectionReason_REJECTION_REASON_DIGEST_MISMATCH.String(), reasonPrefix))
	changed := map[string]bool{}
	outcome.Rejected = slices.DeleteFunc(outcome.Rejected, func(r sink.Rejection) bool {
		changed[r.EventID] = changed[r.EventID] || r.Reason == mismatch
		return r.Reason == mismatch
	})
	for _, batch := range batches {
		some := sink.Batch{Stream: batch.Stream}
		for _, record := range batch.Records {
			if changed[record.EventID] {
				some.Records = append(some.Records, record)
			}
		}
		if len(some.Records) > 0 {
			again = append(again, some)
		}
	}
	return again
}

// foreign tells whether the receiver refuses a record that it was not sent.
func foreign(batches []sink.Batch, rejected []sink.Rejection) bool {
	if len(rejected) == 0 {
		return false
	}
	known := map[string]bool{}
	for _, batch := range batches {
		for _, record := range batch.Records {
			known[record.EventID] = true
		}
	}
	return slices.ContainsFunc(rejected, func(r sink.Rejection) bool { return !known[r.EventID] })
}

// again tells whether a second try costs nothing: the secrets are others now, or a connection that worked was replaced, as receivers do with age.
func (s *Sink) again(ctx context.Context, err error) bool {
	e := sink.AsError(err)
	if e.Class == sink.Auth {
		return s.trust.Refused(ctx)
	}
	return e.Reason == sink.Disconnected && ctx.Err() == nil && s.paused() == nil
}

// deliver sends all parts and then waits for them; with alone set each is acknowledged before the next one goes.
func (s *Sink) deliver(ctx context.Context, batches []sink.Batch, alone bool) (outcome sink.Outcome, err error) {
	var sent []*delivery
	for _, batch := range batches {
		session, err := s.open(ctx)
		if err != nil {
			return sink.Outcome{}, err
		}
		for _, part := range parts(batch, session.limits, mostOf(session.limits, alone), &outcome) {
			if session, err = s.open(ctx); err != nil { // the part before may have ended the stream
				return sink.Outcome{}, err
			}
			d, err := session.send(ctx, part)
			if err == nil && alone {
				err = d.wait(ctx)
			}
			if err != nil {
				return sink.Outcome{}, err
			}
			sent = append(sent, d)
		}
	}
	for _, d := range sent {
		if err := d.wait(ctx); err != nil {
			return sink.Outcome{}, err
		}
		outcome.Rejected = append(outcome.Rejected, d.rejected...)
		outcome.Streams = append(outcome.Streams, d.streams...)
		outcome.Duplicates += d.duplicates
	}
	if foreign(batches, outcome.Rejected) {
		return sink.Outcome{}, &sink.Error{
			Class: sink.Transport, Reason: sink.Disconnected, Message: "the receiver refuses a record that it was not sent: bytes were changed on the way",
		}
	}
	return outcome, nil
}

// partRecords is how many records go out at once, so that the receiver works at them while the next ones are encoded.
const partRecords = 128

// mostOf is how many records a part holds. Where each part waits for the one before, there are no more parts than must be.
func mostOf(limits *forwardingv1.Limits, alone bool) int {
	if alone {
		return int(limits.GetMaxRecordsPerBatch())
	}
	return min(int(limits.GetMaxRecordsPerBatch()), partRecords)
}

// parts are the batches of the protocol, of which each holds records of one stream. A record that the receiver would refuse for its size is refused here.
func parts(batch sink.Batch, limits *forwardingv1.Limits, records int, outcome *sink.Outcome) (all []*forwardingv1.Batch) {
	for _, stream := range batch.ByStream() {
		all = append(all, partsOf(stream, limits, records, outcome)...)
	}
	return all
}

func partsOf(batch sink.Batch, limits *forwardingv1.Limits, records int, outcome *sink.Outcome) []*forwardingv1.Batch {
	var list []*forwardingv1.Batch
	part, size := &forwardingv1.Batch{Stream: batch.Stream}, uint64(0)
	const beside = 16 << 10 // what a message needs beside its records
	most := max(limits.GetMaxMessageBytes(), beside) - beside
	for _, record := range batch.Records {
		message, err := decisionwire.Message(record)
		if err != nil {
			outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: record.EventID, Reason: "Malformed", Message: err.Error()})
			continue
		}
		if len(message.GetDigest()) == 0 {
			message = proto.CloneOf(message)
			message.Schema, message.Digest = forwardingv1.Schema, forwardingv1.Digest(message)
		}
		length := uint64(wire.Size(message))
		if length > limits.GetMaxRecordBytes() || length > most {
			outcome.Rejected = append(outcome.Rejected, sink.Rejection{
				EventID: record.EventID, Reason: string(sink.TooLarge),
				Message: fmt.Sprintf("the record has %d bytes: the receiver takes at most %d", length, min(limits.GetMaxRecordBytes(), most)),
			})
			continue
		}
		if len(part.Records) > 0 && (size+length+8 > most || len(part.Records) >= records) {
			list = append(list, part)
			part, size = &forwardingv1.Batch{Stream: batch.Stream}, 0
		}
		part.Records = append(part.Records, message)
		size += length + 8
	}
	if len(part.Records) > 0 {
		list = append(list, part)
	}
	return list
}
