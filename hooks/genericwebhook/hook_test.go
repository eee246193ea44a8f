// SPDX-License-Identifier: Apache-2.0

package genericwebhook

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// receiver stands in for the network: it keeps requests and answers with a status.
type receiver struct {
	answers []http.Response // one after another, the last one for ever
	fail    []error         // before any answer

	mu       sync.Mutex
	requests []request
}

type request struct {
	Method, URL string
	Header      http.Header
	Length      int64
	Body        []byte
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request{req.Method, req.URL.String(), req.Header.Clone(), req.ContentLength, body})
	if n := len(r.requests); n <= len(r.fail) && r.fail[n-1] != nil {
		return nil, r.fail[n-1]
	}
	answer := r.answers[min(len(r.requests), len(r.answers))-1]
	if answer.Header == nil {
		answer.Header = http.Header{}
	}
	answer.Body, answer.Request = http.NoBody, req
	return &answer, nil
}

func answers(codes ...int) []http.Response {
	var all []http.Response
	for _, code := range codes {
		all = append(all, http.Response{StatusCode: code})
	}
	return all
}

type fixture struct {
	Env    map[string]string `json:"env"`
	Answer struct {
		Status int `json:"status"`
	} `json:"answer"`
	Scan     json.RawMessage `json:"scan"`
	Findings json.RawMessage `json:"findings"`
	Expected struct {
		Error    any `json:"error"`
		Requests []struct {
			Method  string            `json:"method"`
			URL     string            `json:"url"`
			Headers map[string]string `json:"headers"`
			JSON    json.RawMessage   `json:"json"`
		} `json:"requests"`
	} `json:"expected"`
}

// credentials are the headers that a case must name to see them sent.
var credentials = []string{"Authorization", "X-Api-Key"}

func TestFixtureGenericWebhook(t *testing.T) {
	sdktest.Cases(t, "generic-webhook", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Scan = string(c.Scan)
		w.Objects["/findings.json"] = c.Findings
		far := &receiver{answers: answers(c.Answer.Status)}
		w.Transport = far
		got := w.Run(t, Hook(), c.Env)
		wantFailure := c.Expected.Error != nil && c.Expected.Error != false
		if failed := got.ExitCode != 0; failed != wantFailure {
			t.Fatalf("failed: %t, want %t: %s", failed, wantFailure, got.Stderr)
		}
		if wantFailure && len(c.Expected.Requests) == 0 {
			return
		}
		// A repeated attempt is the same request again.
		sent := slices.CompactFunc(far.requests, func(a, b request) bool { return cmp.Equal(a, b) })
		if len(sent) != len(c.Expected.Requests) {
			t.Fatalf("%d requests, want %d", len(sent), len(c.Expected.Requests))
		}
		for i, want := range c.Expected.Requests {
			header := map[string]string{}
			for _, name := range append(slices.Collect(maps.Keys(want.Headers)), credentials...) {
				if value := sent[i].Header.Get(name); value != "" {
					header[http.CanonicalHeaderKey(name)] = value
				}
			}
			wantHeader := map[string]string{}
			for name, value := range want.Headers {
				wantHeader[http.CanonicalHeaderKey(name)] = value
			}
			if diff := cmp.Diff([]any{want.Method, want.URL, wantHeader, sdktest.JSON(t, want.JSON)},
				[]any{sent[i].Method, sent[i].URL, header, sdktest.JSON(t, sent[i].Body)}); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		}
	})
}

