// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	sinkgrpc "github.com/scanyard/scanyard/forwarding/internal/sinks/grpc"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// secrets are the secrets of a test, which it may change at any time.
type secrets struct {
	mutex    sync.Mutex
	material sink.Material
}

// Read gives the secrets as they are now.
func (s *secrets) Read(context.Context) (sink.Material, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.material, nil
}

func (s *secrets) set(change func(*sink.Material)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change(&s.material)
}

func open(t *testing.T, config sink.Config) sink.Sink {
	t.Helper()
	config.Name, config.ClusterID = "hub", "cluster-1"
	opened, err := sinkgrpc.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened
}

func plain(address string) sink.Config {
	return sink.Config{URL: &url.URL{Scheme: "grpc", Host: address}, Insecure: true, Secrets: &secrets{}}
}

func batch(id *forwardingv1.StreamId, records []*forwardingv1.Record) sink.Batch {
	b := sink.Batch{Stream: id}
	for _, record := range records {
		b.Records = append(b.Records, sink.Record{EventID: record.GetEventId(), Sequence: record.GetSequence(), Message: record})
	}
	return b
}

func TestDeliverAndProve(t *testing.T) {
	for _, compression := range []string{"", "None", "Gzip", "Zstd"} {
		t.Run("Compression"+compression, func(t *testing.T) {
			r := receivertest.Start(t, receivertest.Options{})
			config := plain(r.Address)
			config.Options = map[string]string{"compression": compression}
			s := open(t, config)
			id := receivertest.Scan("u")
			all := receivertest.Records(id, 500)
			var senders sync.WaitGroup
			for i := range 4 {
				senders.Go(func() {
					if _, err := s.Deliver(t.Context(), batch(id, all[i*100:i*100+100])); err != nil {
						t.Error(err)
					}
				})
			}
			senders.Wait()
			outcome, err := s.Deliver(t.Context(), batch(id, all[400:]))
			if err != nil || len(outcome.Streams) != 1 || outcome.Streams[0].GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
				t.Errorf("got %+v, %v", outcome, err)
			}
			if outcome, err = s.Deliver(t.Context(), batch(id, all[:10])); err != nil || outcome.Duplicates != 10 {
				t.Errorf("got %+v, %v", outcome, err)
			}
			verdict, err := s.(sink.Prover).Proof(t.Context(), id)
			if err != nil || !verdict.Proved || verdict.Records != 501 || string(verdict.Chain) != string(all[501].GetClosing().GetChain()) {
				t.Errorf("got %+v, %v", verdict, err)
			}
			if err := s.Probe(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFaultTooLarge(t *testing.T) {
	limits := &forwardingv1.Limits{MaxRecordBytes: 100_000, MaxMessageBytes: 250_000, MaxRecordsPerBatch: 4, WindowBytes: 300_000}
	r := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Limits: limits}})
	s := open(t, plain(r.Address))
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 20)
	for i, record := range all[1:21] {
		record.GetResult().Description = strings.Repeat("x", 90_000)
		if i == 7 {
			record.GetResult().Description = strings.Repeat("x", 120_000)
		}
		receivertest.Seal(id, record, record.GetSequence())
	}
	outcome, err := s.Deliver(t.Context(), batch(id, all[:21]))
	if err != nil {
		t.Fatal(err)
	}
	if len(outcome.Rejected) != 1 || outcome.Rejected[0].EventID != all[8].GetEventId() || outcome.Rejected[0].Reason != "TooLarge" {
		t.Fatalf("got %+v", outcome.Rejected)
	}
	if message := outcome.Rejected[0].Message; !strings.Contains(message, "120") || !strings.Contains(message, "at most 100000") {
		t.Errorf("both numbers have to be named: %s", message)
	}
	if got := r.Store.Counters(); got != (store.Counters{Received: 20, Stored: 20}) {
		t.Errorf("got %+v", got)
	}
}

