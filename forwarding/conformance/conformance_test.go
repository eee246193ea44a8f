// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/conformance"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

func TestReceiverConforms(t *testing.T) {
	var out bytes.Buffer
	failed, err := conformance.Run(t.Context(), conformance.Options{Client: receivertest.Start(t, receivertest.Options{}).Client(t), Out: &out})
	if err != nil || len(failed) > 0 {
		t.Errorf("%v failed, %v:\n%s", failed, err, out.String())
	}
	const cases = 60
	if got := strings.Count(out.String(), "\nok "); got != cases || !strings.Contains(out.String(), fmt.Sprintf("1..%d\n", cases)) {
		t.Errorf("%d lines say ok:\n%s", got, out.String())
	}
}

// wrong passes calls on to a receiver that is right, and makes a mistake.
type wrong struct {
	forwardingv1.UnimplementedForwardingServiceServer

	right forwardingv1.ForwardingServiceClient
	// request and response change what passes; nil: nothing.
	request  func(*forwardingv1.ForwardRequest)
	response func(*forwardingv1.ForwardResponse)
	state    func(*forwardingv1.StreamState)
	// greets says hello where a sender does not.
	greets bool
}

// Negotiate passes on.
func (w *wrong) Negotiate(ctx context.Context, request *forwardingv1.NegotiateRequest) (*forwardingv1.NegotiateResponse, error) {
	return w.right.Negotiate(ctx, request)
}

// ForwardBatch passes on.
func (w *wrong) ForwardBatch(ctx context.Context, request *forwardingv1.ForwardBatchRequest) (*forwardingv1.ForwardBatchResponse, error) {
	if w.request != nil {
		w.request(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: request.GetHello()}})
		w.request(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: request.GetBatch()}})
	}
	answer, err := w.right.ForwardBatch(ctx, request)
	if err == nil && w.response != nil {
		w.response(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Ack{Ack: answer.GetAck()}})
	}
	return answer, err
}

// GetStream passes on.
func (w *wrong) GetStream(ctx context.Context, request *forwardingv1.GetStreamRequest) (*forwardingv1.GetStreamResponse, error) {
	answer, err := w.right.GetStream(ctx, request)
	if err == nil && w.state != nil {
		w.state(answer.GetState())
	}
	return answer, err
}

// Forward passes on, in both directions.
func (w *wrong) Forward(near forwardingv1.ForwardingService_ForwardServer) error {
	far, err := w.right.Forward(near.Context())
	if err != nil {
		return err
	}
	go func() {
		for first := true; ; first = false {
			request, err := near.Recv()
			if err != nil {
				_ = far.CloseSend() // the sender has ended its half, or is gone
				return
			}
			if first && w.greets && request.GetHello() == nil {
				hello := &forwardingv1.Hello{ApiVersion: forwardingv1.Version}
				_ = far.Send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: hello}}) // Recv below has the reason
			}
			if w.request != nil {
				w.request(request)
			}
			_ = far.Send(request) // Recv below has the reason
		}
	}()
	for {
		response, err := far.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if w.response != nil {
			w.response(response)
		}
		if err := near.Send(response); err != nil {
			return err
		}
	}
}

// start gives a client of the receiver.
func (w *wrong) start(t *testing.T) forwardingv1.ForwardingServiceClient {
	t.Helper()
	w.right = receivertest.Start(t, receivertest.Options{}).Client(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	forwardingv1.RegisterForwardingServiceServer(server, w)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return forwardingv1.NewForwardingServiceClient(conn)
}

// silently drops rejections with a reason.
func silently(reason forwardingv1.RejectionReason) *wrong {
	return &wrong{response: func(r *forwardingv1.ForwardResponse) {
		if ack := r.GetAck(); ack != nil {
			ack.Rejections = slices.DeleteFunc(ack.GetRejections(), func(r *forwardingv1.Rejection) bool { return r.GetReason() == reason })
		}
	}}
}

// countsClosing counts the closing record, too.
func countsClosing(state *forwardingv1.StreamState) {
	if state.GetCompleteness() == forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		state.Records++
	}
}

