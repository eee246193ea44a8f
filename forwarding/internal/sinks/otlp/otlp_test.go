// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// farEnd takes logs, by gRPC and by HTTP.
type farEnd struct {
	collectorv1.UnimplementedLogsServiceServer

	mutex sync.Mutex
	logs  []*logsv1.LogRecord
	// token is what calls have to bring, "" for none.
	token string
	// refuses tells which records are refused.
	refuses func(*logsv1.LogRecord) bool
	// fails is the answer to every call.
	fails error
	// status is the answer to every request of HTTP; 0: none of its own.
	status int
	calls  int
}

func (f *farEnd) take(request *collectorv1.ExportLogsServiceRequest, token string) (*collectorv1.ExportLogsServiceResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.calls++
	if f.fails != nil {
		return nil, f.fails
	}
	if f.token != "" && token != "Bearer "+f.token {
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	}
	response := &collectorv1.ExportLogsServiceResponse{}
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				if f.refuses != nil && f.refuses(record) {
					if response.PartialSuccess == nil {
						response.PartialSuccess = &collectorv1.ExportLogsPartialSuccess{ErrorMessage: "not this one"}
					}
					response.PartialSuccess.RejectedLogRecords++
					continue
				}
				f.logs = append(f.logs, record)
			}
		}
	}
	return response, nil
}

func (f *farEnd) taken() []*logsv1.LogRecord {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.logs
}

// Export is the call of gRPC.
func (f *farEnd) Export(ctx context.Context, request *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	token := ""
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		token = values[0]
	}
	return f.take(request, token)
}

