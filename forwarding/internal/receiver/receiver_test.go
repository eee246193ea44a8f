// SPDX-License-Identifier: Apache-2.0

package receiver_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

var hello = &forwardingv1.Hello{ApiVersion: "v1", Sender: "test"}

// session is one stream to a receiver, past its welcome.
type session struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[forwardingv1.ForwardRequest, forwardingv1.ForwardResponse]
	sent   uint64
}

func begin(t *testing.T, client forwardingv1.ForwardingServiceClient, options ...grpc.CallOption) *session {
	t.Helper()
	stream, err := client.Forward(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, stream: stream}
	s.send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: hello}})
	if welcome := s.receive().GetWelcome(); welcome.GetApiVersion() != "v1" || !welcome.GetStores() || welcome.GetLimits().GetMaxRecordBytes() == 0 {
		t.Fatalf("got %v", welcome)
	}
	return s
}

func (s *session) send(request *forwardingv1.ForwardRequest) {
	s.t.Helper()
	if err := s.stream.Send(request); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) batch(id *forwardingv1.StreamId, records ...*forwardingv1.Record) {
	s.t.Helper()
	s.sent++
	s.send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: &forwardingv1.Batch{Number: s.sent, Stream: id, Records: records}}})
}

func (s *session) receive() *forwardingv1.ForwardResponse {
	s.t.Helper()
	response, err := s.stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// acked gathers acks until all that was sent is acknowledged.
func (s *session) acked() *forwardingv1.Ack {
	s.t.Helper()
	all := &forwardingv1.Ack{}
	for all.GetThrough() < s.sent {
		ack := s.receive().GetAck()
		if ack.GetThrough() <= all.GetThrough() {
			s.t.Fatalf("an ack through %d follows one through %d", ack.GetThrough(), all.GetThrough())
		}
		proto.Merge(all, &forwardingv1.Ack{Rejections: ack.GetRejections(), Streams: ack.GetStreams()})
		all.Through, all.Stored, all.Duplicates = ack.GetThrough(), all.GetStored()+ack.GetStored(), all.GetDuplicates()+ack.GetDuplicates()
	}
	return all
}

func TestForward(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 300)
	for _, compression := range []string{"zstd", "gzip", "identity"} {
		s := begin(t, r.Client(t), grpc.UseCompressor(compression))
		for records := range slices.Chunk(all, 2) {
			s.batch(id, records...)
		}
		ack := s.acked()
		if ack.GetStored()+ack.GetDuplicates() != 302 || len(ack.GetRejections()) > 0 || len(ack.GetStreams()) == 0 {
			t.Errorf("%s: got %d stored, %d duplicates, %v, %v", compression, ack.GetStored(), ack.GetDuplicates(), ack.GetRejections(), ack.GetStreams())
		}
		if err := s.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the stream ends with %v", compression, err)
		}
	}
	if got := r.Store.Counters(); got != (store.Counters{Received: 3 * 302, Stored: 302, Duplicates: 2 * 302}) {
		t.Errorf("got %+v", got)
	}
	answer, err := r.Client(t).GetStream(t.Context(), &forwardingv1.GetStreamRequest{Stream: id})
	if err != nil || answer.GetState().GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_COMPLETE || answer.GetState().GetRecords() != 301 {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestStreamRefuses(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	batch := func(number uint64) *forwardingv1.ForwardRequest {
		return &forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: &forwardingv1.Batch{Number: number, Stream: receivertest.Scan("u")}}}
	}
	greeting := &forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: hello}}
	for name, test := range map[string]struct {
		requests []*forwardingv1.ForwardRequest
		want     codes.Code
	}{
		"BatchBeforeHello": {[]*forwardingv1.ForwardRequest{batch(1)}, codes.FailedPrecondition},
		"OtherVersion":     {[]*forwardingv1.ForwardRequest{{Message: &forwardingv1.ForwardRequest_Hello{Hello: &forwardingv1.Hello{ApiVersion: "v9"}}}}, codes.Unimplemented},
		"NoVersion":        {[]*forwardingv1.ForwardRequest{{Message: &forwardingv1.ForwardRequest_Hello{Hello: &forwardingv1.Hello{}}}}, codes.InvalidArgument},
		"HelloTwice":       {[]*forwardingv1.ForwardRequest{greeting, greeting}, codes.InvalidArgument},
		"NumberZero":       {[]*forwardingv1.ForwardRequest{greeting, batch(0)}, codes.InvalidArgument},
		"NumberTwice":      {[]*forwardingv1.ForwardRequest{greeting, batch(1), batch(1)}, codes.InvalidArgument},
		"NumberLeftOut":    {[]*forwardingv1.ForwardRequest{greeting, batch(1), batch(3)}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := r.Client(t).Forward(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, request := range test.requests {
				if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			for err == nil {
				_, err = stream.Recv()
			}
			if status.Code(err) != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if name != "OtherVersion" {
				return
			}
			info, ok := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
			if !ok || info.GetReason() != "VERSION_NOT_SUPPORTED" || info.GetMetadata()["supported"] != "v1" {
				t.Errorf("got %v", status.Convert(err).Details())
			}
		})
	}
}