func TestSendAgain(t *testing.T) {
	later := func(value string) []http.Response {
		all := answers(503, 200)
		all[0].Header = http.Header{"Retry-After": {value}, "Date": {"Mon, 01 Jan 2035 00:00:00 GMT"}}
		return all
	}
	cases := map[string]struct {
		far      *receiver
		attempts int
		exitCode int
		says     string
		waits    time.Duration
		reason   string
	}{
		"Accepted":             {&receiver{answers: answers(202)}, 1, 0, "", 0, "any 2xx is success"},
		"BackAfterTwo":         {&receiver{answers: answers(502, 504, 200)}, 3, 0, "", 0, "a gateway without its server is a passing state"},
		"NeverBack":            {&receiver{answers: answers(503)}, 5, 1, "given up after 5 attempts: the webhook at example.com answers 503 Service Unavailable", 0, "attempts are bounded"},
		"TooMany":              {&receiver{answers: later("17")}, 2, 0, "", 17 * time.Second, "the receiver says when to come back"},
		"TooManyUntilDate":     {&receiver{answers: later("Mon, 01 Jan 2035 00:00:30 GMT")}, 2, 0, "", 30 * time.Second, "or until when, by its own clock"},
		"TooManyForHours":      {&receiver{answers: later("7200")}, 1, 1, "answers 503 Service Unavailable (it asks to wait for 2h0m0s)", 0, "a pod does not wait for hours, the Job comes again"},
		"NoConnection":         {&receiver{answers: answers(200), fail: []error{io.ErrUnexpectedEOF}}, 2, 0, "", 0, "a connection that breaks is tried again"},
		"NeverAConnection":     {&receiver{fail: []error{io.EOF, io.EOF, io.EOF, io.EOF, io.EOF, io.EOF}}, 5, 1, "the webhook at example.com cannot be reached: EOF", 0, "attempts are bounded"},
		"InternalServerError":  {&receiver{answers: answers(500, 200)}, 2, 0, "", time.Second, "the key makes a repetition safe"},
		"Unauthorized":         {&receiver{answers: answers(401)}, 1, exitcode.Refused, "answers 401 Unauthorized", 0, "asking again changes nothing"},
		"NotImplemented":       {&receiver{answers: answers(501)}, 1, 1, "answers 501 Not Implemented", 0, "asking again changes nothing"},
		"RedirectIsNotSuccess": {&receiver{answers: []http.Response{{StatusCode: 302, Header: http.Header{"Location": {"https://other.example/secret?token=1"}}}}}, 1, 1, "a redirect to https://other.example; redirects are not followed", 0, "following turns the POST into a GET without the findings"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Transport = c.far
			got := w.Run(t, Hook(), map[string]string{
				"WEBHOOK_URL": "http://example.com/hooks/T0K3N?key=s3cr3t", "WEBHOOK_USER": "u", "WEBHOOK_PASSWORD": "p4ss",
			})
			if got.ExitCode != c.exitCode || !strings.Contains(got.Stderr, c.says) || len(c.far.requests) != c.attempts {
				t.Errorf("%s: exit code %d, %d attempts, stderr %q, want %d, %d, %q",
					c.reason, got.ExitCode, len(c.far.requests), got.Stderr, c.exitCode, c.attempts, c.says)
			}
			for _, secret := range []string{"T0K3N", "s3cr3t", "p4ss", "token="} {
				if strings.Contains(got.Stderr, secret) {
					t.Errorf("stderr shows %s: %s", secret, got.Stderr)
				}
			}
			if pauses := w.Clock.Pauses(); c.waits != 0 && !slices.Equal(pauses, []time.Duration{c.waits}) {
				t.Errorf("waited %v, want %v", pauses, c.waits)
			}
			for _, r := range c.far.requests {
				if diff := cmp.Diff(c.far.requests[0], r); diff != "" {
					t.Errorf("attempts differ:\n%s", diff)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want string
	}{
		"AddressMissing":    {map[string]string{}, "WEBHOOK_URL is not set"},
		"AddressNotHTTP":    {map[string]string{"WEBHOOK_URL": "ftp://s3cr3t@example.com"}, "WEBHOOK_URL is not an http:// or https:// address"},
		"AddressUnreadable": {map[string]string{"WEBHOOK_URL": "http://exa mple/s3cr3t"}, "WEBHOOK_URL is not an http:// or https:// address"},
		"TimeoutNoDuration": {map[string]string{"WEBHOOK_URL": "http://example.com", "WEBHOOK_TIMEOUT": "30"}, `WEBHOOK_TIMEOUT is "30", want a duration`},
		"HeaderName": {
			map[string]string{"WEBHOOK_URL": "http://example.com", "WEBHOOK_APIKEY_HEADER_NAME": "X Key", "WEBHOOK_APIKEY_HEADER_VALUE": "s3cr3t"},
			"WEBHOOK_APIKEY_HEADER_NAME is not a valid name",
		},
		"HeaderValue": {
			map[string]string{"WEBHOOK_URL": "http://example.com", "WEBHOOK_APIKEY_HEADER_NAME": "X-Key", "WEBHOOK_APIKEY_HEADER_VALUE": "s3cr3t\n"},
			"WEBHOOK_APIKEY_HEADER_VALUE holds characters",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			got := w.Run(t, Hook(), c.env)
			if got.ExitCode != exitcode.Configuration || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

// TestOverTheNetwork sends through real connections: TLS with the cluster's own CA, and a body of many megabytes.
func TestOverTheNetwork(t *testing.T) {
	type seen struct {
		length   int64
		findings int
		encoding []string
		user     string
	}
	got := make(chan seen, 1)
	far := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var payload struct {
			Scan     json.RawMessage   `json:"scan"`
			Findings []json.RawMessage `json:"findings"`
		}
		if err := json.NewDecoder(r.Body).Decode(&payload); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		user, _, _ := r.BasicAuth()
		got <- seen{r.ContentLength, len(payload.Findings), r.TransferEncoding, user}
	}))
	defer far.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: far.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	const count = 20_000
	element := `{"id":"1","name":"` + strings.Repeat("x", 400) + `","severity":"LOW","category":"c"}`
	w := sdktest.New(t)
	w.Objects["/findings.json"] = []byte("[" + strings.Repeat(element+",", count-1) + element + "]")
	env := map[string]string{"WEBHOOK_URL": far.URL + "/in", "WEBHOOK_USER": "u", "WEBHOOK_PASSWORD": "p", "NODE_EXTRA_CA_CERTS": ca}
	if r := w.Run(t, Hook(), env); r.ExitCode != 0 {
		t.Fatal(r.Stderr)
	}
	want := seen{length: int64(len(`{"scan":,"findings":}`) + len(w.Scan) + len(w.Objects["/findings.json"])), findings: count, user: "u"}
	if diff := cmp.Diff(want, <-got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}

	delete(env, "NODE_EXTRA_CA_CERTS")
	if r := w.Run(t, Hook(), env); r.ExitCode != 1 || !strings.Contains(r.Stderr, "certificate") || strings.Contains(r.Stderr, "attempts") {
		t.Errorf("without the CA: exit code %d, stderr %q", r.ExitCode, r.Stderr)
	}
}

func TestSilentReceiver(t *testing.T) {
	w := sdktest.New(t)
	far := w.NewRemote(t, func(int, sdktest.Request) sdktest.Reply { return sdktest.Reply{Hang: time.Minute} })
	got := w.Run(t, Hook(), map[string]string{"WEBHOOK_URL": far.URL, "WEBHOOK_TIMEOUT": "20s", "DELIVERY_ATTEMPTS": "2", "DELIVERY_BUDGET": "24h"})
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "given up after 2 attempts") || !strings.Contains(got.Stderr, "no sign of life in time (20s)") {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
}

// TestPayloadIsWhatIsStored holds that not a byte of Scan or findings changes on the way.
func TestPayloadIsWhatIsStored(t *testing.T) {
	var out bytes.Buffer
	scan := []byte(`{"metadata":{"name":"a<b>","n":1.0},"z":1,"a":2}`)
	err := writePayload(&out, scan, func(add func([]byte) error) error { return add([]byte(`{"n":12345678901234567890.10}`)) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"scan":`+string(scan)+`,"findings":[{"n":12345678901234567890.10}]}`, out.String()); diff != "" {
		t.Error(diff)
	}
}
