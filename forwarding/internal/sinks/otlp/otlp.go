// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/answer"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() { sink.Register("otlp", Open) }

const (
	defaultTimeout = 30 * time.Second
	portGRPC       = "4317"
	portHTTP       = "4318"
	methodGRPC     = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	pathHTTP       = "/v1/logs"
	maxAnswer      = 1 << 20
	maxKept        = 4 << 20
)

// export sends one ExportLogsServiceRequest. single is true where it holds at most one record.
type export func(ctx context.Context, request mem.Buffer, single bool) (*collectorv1.ExportLogsServiceResponse, error)

// Sink exports logs to one far end.
type Sink struct {
	config sink.Config
	trust  *trust.Client
	now    func() time.Time
	export export
	close  func() error
	// buffers holds the memory of requests that have gone out; nil: nothing tells when that is.
	buffers *buffers
}

// buffers are the memory of requests, used again.
type buffers struct{ pool sync.Pool }

// Get gives a buffer without content, of any capacity.
func (b *buffers) Get(int) *[]byte {
	if known, ok := b.pool.Get().(*[]byte); ok {
		return known
	}
	return new([]byte)
}

// Put takes a buffer that nobody reads any more. One that is much larger than a request should be is given up.
func (b *buffers) Put(buffer *[]byte) {
	if cap(*buffer) <= maxKept {
		*buffer = (*buffer)[:0]
		b.pool.Put(buffer)
	}
}

// Open makes the sink. It connects with the first delivery.
func Open(config sink.Config) (sink.Sink, error) {
	s := &Sink{config: config}
	if s.config.Timeout <= 0 {
		s.config.Timeout = defaultTimeout
	}
	s.now = time.Now //nolint:forbidigo // certificates are judged now
	s.trust = trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: config.Insecure, Dial: config.Dial, Expires: config.Expires,
		Now: s.now,
	})
	compression := strings.ToLower(config.Options["compression"])
	switch compression {
	case "none":
		compression = ""
	case "", wire.Gzip:
	default:
		return nil, fmt.Errorf("sink %s: compression must be None or Gzip, is %q", config.Name, config.Options["compression"])
	}
	switch config.Options["protocol"] {
	case "", "grpc":
		return s, s.overGRPC(compression)
	case "http":
		s.overHTTP(compression)
		return s, nil
	}
	return nil, fmt.Errorf("sink %s: the protocol %q is not known: use grpc or http", config.Name, config.Options["protocol"])
}

// address is HOST:PORT of the far end.
func (s *Sink) address(port string) string {
	if s.config.URL.Port() != "" {
		return s.config.URL.Host
	}
	return net.JoinHostPort(s.config.URL.Hostname(), port)
}

func (s *Sink) overGRPC(compression string) error {
	conn, err := s.trust.Conn(s.address(portGRPC), s.agent(), s.config.Timeout)
	if err != nil {
		return fmt.Errorf("sink %s: %w", s.config.Name, err)
	}
	options := []grpc.CallOption{grpc.ForceCodecV2(codec{})}
	if compression != "" {
		options = append(options, grpc.UseCompressor(compression))
	}
	s.close, s.buffers = conn.Close, &buffers{}
	s.export = func(ctx context.Context, request mem.Buffer, _ bool) (*collectorv1.ExportLogsServiceResponse, error) {
		response := &collectorv1.ExportLogsServiceResponse{}
		if err := conn.Invoke(ctx, methodGRPC, request, response, options...); err != nil {
			return nil, answer.Call(err, s.trust, request.Len() == 0)
		}
		return response, nil
	}
	return nil
}

// codec takes requests that are bytes already.
type codec struct{}

// Name is that of the format on the wire.
func (codec) Name() string { return "proto" }

// Marshal gives the bytes, which gRPC lets go when they are on their way.
func (codec) Marshal(request any) (mem.BufferSlice, error) {
	buffer := request.(mem.Buffer) // export sends nothing else
	buffer.Ref()
	return mem.BufferSlice{buffer}, nil
}

// Unmarshal reads a response.
func (codec) Unmarshal(data mem.BufferSlice, response any) error {
	return proto.Unmarshal(data.Materialize(), response.(proto.Message)) // export reads nothing else
}

func (s *Sink) agent() string { return "scanyard-forwarding/" + s.config.Version }

func (s *Sink) overHTTP(compression string) {
	to := *s.config.URL
	to.Scheme, to.Host = "https", s.address(portHTTP)
	if s.config.Insecure {
		to.Scheme = "http"
	}
	if strings.Trim(to.Path, "/") == "" {
		to.Path = pathHTTP
	}
	client := s.trust.HTTP()
	s.close = func() error {
		client.CloseIdleConnections()
		return nil
	}
	s.export = func(ctx context.Context, request mem.Buffer, single bool) (*collectorv1.ExportLogsServiceResponse, error) {
		response, err := s.post(ctx, client, to.String(), request.ReadOnlyData(), compression)
		if err != nil {
			return nil, s.trust.Explain(err)
		}
		defer response.Body.Close()
		said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return nil, s.trust.Explain(err)
		}
		if e := answer.Status(response.StatusCode, response.Header, said, single, s.now()); e != nil {
			if e.Class == sink.Auth {
				client.CloseIdleConnections()
			}
			return nil, e
		}
		outcome := &collectorv1.ExportLogsServiceResponse{}
		if err := proto.Unmarshal(said, outcome); err != nil {
			return nil, &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: "the far end answers with something else than OTLP in protobuf"}
		}
		return outcome, nil
	}
}