// ServeHTTP is the request of HTTP.
func (f *farEnd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.status != 0 {
		w.WriteHeader(f.status)
		return
	}
	body, request := io.Reader(r.Body), &collectorv1.ExportLogsServiceRequest{}
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	if err != nil || r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(data, request) != nil {
		http.Error(w, fmt.Sprint("no logs: ", err), http.StatusBadRequest)
		return
	}
	response, err := f.take(request, r.Header.Get("Authorization"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	answer, err := proto.Marshal(response)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer) // whoever is gone needs no answer
}

// start serves a far end by a protocol and gives its address.
func start(t *testing.T, f *farEnd, protocol string, config *tls.Config) string {
	t.Helper()
	if protocol == "http" {
		server := httptest.NewUnstartedServer(f)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
		if config == nil {
			server.Start()
		} else {
			server.TLS = config
			server.StartTLS()
		}
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	var options []grpc.ServerOption
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	collectorv1.RegisterLogsServiceServer(server, f)
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

func open(t *testing.T, address, protocol string, config sink.Config) sink.Sink {
	t.Helper()
	if config.Options == nil {
		config.Options = map[string]string{}
	}
	config.URL, config.Options["protocol"] = &url.URL{Scheme: "otlp", Host: address}, protocol
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// batch has n findings between a summary and a closing record.
func batch(n int) sink.Batch {
	b := sink.Batch{Stream: receivertest.Scan("u")}
	for _, message := range receivertest.Records(b.Stream, n) {
		b.Records = append(b.Records, sink.Record{EventID: message.GetEventId(), Sequence: message.GetSequence(), Message: message})
	}
	return b
}

func attribute(l *logsv1.LogRecord, name string) string {
	for _, pair := range l.GetAttributes() {
		if pair.GetKey() == name {
			return pair.GetValue().GetStringValue()
		}
	}
	return ""
}

var protocols = []string{"grpc", "http"}

func TestDeliver(t *testing.T) {
	for _, protocol := range protocols {
		for _, compression := range []string{"", "None", "Gzip"} {
			t.Run(protocol+compression, func(t *testing.T) {
				f := &farEnd{}
				s := open(t, start(t, f, protocol, nil), protocol, sink.Config{Insecure: true, Options: map[string]string{"compression": compression}})
				if err := s.Probe(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := batch(3)
				want.Records[1].Message.GetResult().Severity = "high"
				if outcome, err := s.Deliver(t.Context(), want); err != nil || len(outcome.Rejected) > 0 {
					t.Fatalf("got %+v, %v", outcome, err)
				}
				got := f.taken()
				if len(got) != len(want.Records) {
					t.Fatalf("%d records came", len(got))
				}
				for i, l := range got {
					if attribute(l, "cloudevents.event_id") != want.Records[i].EventID || attribute(l, "scanyard.tenant") != want.Stream.GetTenant() ||
						attribute(l, "scanyard.sequence") != strconv.Itoa(i+1) || !json.Valid([]byte(l.GetBody().GetStringValue())) {
						t.Errorf("record %d is %v", i, l)
					}
				}
				if got[0].GetEventName() != "io.scanyard.forwarding.v1.scan" || got[1].GetSeverityNumber() != logsv1.SeverityNumber_SEVERITY_NUMBER_ERROR ||
					got[4].GetEventName() != "io.scanyard.forwarding.v1.closing" {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

func TestDecision(t *testing.T) {
	f := &farEnd{}
	s := open(t, start(t, f, "grpc", nil), "grpc", sink.Config{Insecure: true})
	line := `{"eventType":"audit_violation", "message":"m"}`
	records := []sink.Record{
		{EventID: "d1", Sequence: 1, ObservedAt: time.Unix(1, 0), Line: []byte(line)},
		{EventID: "d2", Sequence: 2, Line: []byte(`{"eventType":`)},
	}
	outcome, err := s.Deliver(t.Context(), sink.Batch{Stream: receivertest.Scan("u"), Records: records})
	if err != nil || len(outcome.Rejected) != 1 || outcome.Rejected[0].EventID != "d2" {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	if got := f.taken(); len(got) != 1 || got[0].GetBody().GetStringValue() != line || got[0].GetTimeUnixNano() != 1e9 {
		t.Errorf("got %v", got)
	}
}

// TestFaultPartial lets the far end refuse one record: of many it says only how many.
func TestFaultPartial(t *testing.T) {
	for _, protocol := range protocols {
		f := &farEnd{refuses: func(l *logsv1.LogRecord) bool { return attribute(l, "scanyard.sequence") == "2" }}
		s := open(t, start(t, f, protocol, nil), protocol, sink.Config{Insecure: true})
		many := batch(3)
		_, err := s.Deliver(t.Context(), many)
		if e := sink.AsError(err); e.Class != sink.Refused || !strings.Contains(e.Message, "refused 1 of 5 records: not this one") {
			t.Errorf("%s: of many: %v", protocol, err)
		}
		one := sink.Batch{Stream: many.Stream, Records: many.Records[1:2]}
		if _, err := s.Deliver(t.Context(), one); sink.AsError(err).Class != sink.Refused {
			t.Errorf("%s: of one: %v", protocol, err)
		}
		one.Records = many.Records[2:3]
		if _, err := s.Deliver(t.Context(), one); err != nil {
			t.Errorf("%s: a record that is taken: %v", protocol, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	later, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		fails  error
		class  sink.Class
		reason sink.Reason
		after  time.Duration
	}{
		"Token":         {fails: status.Error(codes.Unauthenticated, ""), class: sink.Auth, reason: sink.TokenRejected},
		"Permission":    {fails: status.Error(codes.PermissionDenied, ""), class: sink.Auth, reason: sink.PermissionDenied},
		"Unimplemented": {fails: status.Error(codes.Unimplemented, ""), class: sink.Incompatible, reason: sink.NotCompatible},
		"NotFound":      {fails: status.Error(codes.NotFound, ""), class: sink.Incompatible, reason: sink.NotCompatible},
		"Invalid":       {fails: status.Error(codes.InvalidArgument, ""), class: sink.Refused, reason: sink.RecordsRejected},
		"Exhausted":     {fails: status.Error(codes.ResourceExhausted, ""), class: sink.Overload, reason: sink.Overloaded},
		"Later":         {fails: later.Err(), class: sink.Overload, reason: sink.Overloaded, after: 7 * time.Second},
		"Unavailable":   {fails: status.Error(codes.Unavailable, ""), class: sink.Transport, reason: sink.Disconnected},
		"Internal":      {fails: status.Error(codes.Internal, ""), class: sink.Transport, reason: sink.Disconnected},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, start(t, &farEnd{fails: test.fails}, "grpc", nil), "grpc", sink.Config{Insecure: true})
			_, err := s.Deliver(t.Context(), batch(1))
			if e := sink.AsError(err); err == nil || e.Class != test.class || e.Reason != test.reason || e.RetryAfter != test.after {
				t.Errorf("got %v", err)
			}
			want := test.class
			if want == sink.Refused {
				want = sink.Incompatible // a probe holds no record that could be at fault
			}
			if err := s.Probe(t.Context()); err == nil || sink.AsError(err).Class != want {
				t.Errorf("the probe says %v", err)
			}
		})
	}
	for code, want := range map[int]sink.Class{401: sink.Auth, 403: sink.Auth, 404: sink.Incompatible, 400: sink.Refused, 429: sink.Overload, 503: sink.Transport} {
		s := open(t, start(t, &farEnd{status: code}, "http", nil), "http", sink.Config{Insecure: true})
		if _, err := s.Deliver(t.Context(), batch(1)); err == nil || sink.AsError(err).Class != want {
			t.Errorf("%d: got %v", code, err)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(web.Close)
	s := open(t, web.Listener.Addr().String(), "http", sink.Config{Insecure: true})
	if _, err := s.Deliver(t.Context(), batch(1)); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("a web page: %v", err)
	}
}

// TestToken replaces a token that the far end does not know any more.
func TestToken(t *testing.T) {
	for _, protocol := range protocols {
		f := &farEnd{token: "right"}
		known := trusttest.NewSecrets(sink.Material{Token: "wrong"})
		s := open(t, start(t, f, protocol, nil), protocol, sink.Config{Insecure: true, Secrets: known})
		if _, err := s.Deliver(t.Context(), batch(1)); sink.AsError(err).Reason != sink.TokenRejected {
			t.Errorf("%s: got %v", protocol, err)
		}
		known.Set(sink.Material{Token: "right"})
		for {
			_, err := s.Deliver(t.Context(), batch(1))
			if err == nil {
				break
			}
			if sink.AsError(err).Class != sink.Auth { // the secrets are read again once a second only
				t.Fatalf("%s: got %v", protocol, err)
			}
		}
		if len(f.taken()) != 3 {
			t.Errorf("%s: %d records", protocol, len(f.taken()))
		}
	}
}

func TestTLSReasons(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			matrix := trusttest.Matrix{
				Probes: true,
				Start: func(t *testing.T, config *tls.Config) (string, func() int) {
					f := &farEnd{}
					return start(t, f, protocol, config), func() int { return len(f.taken()) }
				},
				Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
					return open(t, address, protocol, config)
				},
				Deliver: func(t *testing.T, to sink.Sink) error {
					_, err := to.Deliver(t.Context(), batch(1))
					return err
				},
			}
			matrix.Reasons(t)
		})
	}
}

func TestProofByOption(t *testing.T) {
	for said, want := range map[string]bool{"": false, "false": false, "true": true} {
		s := open(t, "127.0.0.1:1", "grpc", sink.Config{Insecure: true, Options: map[string]string{"provesStorage": said}})
		if v, err := s.(sink.Prover).Proof(t.Context(), receivertest.Scan("u")); err != nil || v.Proved != want {
			t.Errorf("%q: got %+v, %v", said, v, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, options := range map[string]map[string]string{
		"use grpc or http": {"protocol": "carrier-pigeon"}, "must be None or Gzip": {"compression": wire.Zstd},
	} {
		if _, err := Open(sink.Config{Name: "hub", URL: &url.URL{Scheme: "otlp", Host: "h"}, Options: options}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	s := &Sink{config: sink.Config{URL: &url.URL{Scheme: "otlp", Host: "h"}}}
	if got := s.address(portGRPC); got != "h:4317" {
		t.Errorf("got %s", got)
	}
}