func TestFaultConflict(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	s := open(t, plain(r.Address))
	id := receivertest.Scan("u")
	first, second := receivertest.Records(id, 3), receivertest.Records(id, 3)
	second[2].GetResult().Title = "other"
	receivertest.Seal(id, second[2], 3)
	if _, err := s.Deliver(t.Context(), batch(id, first[:4])); err != nil {
		t.Fatal(err)
	}
	outcome, err := s.Deliver(t.Context(), batch(id, second[:4]))
	if err != nil || len(outcome.Rejected) != 1 || outcome.Rejected[0].Reason != "Conflict" || outcome.Rejected[0].EventID != first[2].GetEventId() {
		t.Errorf("got %+v, %v", outcome, err)
	}
	if got := r.Store.Counters(); got != (store.Counters{Received: 8, Stored: 4, Duplicates: 3, Conflicts: 1}) {
		t.Errorf("got %+v", got)
	}
}

func TestFaultIncomplete(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	s := open(t, plain(r.Address))
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 50)
	missing := append(append([]*forwardingv1.Record{}, all[:20]...), all[21:]...)
	outcome, err := s.Deliver(t.Context(), batch(id, missing))
	if err != nil || len(outcome.Streams) != 1 || outcome.Streams[0].GetMissing() != 1 {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	gap := outcome.Streams[0].GetGaps()[0]
	if gap.GetFirst() != 21 || gap.GetLast() != 21 {
		t.Errorf("got %v", gap)
	}
	outcome, err = s.Deliver(t.Context(), batch(id, all[gap.GetFirst()-1:gap.GetLast()]))
	if err != nil || len(outcome.Streams) != 1 || outcome.Streams[0].GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

func TestFaultDuplicates(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	r := receivertest.Start(t, receivertest.Options{Store: store.Options{Now: func() time.Time { return now }}})
	s := open(t, plain(r.Address))
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 98)
	for range 2 {
		for at := 0; at < 100; at += 10 {
			for range 2 {
				if _, err := s.Deliver(t.Context(), batch(id, all[at:at+10])); err != nil {
					t.Fatal(err)
				}
			}
		}
		now = now.Add(72 * time.Hour) // no batch is on its way
	}
	if got := r.Store.Counters(); got != (store.Counters{Received: 400, Stored: 100, Duplicates: 300}) {
		t.Errorf("got %+v", got)
	}
}

// TestRestart stops a receiver in the middle, and starts another one on its store at the same address.
func TestRestart(t *testing.T) {
	directory := t.TempDir()
	first := receivertest.Start(t, receivertest.Options{Store: store.Options{Directory: directory}})
	s := open(t, plain(first.Address))
	id := receivertest.Scan("u")
	all := receivertest.Records(id, 98)
	if _, err := s.Deliver(t.Context(), batch(id, all[:50])); err != nil {
		t.Fatal(err)
	}
	first.Server.Stop()
	if err := first.Store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Deliver(t.Context(), batch(id, all[50:]))
	if e := sink.AsError(err); e.Class != sink.Transport || e.Reason != sink.ConnectionRefused {
		t.Errorf("got %v", err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", first.Address)
	if err != nil {
		t.Fatal(err)
	}
	second := receivertest.Start(t, receivertest.Options{Listener: listener, Store: store.Options{Directory: directory}})
	for err = fmt.Errorf("not tried"); err != nil; {
		_, err = s.Deliver(t.Context(), batch(id, all[50:]))
		if err != nil && sink.AsError(err).Class != sink.Transport {
			t.Fatal(err)
		}
	}
	if state, err := second.Store.Stream("", id); err != nil || state.GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		t.Errorf("got %v, %v", state, err)
	}
}

// scripted answers each stream with one error after its hello, or in place of it.
type scripted struct {
	forwardingv1.UnimplementedForwardingServiceServer

	atHello, atBatch error
	pause            time.Duration
}

// Negotiate answers like hello.
func (s *scripted) Negotiate(context.Context, *forwardingv1.NegotiateRequest) (*forwardingv1.NegotiateResponse, error) {
	return &forwardingv1.NegotiateResponse{ApiVersions: []string{"v1"}}, s.atHello
}

// Forward answers as it was told to.
func (s *scripted) Forward(stream forwardingv1.ForwardingService_ForwardServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if s.atHello != nil {
		return s.atHello
	}
	if err := stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Welcome{Welcome: &forwardingv1.Welcome{ApiVersion: "v1"}}}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if s.pause > 0 {
		if err := stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Pause{Pause: &forwardingv1.Pause{Duration: durationpb.New(s.pause)}}}); err != nil {
			return err
		}
	}
	if s.atBatch != nil {
		return s.atBatch
	}
	<-stream.Context().Done()
	return nil
}

