// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"testing"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// newer adds two fields of a later version to a message and to all messages in it.
func newer(m protoreflect.Message) {
	fields := protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "of a later version")
	fields = protowire.AppendVarint(protowire.AppendTag(fields, 901, protowire.VarintType), 7)
	m.SetUnknown(append(m.GetUnknown(), fields...))
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				newer(value.List().Get(i).Message())
			}
		case field.Message().FullName().Parent() == "scanyard.forwarding.v1":
			newer(value.Message())
		}
		return true
	})
}

// older takes from a message what an earlier version would not have said.
func older(m proto.Message) {
	switch m := m.(type) {
	case *forwardingv1.ForwardResponse:
		if welcome := m.GetWelcome(); welcome != nil {
			welcome.Features, welcome.Limits = nil, nil
		}
		if ack := m.GetAck(); ack != nil {
			ack.Streams, ack.Duplicates = nil, 0
		}
	case *forwardingv1.NegotiateResponse:
		m.Limits, m.ReceiverVersion = nil, ""
	}
}

// skewed changes what a receiver answers.
type skewed struct {
	googlegrpc.ServerStream

	change func(proto.Message)
}

func (s skewed) SendMsg(m any) error {
	s.change(m.(proto.Message))
	return s.ServerStream.SendMsg(m)
}

// skewedReceiver is a receiver of another version, as far as a sender can tell.
func skewedReceiver(t *testing.T, change func(proto.Message)) string {
	t.Helper()
	right := receivertest.Start(t, receivertest.Options{})
	server := googlegrpc.NewServer(
		googlegrpc.StreamInterceptor(func(srv any, stream googlegrpc.ServerStream, _ *googlegrpc.StreamServerInfo, handle googlegrpc.StreamHandler) error {
			return handle(srv, skewed{stream, change})
		}),
		googlegrpc.UnaryInterceptor(func(ctx context.Context, request any, _ *googlegrpc.UnaryServerInfo, handle googlegrpc.UnaryHandler) (any, error) {
			answer, err := handle(ctx, request)
			if err == nil {
				change(answer.(proto.Message))
			}
			return answer, err
		}),
	)
	forwardingv1.RegisterForwardingServiceServer(server, receiver.New(receiver.Options{Keeper: right.Store, Version: "skewed"}))
	return listen(t, server)
}

// proved asks that the receiver has all of a Scan.
func proved(t *testing.T, s sink.Sink, id *forwardingv1.StreamId, all []*forwardingv1.Record) {
	t.Helper()
	verdict, err := s.(sink.Prover).Proof(t.Context(), id)
	complete := verdict.Completeness == forwardingv1.Completeness_COMPLETENESS_COMPLETE
	if err != nil || !verdict.Proved || !complete || verdict.Records != uint64(len(all)-1) {
		t.Errorf("got %+v, %v", verdict, err)
	}
}

// TestSkew crosses a sender and a receiver of which one is of a later or an earlier version: two fields more in each message, or two less.
func TestSkew(t *testing.T) {
	for name, change := range map[string]func(proto.Message){
		"NewerReceiver": func(m proto.Message) { newer(m.ProtoReflect()) },
		"OlderReceiver": older,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, plain(skewedReceiver(t, change)))
			id := receivertest.Scan("u")
			all := receivertest.Records(id, 20)
			if outcome, err := s.Deliver(t.Context(), batch(id, all)); err != nil || len(outcome.Rejected) > 0 {
				t.Fatalf("got %+v, %v", outcome, err)
			}
			proved(t, s, id, all)
		})
	}
	t.Run("NewerSender", func(t *testing.T) {
		r := receivertest.Start(t, receivertest.Options{})
		s := open(t, plain(r.Address))
		id := receivertest.Scan("u")
		all := receivertest.Records(id, 20)
		for _, record := range all {
			newer(record.ProtoReflect())
		}
		if outcome, err := s.Deliver(t.Context(), batch(id, all)); err != nil || len(outcome.Rejected) > 0 {
			t.Fatalf("got %+v, %v", outcome, err)
		}
		proved(t, s, id, all)
		// What the receiver does not know is kept.
		var kept int
		err := r.Store.Records(0, r.Store.LastNumber(), func(stored store.Arrival) error {
			if len(stored.Record.ProtoReflect().GetUnknown()) > 0 {
				kept++
			}
			return nil
		})
		if err != nil || kept != len(all) {
			t.Errorf("%d records of %d kept what a later version says, %v", kept, len(all), err)
		}
	})
	t.Run("OlderSender", func(t *testing.T) {
		r := receivertest.Start(t, receivertest.Options{})
		id := receivertest.Scan("u")
		all := receivertest.Records(id, 20)
		// No features, no names, no observed_at: what the first version has to say is enough.
		request := &forwardingv1.ForwardBatchRequest{
			Hello: &forwardingv1.Hello{ApiVersion: forwardingv1.Version}, Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: all},
		}
		answer, err := r.Client(t).ForwardBatch(t.Context(), request)
		if err != nil || answer.GetAck().GetStored() != uint64(len(all)) {
			t.Fatalf("got %v, %v", answer, err)
		}
		proved(t, open(t, plain(r.Address)), id, all)
	})
}
