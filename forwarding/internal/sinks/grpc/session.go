// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/answer"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// forwardStream is the stream as gRPC has it.
type forwardStream = grpc.BidiStreamingClient[forwardingv1.ForwardRequest, forwardingv1.ForwardResponse]

// session is one stream to the receiver.
type session struct {
	sink   *Sink
	stream forwardStream
	cancel context.CancelFunc
	limits *forwardingv1.Limits
	// window is what of the receiver's window is free.
	window *semaphore.Weighted
	size   int64

	sending sync.Mutex // orders batches

	mutex   sync.Mutex
	last    uint64
	through uint64
	waiting map[uint64]*delivery
	heard   chan struct{} // closed and made anew with each message of the receiver
	ended   chan struct{}
	err     *sink.Error
}

// delivery is one batch that is on its way.
type delivery struct {
	session    *session
	number     uint64
	records    int
	bytes      int64
	done       chan struct{}
	judged     bool // the error that ended the session is about this batch
	rejected   []sink.Rejection
	streams    []*forwardingv1.StreamState
	duplicates int
}

// open gives the session, and makes one where there is none.
func (s *Sink) open(ctx context.Context) (*session, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, s.explain(ctx.Err(), false)
	}
	if known := s.session; known != nil && known.alive() {
		return known, nil
	}
	opened, welcome, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	if !s.negotiated {
		s.compression, s.negotiated = "", true
		for _, compression := range []string{wire.Zstd, wire.Gzip} {
			if slices.Contains(welcome.GetFeatures(), compression) {
				s.compression = compression
				opened.end(&sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: "the stream begins anew with compression"})
				if opened, _, err = s.dial(ctx); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	s.session = opened
	return opened, nil
}

// dial opens a stream and says hello. The stream outlives the delivery that asked for it.
func (s *Sink) dial(ctx context.Context) (*session, *forwardingv1.Welcome, error) {
	var options []grpc.CallOption
	if s.compression != "" && s.compression != auto {
		options = append(options, grpc.UseCompressor(s.compression))
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// Until the welcome the stream ends with whoever asked for it, or with its silence.
	stop := context.AfterFunc(ctx, cancel)
	silence := time.AfterFunc(s.config.Timeout, cancel)
	stream, welcome, err := s.greet(lasting, options)
	inTime := silence.Stop()
	if stopped := stop(); err == nil && (!stopped || !inTime) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		if !inTime && s.trust.Reason() == nil {
			err = context.DeadlineExceeded
		}
		return nil, nil, s.explain(err, true)
	}
	limits := welcome.GetLimits().WithDefaults()
	opened := &session{
		sink: s, stream: stream, cancel: cancel, limits: limits, size: int64(limits.GetWindowBytes()), window: semaphore.NewWeighted(int64(limits.GetWindowBytes())),
		waiting: map[uint64]*delivery{}, heard: make(chan struct{}), ended: make(chan struct{}),
	}
	go opened.receive()
	return opened, welcome, nil
}

func (s *Sink) greet(ctx context.Context, options []grpc.CallOption) (forwardStream, *forwardingv1.Welcome, error) {
	stream, err := s.client.Forward(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	hello := &forwardingv1.Hello{
		ApiVersion: forwardingv1.Version, Sender: s.config.ClusterID, SenderVersion: s.config.Version,
		Features: []string{forwardingv1.FeatureZstd, forwardingv1.FeatureGzip, forwardingv1.FeatureChain, forwardingv1.FeatureStreamState},
	}
	err = stream.Send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: hello}})
	if err != nil && !errors.Is(err, io.EOF) { // with io.EOF Recv has the reason
		return nil, nil, err
	}
	said, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	if pause := said.GetPause(); pause != nil {
		s.pause(pause.GetDuration().AsDuration())
		return nil, nil, s.paused()
	}
	welcome := said.GetWelcome()
	if welcome.GetApiVersion() != forwardingv1.Version {
		return nil, nil, &sink.Error{
			Class: sink.Incompatible, Reason: sink.NotCompatible, Message: fmt.Sprintf("the receiver answers hello with version %q", welcome.GetApiVersion()),
		}
	}
	return stream, welcome, nil
}

func (s *session) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// send hands a batch to the stream, as soon as the window has room.
func (s *session) send(ctx context.Context, batch *forwardingv1.Batch) (*delivery, error) {
	d := &delivery{session: s, records: len(batch.GetRecords()), bytes: min(int64(wire.Size(batch)), s.size), done: make(chan struct{})}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.ended:
			cancel()
		case <-stop:
		}
	}()
	if err := s.window.Acquire(waiting, d.bytes); err != nil {
		return nil, s.failure(d, err)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mutex.Lock()
	s.last++
	d.number, batch.Number = s.last, s.last
	s.waiting[d.number] = d
	s.mutex.Unlock()
	err := s.stream.Send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: batch}})
	if errors.Is(err, io.EOF) {
		<-s.ended // Recv has the reason
	}
	if err != nil {
		return nil, s.failure(d, err)
	}
	return d, nil
}