// TestNonconformingReceivers has receivers that are each wrong in one point: the suite finds that point, and nothing else.
func TestNonconformingReceivers(t *testing.T) {
	for name, tt := range map[string]struct {
		wrong *wrong
		want  []string
	}{
		"AcksBeforeSync": {ahead(), []string{
			"order/later", "acks/stored", "acks/broken", "acks/single", "duplicates/stream", "duplicates/single", "duplicates/same-stream", "duplicates/whole",
			"duplicates/tenant", "duplicates/cluster", "conflict/first", "closing/complete", "closing/chain", "closing/empty", "closing/early",
			"closing/other-chain", "closing/too-many", "closing/filter", "closing/revision", "gaps/one", "gaps/several", "gaps/filled", "gaps/open", "unknown/schema",
		}},
		"ForgetsDuplicates": {&wrong{response: func(r *forwardingv1.ForwardResponse) {
			if ack := r.GetAck(); ack != nil {
				ack.Stored, ack.Duplicates = ack.GetStored()+ack.GetDuplicates(), 0
			}
		}}, []string{"duplicates/stream", "duplicates/single", "duplicates/same-stream", "duplicates/whole"}},
		"CountsClosing": {&wrong{state: countsClosing, response: func(r *forwardingv1.ForwardResponse) {
			for _, state := range r.GetAck().GetStreams() {
				countsClosing(state)
			}
		}}, []string{
			"acks/broken", "duplicates/whole", "conflict/first", "closing/complete", "closing/told", "closing/empty", "closing/early", "closing/filter",
			"closing/revision", "gaps/filled",
		}},
		"AnyVersion": {&wrong{request: func(r *forwardingv1.ForwardRequest) {
			if hello := r.GetHello(); hello != nil {
				hello.ApiVersion = forwardingv1.Version
			}
		}}, []string{"hello/version", "hello/version-batch"}},
		"NoHello": {&wrong{greets: true}, []string{"hello/missing"}},
		"NoDigests": {&wrong{request: func(r *forwardingv1.ForwardRequest) {
			for _, record := range r.GetBatch().GetRecords() {
				if record.GetSchema() == forwardingv1.Schema {
					record.Digest = forwardingv1.Digest(record)
				}
			}
		}}, []string{"limits/digest", "limits/no-digest"}},
		"HidesConflicts": {silently(forwardingv1.RejectionReason_REJECTION_REASON_CONFLICT), []string{"conflict/stream", "conflict/single"}},
		"HidesTooLarge":  {silently(forwardingv1.RejectionReason_REJECTION_REASON_TOO_LARGE), []string{"limits/record"}},
		"HidesUnknown":   {silently(forwardingv1.RejectionReason_REJECTION_REASON_UNSUPPORTED), []string{"unknown/body"}},
		"NamesNoGaps":    {&wrong{state: func(s *forwardingv1.StreamState) { s.Gaps = nil }}, []string{"gaps/one", "gaps/several"}},
		"AllComplete": {&wrong{state: func(s *forwardingv1.StreamState) {
			if s.GetCompleteness() == forwardingv1.Completeness_COMPLETENESS_INCOMPLETE {
				s.Completeness = forwardingv1.Completeness_COMPLETENESS_COMPLETE
			}
		}}, []string{"closing/early", "gaps/one", "gaps/several", "gaps/filled"}},
		"AcksTooMuch": {&wrong{response: func(r *forwardingv1.ForwardResponse) {
			if ack := r.GetAck(); ack != nil {
				ack.Through += 1000
			}
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			failed, err := conformance.Run(t.Context(), conformance.Options{Client: tt.wrong.start(t), Out: &out})
			if err != nil {
				t.Fatal(err)
			}
			if name == "AcksTooMuch" { // nearly everything goes by acks
				if !slices.Contains(failed, "acks/cumulative") || !slices.Contains(failed, "acks/each") {
					t.Errorf("got %v", failed)
				}
				return
			}
			if !slices.Equal(failed, tt.want) {
				t.Errorf("failed:\n%v\nwant:\n%v\n%s", failed, tt.want, out.String())
			}
		})
	}
}

// ahead says of each stream that nothing is stored, the first time that somebody asks after something new has come.
func ahead() *wrong {
	var mu sync.Mutex
	told := map[string]uint64{}
	return &wrong{state: func(s *forwardingv1.StreamState) {
		mu.Lock()
		defer mu.Unlock()
		id := s.GetStream()
		key := fmt.Sprint(id.GetClusterId(), id.GetTenant(), id.GetRevision())
		now := s.GetRecords()<<3 | uint64(s.GetCompleteness())
		if before, known := told[key]; now == uint64(forwardingv1.Completeness_COMPLETENESS_OPEN) || known && before == now {
			return
		}
		told[key] = now
		s.Completeness, s.Records, s.Chain, s.HighestSequence = forwardingv1.Completeness_COMPLETENESS_OPEN, 0, nil, 0
	}}
}