func TestClasses(t *testing.T) {
	conflict := wire.Status(codes.AlreadyExists, "other", &errdetails.ErrorInfo{Reason: forwardingv1.ErrorConflict, Domain: forwardingv1.ErrorDomain})
	code := func(c codes.Code) error { return status.Error(c, "no") }
	for name, test := range map[string]struct {
		atHello, atBatch error
		class            sink.Class
		reason           sink.Reason
		after            time.Duration
	}{
		"Unauthenticated":   {atHello: code(codes.Unauthenticated), class: sink.Auth, reason: sink.TokenRejected},
		"PermissionDenied":  {atHello: code(codes.PermissionDenied), class: sink.Auth, reason: sink.PermissionDenied},
		"Unimplemented":     {atHello: code(codes.Unimplemented), class: sink.Incompatible, reason: sink.NotCompatible},
		"NotFound":          {atHello: code(codes.NotFound), class: sink.Incompatible, reason: sink.NotCompatible},
		"Precondition":      {atBatch: code(codes.FailedPrecondition), class: sink.Incompatible, reason: sink.NotCompatible},
		"InvalidHello":      {atHello: code(codes.InvalidArgument), class: sink.Incompatible, reason: sink.NotCompatible},
		"InvalidBatch":      {atBatch: code(codes.InvalidArgument), class: sink.Refused, reason: sink.RecordsRejected},
		"OutOfRange":        {atBatch: code(codes.OutOfRange), class: sink.Refused, reason: sink.RecordsRejected},
		"Conflict":          {atBatch: conflict, class: sink.Refused, reason: sink.ResultsChanged},
		"ResourceExhausted": {atBatch: wire.TryLater("full", 7*time.Second), class: sink.Overload, reason: sink.Overloaded, after: 7 * time.Second},
		"FarTooLong":        {atBatch: wire.TryLater("full", time.Hour), class: sink.Overload, reason: sink.Overloaded, after: 10 * time.Minute},
		"UnavailableRetry":  {atBatch: wire.Status(codes.Unavailable, "x", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}), class: sink.Overload, reason: sink.Overloaded, after: time.Second},
		"Unavailable":       {atBatch: code(codes.Unavailable), class: sink.Transport, reason: sink.Disconnected},
		"Internal":          {atBatch: code(codes.Internal), class: sink.Transport, reason: sink.Disconnected},
		"Deadline":          {atBatch: code(codes.DeadlineExceeded), class: sink.Transport, reason: sink.Timeout},
		"Version":           {atHello: wire.VersionNotSupported("v1", "v2,v3"), class: sink.Incompatible, reason: sink.NotCompatible},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, plain(serve(t, &scripted{atHello: test.atHello, atBatch: test.atBatch})))
			id := receivertest.Scan("u")
			_, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 0)))
			if e := sink.AsError(err); e.Class != test.class || e.Reason != test.reason || e.RetryAfter != test.after {
				t.Errorf("got %s %+v", e.Class, e)
			}
			if name == "Version" && !strings.Contains(err.Error(), "it has v2,v3") {
				t.Errorf("got %v", err)
			}
			if test.atHello == nil {
				return
			}
			if e := sink.AsError(s.Probe(t.Context())); e.Class != test.class {
				t.Errorf("the probe says %v", e)
			}
		})
	}
}

func TestAlreadyThereIsDelivered(t *testing.T) {
	s := open(t, plain(serve(t, &scripted{atBatch: status.Error(codes.AlreadyExists, "known")})))
	id := receivertest.Scan("u")
	if outcome, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 0))); err != nil || outcome.Duplicates != 2 {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

// judging takes batches, and ends a stream with an error that names no batch where one holds a bad record.
type judging struct {
	forwardingv1.UnimplementedForwardingServiceServer

	mutex sync.Mutex
	code  codes.Code
	got   map[string]int
}

// Forward acknowledges each batch by itself.
func (j *judging) Forward(stream forwardingv1.ForwardingService_ForwardServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Welcome{Welcome: &forwardingv1.Welcome{ApiVersion: "v1"}}}); err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.GetBatch().GetStream().GetUid() == "bad" {
			return status.Error(j.code, "bad")
		}
		j.mutex.Lock()
		for _, record := range request.GetBatch().GetRecords() {
			j.got[request.GetBatch().GetStream().GetUid()+record.GetEventId()]++
		}
		j.mutex.Unlock()
		ack := &forwardingv1.Ack{Through: request.GetBatch().GetNumber()}
		if err := stream.Send(&forwardingv1.ForwardResponse{Message: &forwardingv1.ForwardResponse_Ack{Ack: ack}}); err != nil {
			return err
		}
	}
}