func TestRejectionsNameTheRecords(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Limits: &forwardingv1.Limits{MaxRecordBytes: 2000}}})
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 5)
	all[1].Digest[0]++
	all[2].GetResult().Description = strings.Repeat("x", 3000)
	receivertest.Seal(id, all[2], 3)
	all[3].Body = nil
	all[4].Sequence = 1
	s := begin(t, r.Client(t))
	s.batch(id, all[0])
	s.batch(id, all...)
	ack := s.acked()
	var got []string
	for _, rejection := range ack.GetRejections() {
		got = append(got, rejection.GetReason().String())
		if rejection.GetBatch() != 2 || rejection.GetEventId() == "" {
			t.Errorf("got %v", rejection)
		}
	}
	want := []string{"REJECTION_REASON_DIGEST_MISMATCH", "REJECTION_REASON_TOO_LARGE", "REJECTION_REASON_UNSUPPORTED", "REJECTION_REASON_MALFORMED"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.Store.Counters(); got != (store.Counters{Received: 8, Stored: 3, Duplicates: 1, Rejected: 4}) {
		t.Errorf("got %+v", got)
	}
	other := proto.CloneOf(id)
	other.Uid = ""
	s.batch(other, receivertest.Records(other, 0)...)
	if ack := s.acked(); len(ack.GetRejections()) != 2 || !strings.Contains(ack.GetRejections()[0].GetMessage(), "stream.uid") {
		t.Errorf("got %v", ack)
	}
}

