// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/podkit/retry"
)

// TestPathsLeadNowhereElse: a name that another client has chosen is requested unchanged, or not at all.
func TestPathsLeadNowhereElse(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}")) // the client fails without it
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, "test", Policy(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) error {
		asked = nil
		_, err := c.Do(t.Context(), Path{"apis", "g.example.com", "v1", "things"}.Join(name), Request{})
		return err
	}
	for _, name := range []string{
		"", ".", "..", "...", "../secrets/x", "a/b", "/", "a/../../b", "%2e%2e", "%2F", "a?watch=true", "a#b", `a\b`, "a b", "a\nb", "a\x00b", "a;b", "a&b", "ä", "\u2215", "\uff0e\uff0e",
	} {
		if err := get(name); !errors.Is(err, ErrPath) || len(asked) != 0 {
			t.Errorf("%q: %v, asked for %q", name, err, asked)
		}
	}
	for _, name := range []string{"a", "a.b-c", "system:node", "1", strings.Repeat("a", 253)} {
		if err := get(name); err != nil || len(asked) != 1 || asked[0] != "/apis/g.example.com/v1/things/"+name {
			t.Errorf("%q: %v, asked for %q", name, err, asked)
		}
	}
	if _, err := c.Do(t.Context(), nil, Request{}); !errors.Is(err, ErrPath) {
		t.Errorf("no path: %v", err)
	}
}

// TestWaiting: which requests are retried, how often, and on which clock.
func TestWaiting(t *testing.T) {
	refusal := func(code int, reason string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","status":"Failure","reason":%q,"message":"own words","code":%d}`, reason, code)
		}
	}
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		again  func(error, int) bool
		asked  int
		away   bool
		is     func(error) bool
		words  string
	}{
		"Away":      {answer: refusal(503, ""), asked: 5, away: true, words: "the API server cannot be used: given up after 5 attempts: the API server answers 503 Service Unavailable: own words"},
		"Proxy":     {answer: func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway); _, _ = w.Write([]byte("<html>")) }, asked: 5, away: true, words: "given up after 5"},
		"Overload":  {answer: refusal(429, "TooManyRequests"), asked: 5, away: true, is: apierrors.IsTooManyRequests, words: "own words"},
		"Breaks":    {answer: func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, asked: 5, away: true, words: "EOF"},
		"NotFound":  {answer: refusal(404, "NotFound"), asked: 1, is: apierrors.IsNotFound, words: "own words"},
		"Exists":    {answer: refusal(409, "AlreadyExists"), asked: 1, is: apierrors.IsAlreadyExists, words: "own words"},
		"Forbidden": {answer: refusal(403, "Forbidden"), asked: 1, is: apierrors.IsForbidden, words: "own words"},
		"Never":     {answer: refusal(501, ""), asked: 1, words: "own words"},
		"Again":     {answer: refusal(403, "Forbidden"), again: func(_ error, n int) bool { return n < 3 }, asked: 3, is: apierrors.IsForbidden, words: "own words"},
		"AskedLong": {answer: func(w http.ResponseWriter) { w.Header().Set("Retry-After", "60"); refusal(503, "")(w) }, asked: 1, away: true, words: "own words"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; tc.answer(w) }))
			defer server.Close()
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
			now := time.Unix(0, 0)
			policy := Policy(10 * time.Second)
			policy.Random = func() float64 { return 1 }
			policy.Clock = retry.Clock{Now: func() time.Time { return now }, Sleep: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }}
			c, err := New(&rest.Config{Host: server.URL}, "test", policy)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Do(t.Context(), Path{"apis"}, Request{Again: tc.again})
			if err == nil || errors.Is(err, ErrAway) != tc.away || tc.is != nil && !tc.is(err) || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("got %v", err)
			}
			if asked != tc.asked {
				t.Errorf("asked %d times, want %d", asked, tc.asked)
			}
		})
	}
}