// TestVerdictIsPerBatch: what is said about one batch is not a word about those that went with it.
func TestVerdictIsPerBatch(t *testing.T) {
	for code, want := range map[codes.Code]sink.Class{codes.InvalidArgument: sink.Refused, codes.AlreadyExists: ""} {
		t.Run(code.String(), func(t *testing.T) {
			j := &judging{code: code, got: map[string]int{}}
			s := open(t, plain(serve(t, j)))
			var batches []sink.Batch
			const each = 10
			for _, uid := range []string{"first", "bad", "last"} {
				id := receivertest.Scan(uid)
				batches = append(batches, batch(id, receivertest.Records(id, each-2)))
			}
			gather := func() error {
				_, err := s.(sink.Gatherer).Gather(t.Context(), batches)
				return err
			}
			err := gather()
			for tries := 0; err != nil && sink.AsError(err).Class == sink.Transport && tries < 5; tries++ {
				err = gather() // then each goes alone
			}
			if want == "" && err != nil || want != "" && (err == nil || sink.AsError(err).Class != want) {
				t.Fatalf("got %v, want class %q", err, want)
			}
			if want != "" { // so that the core sends each half by itself
				batches = batches[2:]
				if err := gather(); err != nil {
					t.Error(err)
				}
			}
			j.mutex.Lock()
			defer j.mutex.Unlock()
			if len(j.got) != 2*each {
				t.Errorf("%d records of %d came", len(j.got), 2*each)
			}
		})
	}
}

func TestSilenceAndPause(t *testing.T) {
	id := receivertest.Scan("u")
	silent := plain(serve(t, &scripted{}))
	silent.Timeout = 300 * time.Millisecond
	if _, err := open(t, silent).Deliver(t.Context(), batch(id, receivertest.Records(id, 0))); sink.AsError(err).Reason != sink.Timeout {
		t.Errorf("got %v", err)
	}
	s := open(t, plain(serve(t, &scripted{pause: time.Hour, atBatch: status.Error(codes.Unavailable, "later")})))
	if _, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 0))); err == nil {
		t.Error("the batch was not delivered")
	}
	_, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 0)))
	if e := sink.AsError(err); e.Class != sink.Overload || e.RetryAfter <= 9*time.Minute || e.RetryAfter > 10*time.Minute {
		t.Errorf("a pause is honoured up to 10 minutes, got %+v", e)
	}
}

func serve(t *testing.T, service forwardingv1.ForwardingServiceServer) string {
	t.Helper()
	server := googlegrpc.NewServer()
	forwardingv1.RegisterForwardingServiceServer(server, service)
	return listen(t, server)
}

// listen has a server answer until the test ends, and gives its address.
func listen(t *testing.T, server *googlegrpc.Server) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// unreadable are secrets whose file is gone.
type unreadable struct{}

// Read fails.
func (unreadable) Read(context.Context) (sink.Material, error) {
	return sink.Material{}, &sink.Error{Class: sink.Auth, Reason: sink.SecretMissing, Message: "tokenFile: no such file"}
}

func TestSecretMissing(t *testing.T) {
	r := receivertest.Start(t, receivertest.Options{})
	config := plain(r.Address)
	config.Secrets = unreadable{}
	_, err := open(t, config).Deliver(t.Context(), sink.Batch{Stream: receivertest.Scan("u")})
	if e := sink.AsError(err); e.Class != sink.Auth || e.Reason != sink.SecretMissing || e.Message != "tokenFile: no such file" {
		t.Errorf("got %v", err)
	}
}
