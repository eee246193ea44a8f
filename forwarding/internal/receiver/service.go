// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
)

// Options say what a receiver takes, from whom, and where it puts it.
type Options struct {
	Keeper  Keeper
	Limits  *forwardingv1.Limits
	Version string
	// Tokens are asked of every call; nil: of none.
	Tokens *Tokens
	// Identify takes the place of Tokens where callers are known in another way.
	Identify func(context.Context) (Caller, error)
	// Credentials give TLS; nil: plain text.
	Credentials credentials.TransportCredentials
	// MaxConnectionAge ends connections, so that senders show their certificates again; 0: never.
	MaxConnectionAge time.Duration
	Log              *slog.Logger
}

// fullPause is how long a full receiver asks to be left alone.
const fullPause = 5 * time.Second

// Service is the ForwardingService.
type Service struct {
	forwardingv1.UnimplementedForwardingServiceServer

	options  Options
	draining chan struct{}
}

// New makes the service.
func New(options Options) *Service {
	options.Limits = options.Limits.WithDefaults()
	return &Service{options: options, draining: make(chan struct{})}
}

// Drain ends each stream when what it has brought so far is acknowledged. It is called once, before the server is stopped.
func (s *Service) Drain() { close(s.draining) }

// Server makes the gRPC server that has the service.
func (s *Service) Server() *grpc.Server {
	settings := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(s.options.Limits.GetMaxMessageBytes())),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: wire.PingAllowed, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(256),
	}
	if s.options.MaxConnectionAge > 0 {
		age := keepalive.ServerParameters{MaxConnectionAge: s.options.MaxConnectionAge, MaxConnectionAgeGrace: connectionGrace}
		settings = append(settings, grpc.KeepaliveParams(age))
	}
	if s.options.Credentials != nil {
		settings = append(settings, grpc.Creds(s.options.Credentials))
	}
	server := grpc.NewServer(settings...)
	forwardingv1.RegisterForwardingServiceServer(server, s)
	return server
}

// connectionGrace is what a call has to end when its connection is to be closed.
const connectionGrace = 30 * time.Second

// Negotiate tells versions and limits.
func (s *Service) Negotiate(ctx context.Context, _ *forwardingv1.NegotiateRequest) (*forwardingv1.NegotiateResponse, error) {
	if _, err := s.identify(ctx); err != nil {
		return nil, err
	}
	return &forwardingv1.NegotiateResponse{
		ApiVersions: []string{forwardingv1.Version}, ReceiverVersion: s.options.Version, Limits: s.options.Limits, Stores: s.options.Keeper.Stores(),
	}, nil
}

// GetStream tells what of a stream is stored.
func (s *Service) GetStream(ctx context.Context, request *forwardingv1.GetStreamRequest) (*forwardingv1.GetStreamResponse, error) {
	caller, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetStream() == nil {
		return nil, status.Error(codes.InvalidArgument, "stream is missing")
	}
	if caller.Complete != nil {
		caller.Complete(request.GetStream())
	}
	if refused := caller.Refuses(request.GetStream()); refused != "" {
		return nil, status.Error(codes.PermissionDenied, refused)
	}
	state, err := s.options.Keeper.Stream(caller.Authority, request.GetStream())
	if err != nil {
		s.options.Log.Error("a stream cannot be read", "error", err)
		return nil, status.Error(codes.Internal, "the store cannot be read")
	}
	return &forwardingv1.GetStreamResponse{State: state}, nil
}

// ForwardBatch takes one batch.
func (s *Service) ForwardBatch(ctx context.Context, request *forwardingv1.ForwardBatchRequest) (*forwardingv1.ForwardBatchResponse, error) {
	caller, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetHello() == nil {
		return nil, status.Error(codes.FailedPrecondition, "hello is missing: it comes with each batch")
	}
	if err := greet(request.GetHello()); err != nil {
		return nil, err
	}
	if request.GetBatch() == nil {
		return nil, status.Error(codes.InvalidArgument, "batch is missing")
	}
	taken, err := s.take(ctx, caller, request.GetBatch())
	if err != nil {
		return nil, s.refusal(err)
	}
	outcome, err := taken.pending.Wait(ctx)
	if err != nil {
		return nil, s.refusal(err)
	}
	ack := &forwardingv1.Ack{}
	taken.tell(ack, outcome)
	return &forwardingv1.ForwardBatchResponse{Ack: ack}, nil
}

// greet looks at the version that a sender speaks.
func greet(hello *forwardingv1.Hello) error {
	if hello.GetApiVersion() == "" {
		return status.Error(codes.InvalidArgument, "hello.api_version is empty: say "+forwardingv1.Version)
	}
	if hello.GetApiVersion() != forwardingv1.Version {
		return wire.VersionNotSupported(hello.GetApiVersion(), forwardingv1.Version)
	}
	return nil
}

