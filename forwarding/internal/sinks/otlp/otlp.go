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
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/answer"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/wire"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() { sink.Register("otlp", Open) }

const (
	defaultTimeout = 30 * time.Second
	portGRPC       = "4317"
	portHTTP       = "4318"
	pathHTTP       = "/v1/logs"
	maxAnswer      = 1 << 20
)

// export sends one request. single is true where it holds at most one record.
type export func(ctx context.Context, request *collectorv1.ExportLogsServiceRequest, single bool) (*collectorv1.ExportLogsServiceResponse, error)

// Sink exports logs to one far end.
type Sink struct {
	config sink.Config
	trust  *trust.Client
	now    func() time.Time
	export export
	close  func() error
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
	client := collectorv1.NewLogsServiceClient(conn)
	var options []grpc.CallOption
	if compression != "" {
		options = append(options, grpc.UseCompressor(compression))
	}
	s.close = conn.Close
	s.export = func(ctx context.Context, request *collectorv1.ExportLogsServiceRequest, _ bool) (*collectorv1.ExportLogsServiceResponse, error) {
		response, err := client.Export(ctx, request, options...)
		if err != nil {
			return nil, answer.Call(err, s.trust, len(request.GetResourceLogs()) == 0)
		}
		return response, nil
	}
	return nil
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
	s.export = func(ctx context.Context, request *collectorv1.ExportLogsServiceRequest, single bool) (*collectorv1.ExportLogsServiceResponse, error) {
		response, err := s.post(ctx, client, to.String(), request, compression)
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

func (s *Sink) post(ctx context.Context, client *http.Client, to string, message proto.Message, compression string) (*http.Response, error) {
	body, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
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
	request, n := &collectorv1.ExportLogsServiceRequest{}, 0
	for _, batch := range batches {
		logs := s.logs(batch, &outcome)
		if len(logs.GetLogRecords()) == 0 {
			continue
		}
		n += len(logs.GetLogRecords())
		cluster := batch.Stream.GetClusterId()
		request.ResourceLogs = append(request.ResourceLogs, &logsv1.ResourceLogs{
			Resource: &resourcev1.Resource{Attributes: []*commonv1.KeyValue{
				pair("service.name", "scanyard"), pair("scanyard.cluster", cluster), pair("k8s.cluster.uid", cluster),
			}},
			ScopeLogs: []*logsv1.ScopeLogs{logs},
		})
	}
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

// logs are the records of a batch. What no log record can be made of is rejected.
func (s *Sink) logs(batch sink.Batch, outcome *sink.Outcome) *logsv1.ScopeLogs {
	logs := &logsv1.ScopeLogs{Scope: &commonv1.InstrumentationScope{Name: "github.com/scanyard/scanyard/forwarding", Version: s.config.Version}}
	for _, record := range batch.Records {
		l, err := logRecord(batch, record, s.now())
		if err != nil {
			outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: record.EventID, Reason: "Malformed", Message: answer.Words(err.Error())})
			continue
		}
		logs.LogRecords = append(logs.LogRecords, l)
	}
	return logs
}

// send exports within the timeout, and once more where the secrets changed since the far end refused them.
func (s *Sink) send(ctx context.Context, request *collectorv1.ExportLogsServiceRequest, single bool) (*collectorv1.ExportLogsServiceResponse, error) {
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
	_, err := s.send(ctx, &collectorv1.ExportLogsServiceRequest{}, true)
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