// failure is why the session ended, or else what the error says. What was said about another batch says nothing about this one.
func (s *session) failure(d *delivery, err error) *sink.Error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.err == nil:
		return s.sink.explain(err, false)
	case aboutRecords(s.err) && !d.judged:
		return &sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: "the stream ended by another batch: " + s.err.Message}
	}
	return s.err
}

// aboutRecords tells whether an error that ends a stream is about what a batch holds.
func aboutRecords(e *sink.Error) bool { return e.Class == sink.Refused || e.Class == answer.Done }

// wait waits for the ack of a batch. Silence of the receiver ends the session.
func (d *delivery) wait(ctx context.Context) error {
	s := d.session
	timer := time.NewTimer(s.sink.config.Timeout)
	defer timer.Stop()
	for {
		s.mutex.Lock()
		heard := s.heard
		s.mutex.Unlock()
		select {
		case <-d.done:
			return nil
		case <-heard:
			timer.Reset(s.sink.config.Timeout)
		case <-timer.C:
			s.end(&sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: fmt.Sprintf("the receiver was silent for %s", s.sink.config.Timeout)})
		case <-ctx.Done():
			return s.sink.explain(ctx.Err(), false)
		case <-s.ended:
			select {
			case <-d.done: // the ack came before the end
				return nil
			default:
			}
			e := s.failure(d, nil)
			if e.Class == answer.Done {
				d.duplicates = d.records
				return nil
			}
			return e
		}
	}
}

// receive reads until the stream ends.
func (s *session) receive() {
	for {
		said, err := s.stream.Recv()
		if err != nil {
			s.end(s.broken(err))
			return
		}
		if pause := said.GetPause(); pause != nil {
			s.sink.pause(pause.GetDuration().AsDuration())
		}
		s.mutex.Lock()
		if ack := said.GetAck(); ack != nil {
			s.acknowledge(ack)
		}
		close(s.heard)
		s.heard = make(chan struct{})
		s.mutex.Unlock()
	}
}

// acknowledge completes what an ack covers. Rejections may come before the ack that covers their batch. An ack counts duplicates of all its batches:
// they are told with the last of them.
func (s *session) acknowledge(ack *forwardingv1.Ack) {
	for _, rejection := range ack.GetRejections() {
		if d := s.waiting[rejection.GetBatch()]; d != nil {
			reason := strings.TrimPrefix(rejection.GetReason().String(), reasonPrefix)
			d.rejected = append(d.rejected, sink.Rejection{EventID: rejection.GetEventId(), Reason: camel(reason), Message: answer.Words(rejection.GetMessage())})
		}
	}
	for number := s.through + 1; number <= min(ack.GetThrough(), s.last); number++ {
		d := s.waiting[number]
		if d == nil {
			continue
		}
		delete(s.waiting, number)
		d.streams = ack.GetStreams()
		if number == ack.GetThrough() {
			d.duplicates = int(ack.GetDuplicates())
		}
		s.window.Release(d.bytes)
		close(d.done)
	}
	s.through = max(s.through, min(ack.GetThrough(), s.last))
}

// broken is why the stream ended. Where it names records but no batch, several in flight are all kept.
func (s *session) broken(err error) *sink.Error {
	e := s.sink.explain(err, false)
	s.mutex.Lock()
	several := len(s.waiting) > 1
	for _, d := range s.waiting {
		d.judged = true
	}
	s.mutex.Unlock()
	if several && aboutRecords(e) {
		s.sink.mutex.Lock()
		s.sink.careful = true
		s.sink.mutex.Unlock()
		return &sink.Error{Class: sink.Transport, Reason: sink.Unknown, Message: "one of several batches was refused, they go alone now: " + e.Message}
	}
	return e
}

// end ends the session once.
func (s *session) end(reason *sink.Error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil {
		return
	}
	s.err = reason
	close(s.ended)
	s.cancel()
}

// explain tells what an error of a call means for the data. greeting is true before the first batch of a stream.
func (s *Sink) explain(err error, greeting bool) *sink.Error {
	return answer.Call(err, s.trust, greeting)
}

// reasonPrefix begins the names of reasons in the protocol.
const reasonPrefix = "REJECTION_REASON_"

// camel makes TooLarge of TOO_LARGE.
func camel(name string) string {
	var to strings.Builder
	for part := range strings.SplitSeq(strings.ToLower(name), "_") {
		if part != "" {
			to.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return to.String()
}
