// SPDX-License-Identifier: Apache-2.0

package httpsink

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/answer"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const maxAnswer = 1 << 20

// The formats of a request.
const (
	formatBatch  = "CloudEventsBatch"
	formatSingle = "CloudEvents"
	formatLines  = "NDJSON"
)

var contentTypes = map[string]string{
	formatBatch: "application/cloudevents-batch+json", formatSingle: "application/cloudevents+json", formatLines: "application/x-ndjson",
}

func init() {
	sink.Register("http", Open)
	sink.Register("https", Open)
}

// httpSink is one far end.
type httpSink struct {
	config sink.Config
	format string
	client *http.Client
	trust  *trust.Client
	now    func() time.Time
}

// Open makes a sink of an http or https URL.
func Open(config sink.Config) (sink.Sink, error) {
	format := config.Options["format"]
	if format == "" {
		format = formatBatch
	}
	if contentTypes[format] == "" {
		return nil, fmt.Errorf("sink %s: the format %q is not known: use one of %s", config.Name, format, strings.Join(slices.Sorted(maps.Keys(contentTypes)), ", "))
	}
	s := &httpSink{config: config, format: format, now: time.Now} //nolint:forbidigo // a sink is opened by its configuration alone
	s.trust = trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: config.URL.Scheme == "http", Dial: config.Dial,
		Expires: config.Expires, Now: s.now,
	})
	s.client = s.trust.HTTP()
	return s, nil
}

// failed says why there was no answer, or none that helps, and has secrets read again where the far end has refused them.
func (s *httpSink) failed(ctx context.Context, e *sink.Error) *sink.Error {
	if e.Class == sink.Auth {
		s.trust.Refused(ctx)
		s.client.CloseIdleConnections()
	}
	return e
}

// Deliver posts a batch, or its events one by one.
func (s *httpSink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	return s.Gather(ctx, []sink.Batch{batch})
}

// Gather posts batches as one: an event names its stream.
func (s *httpSink) Gather(ctx context.Context, batches []sink.Batch) (sink.Outcome, error) {
	var outcome sink.Outcome
	var events [][]byte
	var ids []string
	for _, batch := range batches {
		for _, record := range batch.Records {
			event, err := cloudevent.Append(nil, batch.Stream, record)
			if err != nil {
				outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: record.EventID, Reason: "Malformed", Message: err.Error()})
				continue
			}
			events, ids = append(events, event), append(ids, record.EventID)
		}
	}
	if len(events) == 0 {
		return outcome, nil
	}
	if s.format != formatSingle {
		rejected, err := s.post(ctx, s.body(events), ids)
		outcome.Rejected = append(outcome.Rejected, rejected...)
		return outcome, err
	}
	for i, event := range events {
		rejected, err := s.post(ctx, event, ids[i:i+1])
		if e, ok := errors.AsType[*sink.Error](err); ok && e.Class == sink.Refused {
			rejected, err = []sink.Rejection{{EventID: ids[i], Reason: string(e.Reason), Message: e.Message}}, nil
		}
		if err != nil {
			return outcome, err
		}
		outcome.Rejected = append(outcome.Rejected, rejected...)
	}
	return outcome, nil
}

func (s *httpSink) body(events [][]byte) []byte {
	if s.format == formatLines {
		return append(bytes.Join(events, []byte("\n")), '\n')
	}
	return append(append([]byte("["), bytes.Join(events, []byte(","))...), ']')
}

func (s *httpSink) post(ctx context.Context, body []byte, ids []string) ([]sink.Rejection, error) {
	m, err := s.trust.Material(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: trust.WithoutAddress(err).Error()}
	}
	key := sha256.Sum256([]byte(strings.Join(ids, "")))
	for option, value := range s.config.Options {
		if name, ok := strings.CutPrefix(option, "header."); ok {
			request.Header.Set(name, value)
		}
	}
	request.Header.Set("Content-Type", contentTypes[s.format])
	request.Header.Set("Idempotency-Key", hex.EncodeToString(key[:]))
	request.Header.Set("User-Agent", "scanyard-forwarding/"+s.config.Version)
	switch {
	case m.Token != "":
		request.Header.Set("Authorization", "Bearer "+m.Token.Reveal())
	case m.Username != "":
		request.SetBasicAuth(m.Username, m.Password.Reveal())
	}
	sign(request.Header, m.Further, hex.EncodeToString(key[:]), s.now(), body)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, s.failed(ctx, s.failure(err))
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, s.failed(ctx, s.failure(err))
	}
	if e := answer.Status(response.StatusCode, response.Header, said, len(ids) == 1, s.now()); e != nil {
		return nil, s.failed(ctx, e)
	}
	return rejections(said, ids), nil
}

// failure says why there was no answer.
func (s *httpSink) failure(err error) *sink.Error {
	e := s.trust.Explain(err)
	return &sink.Error{Class: e.Class, Reason: e.Reason, Message: answer.Words(e.Message), RetryAfter: e.RetryAfter}
}

// rejections reads which events of an accepted batch are refused.
func rejections(said []byte, ids []string) []sink.Rejection {
	var body struct {
		Rejected []struct {
			ID      string `json:"id"`
			Message string `json:"message"`
		} `json:"rejected"`
	}
	if json.Unmarshal(said, &body) != nil {
		return nil // the answer is not JSON of ours: nothing in it refuses anything
	}
	var all []sink.Rejection
	for _, r := range body.Rejected {
		if slices.Contains(ids, r.ID) {
			all = append(all, sink.Rejection{EventID: r.ID, Reason: string(sink.RecordsRejected), Message: answer.Words(r.Message)})
		}
	}
	return all
}

// sign adds the headers of Standard Webhooks, with one signature for each secret.
func sign(header http.Header, secrets map[string]sink.Secret, id string, now time.Time, body []byte) {
	var signatures []string
	at := strconv.FormatInt(now.Unix(), 10)
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if name != "secret" && !strings.HasPrefix(name, "secret-") {
			continue
		}
		key := []byte(secrets[name].Reveal())
		if encoded, ok := strings.CutPrefix(string(key), "whsec_"); ok {
			if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
				key = decoded
			}
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if len(signatures) > 0 {
		header.Set("Webhook-Id", id)
		header.Set("Webhook-Timestamp", at)
		header.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
}

// Probe asks nothing: the next batch is the probe.
func (*httpSink) Probe(context.Context) error { return nil }

// Proof is the word of whoever has configured the sink.
func (s *httpSink) Proof(context.Context, *forwardingv1.StreamId) (sink.Verdict, error) {
	return sink.Verdict{Proved: s.config.Options["provesStorage"] == "true"}, nil
}

// Close ends idle connections.
func (s *httpSink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
