// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func options(w *sdktest.World, change ...func(*delivery.Options)) delivery.Options {
	o := delivery.Options{
		Remote: "Elsewhere", Clock: w.Clock.Delivery(), Random: func() float64 { return 1 },
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	for _, do := range change {
		do(&o)
	}
	return o
}

func replies(list ...sdktest.Reply) func(int, sdktest.Request) sdktest.Reply {
	return func(n int, _ sdktest.Request) sdktest.Reply { return list[min(n, len(list)-1)] }
}

var ok = sdktest.Reply{Body: `{"ok":true}`}

// TestFaults is every fault that a remote service can have, on real connections.
func TestFaults(t *testing.T) {
	text := map[string]string{"Content-Type": "text/plain"}
	cases := map[string]struct {
		replies []sdktest.Reply
		change  func(*delivery.Options)
		request func(*delivery.Request)
		tries   int
		pauses  []time.Duration
		fails   string
		reason  string
	}{
		"Fine":                {replies: []sdktest.Reply{ok}, tries: 1},
		"AnyStatusOfSuccess":  {replies: []sdktest.Reply{{Status: 204}}, tries: 1},
		"RetryAfterSeconds":   {replies: []sdktest.Reply{{Status: 429, Header: map[string]string{"Retry-After": "17"}}, ok}, tries: 2, pauses: []time.Duration{17 * time.Second}},
		"RetryAfterDate":      {replies: []sdktest.Reply{{Status: 503, Header: map[string]string{"Retry-After": "Mon, 01 Jan 2035 00:00:40 GMT", "Date": "Mon, 01 Jan 2035 00:00:00 GMT"}}, ok}, tries: 2, pauses: []time.Duration{40 * time.Second}},
		"RetryAfterNegative":  {replies: []sdktest.Reply{{Status: 429, Header: map[string]string{"Retry-After": "-5"}}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"RetryAfterNonsense":  {replies: []sdktest.Reply{{Status: 429, Header: map[string]string{"Retry-After": "soon"}}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"RetryAfterTooLong":   {replies: []sdktest.Reply{{Status: 429, Header: map[string]string{"Retry-After": "99999999999"}}}, tries: 1, fails: "answers 429 Too Many Requests (it asks to wait for"},
		"InternalServerError": {replies: []sdktest.Reply{{Status: 500}, {Status: 500}, ok}, tries: 3, pauses: []time.Duration{time.Second, 2 * time.Second}},
		"ServiceUnavailable":  {replies: []sdktest.Reply{{Status: 503}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"RequestTimeout":      {replies: []sdktest.Reply{{Status: 408}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"TooEarly":            {replies: []sdktest.Reply{{Status: 425}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"NotImplemented":      {replies: []sdktest.Reply{{Status: 501}}, tries: 1, fails: "Elsewhere at HOST answers 501 Not Implemented"},
		"Never": {
			replies: []sdktest.Reply{{Status: 500}}, tries: 5, fails: "given up after 5 attempts: Elsewhere at HOST answers 500 Internal Server Error",
			pauses: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, reason: "its Job comes again, and the Scan says why it waits",
		},
		"BudgetUsedUp": {
			replies: []sdktest.Reply{{Status: 500}}, change: func(o *delivery.Options) { o.Budget, o.Attempts = 8*time.Second, 100 },
			tries: 4, pauses: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, fails: "given up after 4 attempts",
		},
		"PausesAreBounded": {
			replies: []sdktest.Reply{{Status: 500}}, change: func(o *delivery.Options) { o.LongestPause, o.Attempts = 3*time.Second, 5 },
			tries: 5, pauses: []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}, fails: "given up after 5 attempts",
		},
		"LeastJitter": {
			replies: []sdktest.Reply{{Status: 500}, ok}, change: func(o *delivery.Options) { o.Random = func() float64 { return 0 } },
			tries: 2, pauses: []time.Duration{500 * time.Millisecond}, reason: "half of a pause is never chance",
		},
		"Unauthorized":       {replies: []sdktest.Reply{{Status: 401, Header: text, Body: "who are\n\tyou?"}}, tries: 1, fails: "answers 401 Unauthorized: who are you?"},
		"HTMLIsNotShown":     {replies: []sdktest.Reply{{Status: 403, Header: map[string]string{"Content-Type": "text/html"}, Body: "<h1>no</h1>"}}, tries: 1, fails: "answers 403 Forbidden\n"},
		"LongAnswersAreCut":  {replies: []sdktest.Reply{{Status: 400, Header: text, Body: strings.Repeat("x", 1<<20)}}, tries: 1, fails: strings.Repeat("x", 199) + "…\n"},
		"HalfAnAnswer":       {replies: []sdktest.Reply{{Body: `{"ok":`, Half: true}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"HalfOfAllAnswers":   {replies: []sdktest.Reply{{Body: `{"ok":`, Half: true}}, tries: 5, fails: "Elsewhere at HOST breaks off its response of status 200: read response: unexpected EOF"},
		"HalfIsEnough":       {replies: []sdktest.Reply{{Body: `{"ok":`, Half: true}}, request: func(r *delivery.Request) { r.StatusIsEnough = true }, tries: 1},
		"ConnectionBreaks":   {replies: []sdktest.Reply{{Drop: true}, ok}, tries: 2, pauses: []time.Duration{time.Second}},
		"NeverAnAnswer":      {replies: []sdktest.Reply{{Drop: true}}, tries: 5, fails: "given up after 5 attempts: Elsewhere at HOST cannot be reached: EOF"},
		"Hangs":              {replies: []sdktest.Reply{{Hang: time.Minute}, ok}, change: func(o *delivery.Options) { o.Budget = 24 * time.Hour }, tries: 2, pauses: []time.Duration{time.Second}},
		"HangsForEver":       {replies: []sdktest.Reply{{Hang: time.Minute}}, change: func(o *delivery.Options) { o.Attempts = 1 }, tries: 1, fails: "Elsewhere at HOST cannot be reached: no sign of life in time (1m0s)"},
		"AcceptedStatus":     {replies: []sdktest.Reply{{Status: 409}}, request: func(r *delivery.Request) { r.Accept = []int{409} }, tries: 1},
		"CheckFails":         {replies: []sdktest.Reply{ok}, request: func(r *delivery.Request) { r.Check = func(*delivery.Answer) error { return errors.New("not so") } }, tries: 1, fails: "Elsewhere at HOST answers 200: not so"},
		"CheckWantsItAgain":  {replies: []sdktest.Reply{ok}, request: func(r *delivery.Request) { r.Check = again(3) }, tries: 4, pauses: []time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}},
		"Redirect":           {replies: []sdktest.Reply{{Status: 307, Header: map[string]string{"Location": "http://other.example/p?q=1"}}}, tries: 1, fails: "answers 307 Temporary Redirect, a redirect to http://other.example; redirects are not followed"},
		"RedirectIsAccepted": {replies: []sdktest.Reply{{Status: 304}}, request: func(r *delivery.Request) { r.Accept = []int{304} }, tries: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			far := w.NewRemote(t, replies(c.replies...))
			o := options(w)
			if c.change != nil {
				c.change(&o)
			}
			r := &delivery.Request{URL: far.URL + "/x", Body: delivery.Bytes("body"), Key: delivery.Key("a"), Header: http.Header{"X-A": {"b"}}}
			if c.request != nil {
				c.request(r)
			}
			_, err := delivery.New(o).Do(t.Context(), r)
			want := strings.ReplaceAll(c.fails, "HOST", strings.TrimPrefix(far.URL, "http://"))
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error()+"\n", want) {
				t.Errorf("error %v, want %q", err, want)
			}
			requests := far.Requests()
			if len(requests) != c.tries {
				t.Errorf("%d requests, want %d", len(requests), c.tries)
			}
			for _, got := range requests {
				if diff := cmp.Diff(requests[0], got); diff != "" || string(got.Body) != "body" || got.Header.Get("Idempotency-Key") != r.Key {
					t.Errorf("requests differ: %s", diff)
				}
			}
			if pauses := w.Clock.Pauses(); c.pauses != nil && !slices.Equal(pauses, c.pauses) {
				t.Errorf("%s: paused %v, want %v", c.reason, pauses, c.pauses)
			}
		})
	}
}

// TestFarEndThatWentAway has taken something already: failing would begin from the start, so it is waited for.
func TestFarEndThatWentAway(t *testing.T) {
	w := sdktest.New(t)
	far := w.NewRemote(t, replies(ok, sdktest.Reply{Status: 503}))
	client := delivery.New(options(w))
	r := &delivery.Request{URL: far.URL + "/x"}
	if _, err := client.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(t.Context(), r); err == nil || !strings.Contains(err.Error(), "given up after 6 attempts") {
		t.Errorf("error %v", err)
	}
}

func again(times int) func(*delivery.Answer) error {
	return func(*delivery.Answer) error {
		if times--; times < 0 {
			return nil
		}
		return delivery.TryAgain(errors.New("rate limited"), 5*time.Second)
	}
}

// TestRefusedThenFine finds no server at the address first.
func TestRefusedThenFine(t *testing.T) {
	w := sdktest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var server *httptest.Server
	var notes []string
	client := delivery.New(options(w, func(o *delivery.Options) {
		o.Notef = func(format string, args ...any) {
			notes = append(notes, fmt.Sprintf(format, args...))
			if len(notes) < 3 {
				return
			}
			again, err := net.Listen("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			if err := server.Listener.Close(); err != nil {
				t.Error(err)
			}
			server.Listener = again
			server.Start()
		}
	}))
	if _, err := client.Do(t.Context(), &delivery.Request{URL: "http://" + address}); err != nil {
		t.Error(err)
	}
	if server == nil {
		t.Fatalf("the server never came: %q", notes)
	}
	server.Close()
	if !strings.HasPrefix(notes[0], "Elsewhere at "+address+" cannot be reached: dial tcp") || !strings.HasSuffix(notes[0], "connection refused; trying again in 1s") {
		t.Errorf("notes %q", notes)
	}
}

// TestCredentialsStayHere lets the remote service repeat everything it was sent, and redirect to another host.
func TestCredentialsStayHere(t *testing.T) {
	w := sdktest.New(t)
	elsewhere := w.NewRemote(t, replies(ok))
	secrets := []string{"us3r-t0ken", "qu3ry-s3cret", "p4th-t0ken", "b4sic-p4ss", "h34der-k3y", "b0dy-s3cret", "bearer-t0ken"}
	for name, reply := range map[string]sdktest.Reply{
		"Repeats":   {Status: 400, Header: map[string]string{"Content-Type": "application/json"}},
		"Redirects": {Status: 302, Header: map[string]string{"Location": elsewhere.URL + "/?t=qu3ry-s3cret", "Content-Type": "text/plain"}},
		"Drops":     {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply {
				reply.Body = fmt.Sprintf(`{"url":%q,"headers":%q,"body":%q,"password":"gu3ssed","pass":"b4sic-p4ss","user":"us3r-t0ken"}`, r.URL, r.Header, r.Body)
				return reply
			})
			var notes bytes.Buffer
			client := delivery.New(options(w, func(o *delivery.Options) {
				o.Secrets = []string{"b0dy-s3cret"}
				o.Notef = func(format string, args ...any) { fmt.Fprintf(&notes, format, args...) }
			}))
			_, err := client.Do(t.Context(), &delivery.Request{
				URL:    strings.Replace(far.URL, "http://", "http://me:us3r-t0ken@", 1) + "/hooks/p4th-t0ken?key=qu3ry-s3cret",
				Body:   delivery.Bytes("routing b0dy-s3cret"),
				Header: http.Header{"Authorization": {"Basic bWU6YjRzaWMtcDRzcw=="}, "X-Key": {"h34der-k3y"}, "X-Other": {"Bearer bearer-t0ken"}},
			})
			if err == nil {
				t.Fatal("no error")
			}
			_, second := client.Do(t.Context(), &delivery.Request{URL: strings.Replace(far.URL, "http://", "http://us3r-t0ken@", 1)})
			if second == nil {
				t.Fatal("no error")
			}
			err = errors.Join(err, second)
			for _, secret := range append(secrets, "bWU6YjRzaWMtcDRzcw", "gu3ssed") {
				if strings.Contains(err.Error()+notes.String(), secret) {
					t.Errorf("%s is shown: %v", secret, err)
				}
			}
			if len(elsewhere.Requests()) != 0 {
				t.Errorf("another host got %+v", elsewhere.Requests())
			}
		})
	}
}

func TestCustomCA(t *testing.T) {
	w := sdktest.New(t)
	far := w.NewTLSRemote(t, replies(ok))
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: far.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	for name, c := range map[string]struct{ ca, url, fails string }{
		"Known":       {ca, far.URL, ""},
		"Unknown":     {"", far.URL, "certificate signed by unknown authority"},
		"PlainServer": {"", strings.Replace(w.NewRemote(t, replies(ok)).URL, "http://", "https://", 1), "server gave HTTP response to HTTPS client"},
	} {
		t.Run(name, func(t *testing.T) {
			transport, err := delivery.NewTransport(c.ca, none)
			if err != nil {
				t.Fatal(err)
			}
			defer transport.CloseIdleConnections()
			_, err = delivery.New(options(w, func(o *delivery.Options) { o.Transport = transport })).Do(t.Context(), &delivery.Request{URL: c.url})
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			if err != nil && strings.Contains(err.Error(), "attempts") {
				t.Errorf("a bad certificate is tried again: %v", err)
			}
		})
	}
	if _, err := delivery.NewTransport("/does/not/exist", none); err == nil || !strings.Contains(err.Error(), "NODE_EXTRA_CA_CERTS") {
		t.Errorf("error %v", err)
	}
}

func TestProxy(t *testing.T) {
	w := sdktest.New(t)
	proxy := w.NewRemote(t, replies(ok))
	direct := w.NewRemote(t, replies(ok))
	for name, c := range map[string]struct {
		env     map[string]string
		url     string
		proxied bool
	}{
		"Through":   {map[string]string{"HTTP_PROXY": proxy.URL}, "http://far.example/x", true},
		"LowerCase": {map[string]string{"http_proxy": strings.TrimPrefix(proxy.URL, "http://")}, "http://far.example/x", true},
		"NotForIt":  {map[string]string{"HTTP_PROXY": proxy.URL, "NO_PROXY": "127.0.0.1"}, direct.URL, false},
		"OnlyTLS":   {map[string]string{"HTTPS_PROXY": proxy.URL}, direct.URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			transport, err := delivery.NewTransport("", func(name string) string { return c.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			defer transport.CloseIdleConnections()
			before := len(proxy.Requests())
			client := delivery.New(options(w, func(o *delivery.Options) { o.Transport, o.Attempts = transport, 1 }))
			if _, err := client.Do(t.Context(), &delivery.Request{URL: c.url}); err != nil {
				t.Fatal(err)
			}
			if got := len(proxy.Requests()) > before; got != c.proxied {
				t.Errorf("through the proxy: %t, want %t", got, c.proxied)
			}
		})
	}
	_, err := delivery.NewTransport("", func(name string) string { return map[string]string{"HTTPS_PROXY": "ftp://u:s3cr3t@p"}[name] })
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("error %v", err)
	}
}

// TestSignature is checked by the reference library of Standard Webhooks.
func TestSignature(t *testing.T) {
	const current, old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G", "an-older-secret-of-30-characters"
	signer, err := delivery.NewSigner(current + " " + old)
	if err != nil {
		t.Fatal(err)
	}
	w := sdktest.New(t)
	w.Clock.Set(time.Now())
	far := w.NewRemote(t, replies(sdktest.Reply{Status: 503}, ok))
	body := bytes.Repeat([]byte(`{"a":1}`), 1000)
	_, err = delivery.New(options(w)).Do(t.Context(), &delivery.Request{URL: far.URL, Body: delivery.Pieces{body[:10], body[10:]}, Key: delivery.Key("k"), Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	first, second := far.Requests()[0], far.Requests()[1]
	if first.Header.Get("webhook-id") != second.Header.Get("webhook-id") || first.Header.Get("webhook-timestamp") == second.Header.Get("webhook-timestamp") {
		t.Errorf("id must stay, time must go on: %v, %v", first.Header, second.Header)
	}
	currentWebhook, err := standardwebhooks.NewWebhook(current)
	if err != nil {
		t.Fatal(err)
	}
	oldWebhook, err := standardwebhooks.NewWebhookRaw([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range far.Requests() {
		for _, webhook := range []*standardwebhooks.Webhook{currentWebhook, oldWebhook} {
			if err := webhook.Verify(r.Body, r.Header); err != nil {
				t.Error(err)
			}
			if err := webhook.Verify(append(r.Body, ' '), r.Header); err == nil {
				t.Error("another body passes")
			}
		}
	}
	for secret, want := range map[string]string{"": "no signing secret", "whsec_%": "not base64", "short-s3cr3t": "too short", "whsec_c2hvcnQ=": "too short"} {
		if _, err := delivery.NewSigner(secret); err == nil || !strings.Contains(err.Error(), want) || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: error %v", secret, err)
		}
	}
}

func TestNeverSent(t *testing.T) {
	for name, c := range map[string]struct {
		request *delivery.Request
		want    string
	}{
		"Scheme":      {&delivery.Request{URL: "ftp://s3cr3t@example.com"}, "is not an http:// or https:// address"},
		"NoHost":      {&delivery.Request{URL: "https:///s3cr3t"}, "is not an http:// or https:// address"},
		"HeaderValue": {&delivery.Request{URL: "http://example.com", Header: http.Header{"X-Key": {"s3cr3t\n"}}}, "the header X-Key has a value"},
		"HeaderName":  {&delivery.Request{URL: "http://example.com", Header: http.Header{"X s3cr3t": {"v"}}}, "a header has a name"},
		"NoKey":       {&delivery.Request{URL: "http://example.com", Signer: &delivery.Signer{}}, "needs a key"},
		"BrokenBody":  {&delivery.Request{URL: "http://127.0.0.1:9", Body: brokenBody{}}, "read what is to be sent: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			_, err := delivery.New(options(w)).Do(t.Context(), c.request)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") || len(w.Clock.Pauses()) != 0 {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

type brokenBody struct{}

func (brokenBody) Size() int64                  { return 1 }
func (brokenBody) Open() (io.ReadCloser, error) { return nil, errors.New("boom") }

func TestStoppedWhilePausing(t *testing.T) {
	w := sdktest.New(t)
	far := w.NewRemote(t, replies(sdktest.Reply{Status: 503}))
	ctx, cancel := context.WithCancelCause(t.Context())
	client := delivery.New(options(w, func(o *delivery.Options) {
		o.Notef = func(string, ...any) { cancel(errors.New("pod is deleted")) }
	}))
	_, err := client.Do(ctx, &delivery.Request{URL: far.URL})
	if err == nil || !strings.Contains(err.Error(), "pod is deleted") || !strings.Contains(err.Error(), "answers 503") || len(far.Requests()) != 1 {
		t.Errorf("error %v after %d requests", err, len(far.Requests()))
	}
}

func TestAnswerIsBounded(t *testing.T) {
	w := sdktest.New(t)
	far := w.NewRemote(t, replies(sdktest.Reply{Body: `["` + strings.Repeat("x", 5000) + `"]`}))
	answer, err := delivery.New(options(w, func(o *delivery.Options) { o.MaxAnswer = 100 })).Do(t.Context(), &delivery.Request{URL: far.URL, Method: http.MethodGet})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := answer.JSON(&v); !answer.Cut || len(answer.Body) != 100 || err == nil {
		t.Errorf("%d bytes, cut %t, %v", len(answer.Body), answer.Cut, err)
	}
}

func TestKey(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{nil, {""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}} {
		key := delivery.Key(parts...)
		if seen[key] || key != delivery.Key(parts...) || len(key) != 36 || strings.Contains(key, ".") {
			t.Errorf("%q: key %s", parts, key)
		}
		seen[key] = true
	}
}