func (s *Sink) post(ctx context.Context, client *http.Client, to string, body []byte, compression string) (*http.Response, error) {
	if compression != "" {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		if _, err := writer.Write(body); err != nil {
			return nil, err
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		body = packed.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token, err := s.trust.Token(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if compression != "" {
		request.Header.Set("Content-Encoding", compression)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", s.agent())
	return client.Do(request)
}

// Deliver exports the records in one request.
func (s *Sink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	return s.Gather(ctx, []sink.Batch{batch})
}

// Gather exports the records of all batches in one request.
func (s *Sink) Gather(ctx context.Context, batches []sink.Batch) (sink.Outcome, error) {
	var outcome sink.Outcome
	request, n := s.request(batches, &outcome)
	defer request.Free()
	if n == 0 {
		return outcome, nil
	}
	response, err := s.send(ctx, request, n == 1)
	if err != nil {
		if e := sink.AsError(err); e.Class == answer.Done {
			return outcome, nil
		}
		return sink.Outcome{}, err
	}
	if refused := response.GetPartialSuccess().GetRejectedLogRecords(); refused > 0 {
		return sink.Outcome{}, &sink.Error{
			Class: sink.Refused, Reason: sink.RecordsRejected,
			Message: fmt.Sprintf("the far end refused %d of %d records: %s", refused, n, answer.Words(response.GetPartialSuccess().GetErrorMessage())),
		}
	}
	return outcome, nil
}

// Unordered is true: OTLP promises no order.
func (*Sink) Unordered() bool { return true }

// request makes the request, and tells how many records it has. What no log record can be made of is rejected.
func (s *Sink) request(batches []sink.Batch, outcome *sink.Outcome) (request mem.Buffer, n int) {
	room := new([]byte)
	if s.buffers != nil {
		room = s.buffers.Get(0)
	}
	*room, n = s.appendRequest(*room, batches, outcome)
	if s.buffers == nil {
		return mem.SliceBuffer(*room), n
	}
	return mem.NewBuffer(room, s.buffers), n
}

func (s *Sink) appendRequest(to []byte, batches []sink.Batch, outcome *sink.Outcome) (request []byte, n int) {
	now := s.now()
	for _, batch := range batches {
		before, had := len(to), n
		var resourceLogs, scopeLogs, start int
		to, resourceLogs = openMessage(to, requestResourceLogs)
		to, start = openMessage(to, resourceLogsResource)
		for _, key := range []string{"service.name", "scanyard.cluster", "k8s.cluster.uid"} {
			to = appendAttribute(to, resourceAttributes, key, resourceValue(key, batch.Stream))
		}
		to = closeMessage(to, start)
		to, scopeLogs = openMessage(to, resourceLogsScopeLogs)
		to, start = openMessage(to, scopeLogsScope)
		to = appendText(to, scopeName, "github.com/scanyard/scanyard/forwarding")
		to = closeMessage(appendText(to, scopeVersion, s.config.Version), start)
		stream := cloudevent.NewStream(batch.Stream)
		for _, record := range batch.Records {
			longer, start := openMessage(to, scopeLogsLogRecords)
			longer, err := appendLogRecord(longer, stream, record, now)
			if err != nil {
				outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: record.EventID, Reason: "Malformed", Message: answer.Words(err.Error())})
				continue
			}
			to = closeMessage(longer, start)
			n++
		}
		to = closeMessage(closeMessage(to, scopeLogs), resourceLogs)
		if n == had {
			to = to[:before]
		}
	}
	return to, n
}

// resourceValue is what the attributes of a resource say: the program, and the cluster twice.
func resourceValue(key string, stream *forwardingv1.StreamId) string {
	if key == "service.name" {
		return "scanyard"
	}
	return stream.GetClusterId()
}

// send exports within the timeout, and once more where the secrets changed since the far end refused them.
func (s *Sink) send(ctx context.Context, request mem.Buffer, single bool) (*collectorv1.ExportLogsServiceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	response, err := s.export(ctx, request, single)
	if err != nil && sink.AsError(err).Class == sink.Auth && s.trust.Refused(ctx) {
		return s.export(ctx, request, single)
	}
	return response, err
}

// Probe exports nothing, which far ends accept.
func (s *Sink) Probe(ctx context.Context) error {
	_, err := s.send(ctx, mem.SliceBuffer{}, true)
	if err != nil && sink.AsError(err).Class == sink.Refused {
		return &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: sink.AsError(err).Message}
	}
	return err
}

// Proof is the word of whoever has configured the sink.
func (s *Sink) Proof(context.Context, *forwardingv1.StreamId) (sink.Verdict, error) {
	return sink.Verdict{Proved: s.config.Options["provesStorage"] == "true"}, nil
}

// Close ends the connections.
func (s *Sink) Close() error { return s.close() }