func TestForwardBatch(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	id := receivertest.Scan("u")
	client := r.Client(t)
	batch := &forwardingv1.Batch{Number: 7, Stream: id, Records: receivertest.Records(id, 3)}
	answer, err := client.ForwardBatch(t.Context(), &forwardingv1.ForwardBatchRequest{Hello: hello, Batch: batch})
	if err != nil || answer.GetAck().GetThrough() != 7 || answer.GetAck().GetStored() != 5 || len(answer.GetAck().GetStreams()) != 1 {
		t.Errorf("got %v, %v", answer, err)
	}
	if _, err := client.ForwardBatch(t.Context(), &forwardingv1.ForwardBatchRequest{Batch: batch}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
	if _, err := client.ForwardBatch(t.Context(), &forwardingv1.ForwardBatchRequest{Hello: hello}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
	negotiated, err := client.Negotiate(t.Context(), &forwardingv1.NegotiateRequest{})
	if err != nil || !slices.Equal(negotiated.GetApiVersions(), []string{"v1"}) || !negotiated.GetStores() {
		t.Errorf("got %v, %v", negotiated, err)
	}
}

func TestFaultReceiverFull(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{Store: store.Options{MaxBytes: 1}})
	id := receivertest.Scan("u")
	s := begin(t, r.Client(t))
	s.batch(id, receivertest.Records(id, 3)...)
	if pause := s.receive().GetPause(); pause.GetDuration().AsDuration() != 5*time.Second || pause.GetReason() == "" {
		t.Errorf("a full receiver asks for silence, got %v", pause)
	}
	_, err := s.stream.Recv()
	if status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 1 {
		t.Errorf("got %v", err)
	}
	if got := r.Store.Counters(); got != (store.Counters{}) {
		t.Errorf("got %+v", got)
	}
}

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# senders\nany\n bound,cluster=cluster-1,tenant=team-b \n")
	log := slog.New(slog.DiscardHandler)
	tokens, err := receiver.NewTokens(path, log)
	if err != nil {
		t.Fatal(err)
	}
	go tokens.Watch(t.Context())
	r := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Tokens: tokens}})
	client := r.Client(t)
	id := receivertest.Scan("u")
	send := func(token string) (*forwardingv1.ForwardBatchResponse, error) {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		return client.ForwardBatch(ctx, &forwardingv1.ForwardBatchRequest{Hello: hello, Batch: &forwardingv1.Batch{Number: 1, Stream: id, Records: receivertest.Records(id, 1)}})
	}
	for _, token := range []string{"", "other", "any,"} {
		if _, err := send(token); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q: got %v", token, err)
		}
	}
	if answer, err := send("any"); err != nil || answer.GetAck().GetStored() != 3 {
		t.Errorf("got %v, %v", answer, err)
	}
	answer, err := send("bound")
	if err != nil || len(answer.GetAck().GetRejections()) != 3 || answer.GetAck().GetRejections()[0].GetReason() != forwardingv1.RejectionReason_REJECTION_REASON_POLICY {
		t.Errorf("got %v, %v", answer, err)
	}
	write("")
	for err == nil {
		_, err = send("any")
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("an empty file refuses all: %v", err)
	}
	write("next")
	for err != nil {
		_, err = send("next")
	}
	write("next,clutser=x")
	if _, err := receiver.NewTokens(path, log); err == nil || !strings.Contains(err.Error(), "line 1: what follows comma 1 is not known") {
		t.Errorf("got %v", err)
	}
}

func TestDoor(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	id := receivertest.Scan("u")
	s := begin(t, r.Client(t))
	s.batch(id, receivertest.Records(id, 3)...)
	s.acked()
	door := httptest.NewServer((&receiver.Door{Store: r.Store, Counters: r.Store.Counters, Log: slog.New(slog.DiscardHandler)}).Handler())
	t.Cleanup(door.Close)
	get := func(path string) (string, http.Header) {
		answer, err := http.Get(door.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s %v", path, answer.Status, body, err)
		}
		return string(body), answer.Header
	}
	body, header := get("/v1/records?after=1&limit=3")
	if header.Get("X-Last-N") != "4" {
		t.Errorf("got %v", header)
	}
	lines := bufio.NewScanner(strings.NewReader(body))
	for n := 2; lines.Scan(); n++ {
		var event struct {
			N        int    `json:"n"`
			ID       string `json:"id"`
			Source   string `json:"source"`
			Sequence string `json:"scanyardsequence"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.N != n || event.ID != forwardingv1.EventID(id, uint64(n)) || event.Source != "/scanyard/cluster-1/team-a/nightly" {
			t.Errorf("got %s", lines.Text())
		}
	}
	if n := strings.Count(body, "\n"); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
	if body, header := get("/v1/records?after=99"); body != "" || header.Get("X-Last-N") != "99" {
		t.Errorf("got %q %v", body, header)
	}
	body, _ = get("/v1/streams")
	for _, part := range []string{`"clusterId":"cluster-1"`, `"kind":"scan"`, `"uid":"u"`, `"completeness":"COMPLETE"`, `"records":4`, `"missing":0`, `"chain":"`} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	if body, _ := get("/v1/counters"); strings.TrimSpace(body) != `{"received":5,"stored":5,"duplicates":0,"conflicts":0,"rejected":0}` {
		t.Errorf("got %s", body)
	}
	body, _ = get("/metrics")
	for _, line := range []string{`scanyard_receiver_records_total{outcome="stored"} 5`, `scanyard_receiver_streams{completeness="COMPLETE"} 1`, "scanyard_receiver_store_bytes"} {
		if !strings.Contains(body, line) {
			t.Errorf("%s is not in the metrics", line)
		}
	}
}
