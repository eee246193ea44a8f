// SPDX-License-Identifier: Apache-2.0

package httpsink_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	httpsink "github.com/scanyard/scanyard/forwarding/internal/sinks/http"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func open(t *testing.T, handler http.HandlerFunc, options map[string]string) sink.Sink {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := httpsink.Open(sink.Config{Name: "hub", URL: u, Insecure: true, Version: "1", Options: options})
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

func batch(ids ...string) sink.Batch {
	b := sink.Batch{Stream: &forwardingv1.StreamId{ClusterId: "c", Tenant: "t", Name: "exporter", Uid: "q"}}
	for i, id := range ids {
		b.Records = append(b.Records, sink.Record{EventID: id, Sequence: uint64(i + 1), ObservedAt: time.Unix(1, 0), Line: fmt.Appendf(nil, `{"eventType":"a","message":%q}`, id)})
	}
	return b
}

func TestFormats(t *testing.T) {
	for format, c := range map[string]struct {
		contentType string
		requests    int
		begin       string
	}{
		"":                 {"application/cloudevents-batch+json", 1, "["},
		"CloudEventsBatch": {"application/cloudevents-batch+json", 1, "["},
		"CloudEvents":      {"application/cloudevents+json", 2, "{"},
		"NDJSON":           {"application/x-ndjson", 1, "{"},
	} {
		t.Run(format, func(t *testing.T) {
			var bodies []string
			s := open(t, func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				if got := r.Header.Get("Content-Type"); got != c.contentType || len(r.Header.Get("Idempotency-Key")) != 64 || r.UserAgent() != "scanyard-forwarding/1" {
					t.Errorf("headers %v", r.Header)
				}
			}, map[string]string{"format": format})
			if outcome, err := s.Deliver(t.Context(), batch("1", "2")); err != nil || len(outcome.Rejected) > 0 {
				t.Fatal(outcome, err)
			}
			if len(bodies) != c.requests || !strings.HasPrefix(bodies[0], c.begin) || !strings.Contains(strings.Join(bodies, ""), `"data":{"eventType":"a","message":"2"}`) {
				t.Errorf("got %q", bodies)
			}
			if c.begin == "[" && !json.Valid([]byte(bodies[0])) {
				t.Errorf("no JSON: %s", bodies[0])
			}
		})
	}
}

// TestFaultHTTPTable goes through the answers that a server can give.
func TestFaultHTTPTable(t *testing.T) {
	want := func(status int, single, after bool) sink.Class {
		switch status {
		case 401, 403, 407:
			return sink.Auth
		case 408, 425, 500, 502, 504:
			return sink.Transport
		case 429, 507:
			return sink.Overload
		case 503:
			if after {
				return sink.Overload
			}
			return sink.Transport
		case 400, 413, 422:
			return sink.Refused
		case 409:
			if single {
				return ""
			}
			return sink.Refused
		case 404, 405, 406, 410, 415, 421, 426, 501, 505:
			return sink.Incompatible
		}
		switch status / 100 {
		case 2:
			return ""
		case 5:
			return sink.Transport
		}
		return sink.Incompatible // what is not known keeps the data
	}
	var status int
	var after string
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			fmt.Fprint(w, "words\x00of\nthe far end")
		}
	}, nil)
	for status = 200; status < 600; status++ {
		for _, b := range []sink.Batch{batch("1"), batch("1", "2")} {
			for _, after = range []string{"", "7"} {
				_, err := s.Deliver(t.Context(), b)
				class := sink.Class("")
				if err != nil {
					e := sink.AsError(err)
					class = e.Class
					if after == "7" && e.RetryAfter != 7*time.Second || status != 304 && !strings.Contains(e.Message, "words of the far end") {
						t.Errorf("%d: %+v", status, e)
					}
				}
				if expected := want(status, len(b.Records) == 1, after != ""); class != expected {
					t.Errorf("%d with %d records, Retry-After %q: %q, want %q", status, len(b.Records), after, class, expected)
				}
			}
		}
	}
}

func TestFaultPartial(t *testing.T) {
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"rejected":[{"id":"2","message":"no\nthanks"},{"id":"nobody"}]}`)
	}, nil)
	outcome, err := s.Deliver(t.Context(), batch("1", "2", "3"))
	if err != nil || len(outcome.Rejected) != 1 || outcome.Rejected[0].EventID != "2" || outcome.Rejected[0].Message != "no thanks" {
		t.Errorf("%+v, %v", outcome, err)
	}
}

func TestBrokenAnswersKeepTheData(t *testing.T) {
	for name, answer := range map[string]string{
		"Nothing": "", "NoHTTP": "hello\r\n\r\n", "CutBody": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprint(rw, answer)
				rw.Flush()
				conn.Close()
			}, nil)
			_, err := s.Deliver(t.Context(), batch("1"))
			if err == nil || sink.AsError(err).Class != sink.Transport {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenRefusesAFormat(t *testing.T) {
	_, err := httpsink.Open(sink.Config{Name: "hub", URL: &url.URL{Scheme: "http"}, Options: map[string]string{"format": "XML"}})
	if err == nil || !strings.Contains(err.Error(), "use one of CloudEvents, CloudEventsBatch, NDJSON") {
		t.Errorf("got %v", err)
	}
}

func TestHeadersAndProof(t *testing.T) {
	var header http.Header
	s := open(t, func(_ http.ResponseWriter, r *http.Request) { header = r.Header }, map[string]string{"header.X-Team": "blue", "provesStorage": "true"})
	if _, err := s.Deliver(t.Context(), batch("1")); err != nil || header.Get("X-Team") != "blue" {
		t.Errorf("got %v, %v", header, err)
	}
	if v, err := s.(sink.Prover).Proof(t.Context(), nil); err != nil || !v.Proved {
		t.Errorf("whoever configures it says that it stores: %+v, %v", v, err)
	}
	plain := open(t, func(http.ResponseWriter, *http.Request) {}, nil)
	if v, err := plain.(sink.Prover).Proof(t.Context(), nil); err != nil || v.Proved {
		t.Errorf("nobody says that it stores: %+v, %v", v, err)
	}
}
