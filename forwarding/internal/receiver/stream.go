// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// ackEvery bounds the batches that one ack covers.
const ackEvery = 64

// features are what this receiver can do beyond the wire version.
func features() []string {
	return []string{forwardingv1.FeatureZstd, forwardingv1.FeatureGzip, forwardingv1.FeatureChain, forwardingv1.FeatureStreamState}
}

type forwardStream = interface {
	Context() context.Context
	Send(*forwardingv1.ForwardResponse) error
	Recv() (*forwardingv1.ForwardRequest, error)
}

// Forward takes batches until the sender ends the stream, and acknowledges what is on disk.
func (s *Service) Forward(stream forwardingv1.ForwardingService_ForwardServer) error {
	return s.forward(stream)
}

func (s *Service) forward(stream forwardStream) error {
	caller, err := s.identify(stream.Context())
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return status.Error(codes.FailedPrecondition, "the first message is hello")
	}
	if err := greet(first.GetHello()); err != nil {
		return err
	}
	err = stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Welcome{Welcome: &forwardingv1.Welcome{
		ApiVersion: forwardingv1.Version, ReceiverVersion: s.options.Version, Features: features(), Limits: s.options.Limits, Stores: s.options.Keeper.Stores(),
	}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	window := int64(s.options.Limits.GetWindowBytes()) + int64(s.options.Limits.GetMaxMessageBytes())
	r := &reader{
		service: s, stream: stream, caller: caller, room: semaphore.NewWeighted(window), window: window,
		taken: make(chan taken, ackEvery), failed: make(chan error, 1),
	}
	go r.read(ctx)
	// The stream ends when this method returns; then Recv fails and the reader ends as well.
	return r.acknowledge(ctx)
}

// reader is the half of a stream that reads.
type reader struct {
	service *Service
	stream  forwardStream
	caller  Caller
	// room is what of the window is free.
	room   *semaphore.Weighted
	window int64
	// taken are the batches that are on their way to the disk; it is closed at the end.
	taken chan taken
	// failed holds why reading ended, before taken is closed; nothing if the sender ended the stream.
	failed chan error
}

func (r *reader) read(ctx context.Context) {
	defer close(r.taken)
	for expected := uint64(1); ; expected++ {
		request, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = r.batch(ctx, request, expected)
		}
		if err != nil {
			r.failed <- err
			return
		}
	}
}

func (r *reader) batch(ctx context.Context, request *forwardingv1.ForwardRequest, expected uint64) error {
	batch := request.GetBatch()
	if batch == nil {
		return status.Error(codes.InvalidArgument, "only batches follow hello")
	}
	if batch.GetNumber() != expected {
		return status.Errorf(codes.InvalidArgument, "batch %d is out of order: %d was expected", batch.GetNumber(), expected)
	}
	t, err := r.service.take(ctx, r.caller, batch)
	if err != nil {
		return err
	}
	t.bytes = min(t.bytes, r.window)
	if err := r.room.Acquire(ctx, t.bytes); err != nil {
		return err
	}
	select {
	case r.taken <- t:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acknowledge tells what is on disk, in the order of the batches. What several commits finished at the same time is told in one ack.
func (r *reader) acknowledge(ctx context.Context) error {
	for {
		t, ok := r.wait()
		if !ok {
			break
		}
		ack := &forwardingv1.Ack{}
		err := r.finish(ctx, t, ack)
		if err == nil {
			err = r.more(ctx, ack)
		}
		// What is on disk is told also where the next batch has no room.
		if sent := r.send(ack); sent != nil {
			return sent
		}
		if err != nil {
			return r.refuse(err)
		}
	}
	select {
	case err := <-r.failed:
		return r.refuse(err)
	case <-r.service.draining:
		return r.refuse(store.ErrClosed)
	default:
		return nil
	}
}

// wait gives the next batch; false: there is none, or none is waited for any more.
func (r *reader) wait() (t taken, ok bool) {
	select {
	case t, ok = <-r.taken:
		return t, ok
	default:
	}
	select {
	case t, ok = <-r.taken:
	case <-r.service.draining:
	}
	return t, ok
}

// more adds batches that are on disk already.
func (r *reader) more(ctx context.Context, ack *forwardingv1.Ack) error {
	for range ackEvery - 1 {
		select {
		case t, ok := <-r.taken:
			if !ok {
				return nil
			}
			select {
			case <-t.pending.Done():
			default:
				// The disk is not there yet: what it has is told before it is waited for.
				if err := r.send(ack); err != nil {
					return err
				}
				proto.Reset(ack)
			}
			if err := r.finish(ctx, t, ack); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (r *reader) finish(ctx context.Context, t taken, ack *forwardingv1.Ack) error {
	outcome, err := t.pending.Wait(ctx)
	r.room.Release(t.bytes)
	if err == nil {
		t.tell(ack, outcome)
	}
	return err
}

func (r *reader) send(ack *forwardingv1.Ack) error {
	if ack.GetThrough() == 0 {
		return nil
	}
	return r.stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Ack{Ack: ack}})
}

// refuse ends the stream with what the store said. A full store asks for silence first.
func (r *reader) refuse(err error) error {
	if errors.Is(err, store.ErrFull) {
		pause := &forwardingv1.Pause{Duration: durationpb.New(fullPause), Reason: err.Error()}
		if sent := r.stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Pause{Pause: pause}}); sent != nil {
			return sent
		}
	}
	return r.service.refusal(err)
}