// taken is a batch on its way to the disk.
type taken struct {
	number     uint64
	bytes      int64
	rejections []*forwardingv1.Rejection
	pending    store.Pending
}

// tell adds what became of the batch.
func (t taken) tell(ack *forwardingv1.Ack, outcome store.Outcome) {
	ack.Through = t.number
	ack.Stored += outcome.Stored
	ack.Duplicates += outcome.Duplicates
	ack.Rejections = append(append(ack.Rejections, t.rejections...), outcome.Rejections...)
	if outcome.State != nil {
		ack.Streams = append(ack.Streams, outcome.State)
	}
}

// take checks the records of a batch and hands those that are well formed to the store.
func (s *Service) take(ctx context.Context, caller Caller, batch *forwardingv1.Batch) (taken, error) {
	if most := s.options.Limits.GetMaxRecordsPerBatch(); len(batch.GetRecords()) > int(most) {
		return taken{}, status.Errorf(codes.InvalidArgument, "the batch has %d records: at most %d are taken", len(batch.GetRecords()), most)
	}
	t := taken{number: batch.GetNumber()}
	good := batch.GetRecords()[:0:0]
	if caller.Complete != nil && batch.GetStream() != nil {
		caller.Complete(batch.GetStream())
	}
	refused := wrongStream(batch, caller.Refuses)
	var before uint64
	for _, record := range batch.GetRecords() {
		rejection := refused(record)
		if rejection == nil {
			rejection = forwardingv1.Check(record, s.options.Limits, batch.GetNumber())
		}
		if rejection == nil && caller.Validate != nil {
			if err := caller.Validate(record); err != nil {
				rejection = reject(batch, record, forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, err.Error())
			}
		}
		if rejection == nil && record.GetSequence() <= before {
			rejection = reject(batch, record, forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED,
				fmt.Sprintf("sequence %d follows %d: sequences of a batch rise", record.GetSequence(), before))
		}
		if rejection != nil {
			t.rejections = append(t.rejections, rejection)
			continue
		}
		before = record.GetSequence()
		good = append(good, record)
	}
	t.bytes = int64(wire.Size(batch)) // that of each record is known from its check
	var err error
	t.pending, err = s.options.Keeper.Start(ctx, store.Batch{
		Authority: caller.Authority, Number: batch.GetNumber(), Stream: batch.GetStream(), Records: good, Refused: uint64(len(t.rejections)), Bytes: int(t.bytes),
	})
	return t, err
}

func reject(batch *forwardingv1.Batch, record *forwardingv1.Record, reason forwardingv1.RejectionReason, message string) *forwardingv1.Rejection {
	return &forwardingv1.Rejection{Batch: batch.GetNumber(), EventId: record.GetEventId(), Reason: reason, Message: message}
}

// wrongStream refuses all records of a batch whose stream is not named whole, or is not the sender's to write.
func wrongStream(batch *forwardingv1.Batch, refuses func(*forwardingv1.StreamId) string) func(*forwardingv1.Record) *forwardingv1.Rejection {
	all := func(reason forwardingv1.RejectionReason, message string) func(*forwardingv1.Record) *forwardingv1.Rejection {
		return func(record *forwardingv1.Record) *forwardingv1.Rejection {
			return reject(batch, record, reason, message)
		}
	}
	stream := batch.GetStream()
	switch {
	case stream.GetClusterId() == "":
		return all(forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, "stream.cluster_id is empty")
	case stream.GetUid() == "":
		return all(forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, "stream.uid is empty")
	case stream.GetKind() == forwardingv1.StreamKind_STREAM_KIND_UNSPECIFIED:
		return all(forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED, "stream.kind is not given")
	}
	if refused := refuses(stream); refused != "" {
		return all(forwardingv1.RejectionReason_REJECTION_REASON_POLICY, refused)
	}
	return func(*forwardingv1.Record) *forwardingv1.Rejection { return nil }
}

// refusal is the error of gRPC that tells what the store said.
func (s *Service) refusal(err error) error {
	switch {
	case errors.Is(err, store.ErrFull):
		s.options.Log.Warn("the store is full: senders wait", "error", err)
		return wire.TryLater(err.Error(), fullPause)
	case errors.Is(err, store.ErrClosed):
		return status.Error(codes.Unavailable, "the receiver is stopping")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	s.options.Log.Error("a batch cannot be stored", "error", err)
	return status.Error(codes.Internal, "the batch cannot be stored")
}
