// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/results"
)

// operator answers like the operator, and serves a file like storage.
func operator(t *testing.T, answer http.HandlerFunc) (*Client, *[]byte) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(Options{URL: server.URL + "/", TokenFile: file, Now: time.Now, Roots: func(context.Context) ([]byte, error) { return roots, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c, &roots
}

func TestFindAndRead(t *testing.T) {
	const content = `[{"name":"a"}]`
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}))
	defer storage.Close()
	c, _ := operator(t, func(w http.ResponseWriter, r *http.Request) {
		var request results.URLRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Method != http.MethodPost || r.URL.Path != results.URLPath ||
			r.Header.Get("Authorization") != "Bearer first" || request != (results.URLRequest{Namespace: "team-a", Name: "nightly", UID: "u", File: "findings"}) {
			t.Errorf("got %s %s %v %+v: %v", r.Method, r.URL, r.Header, request, err)
		}
		if err := json.NewEncoder(w).Encode(results.URLAnswer{URL: storage.URL + "/bucket/scan-u/findings.json?X-Amz-Signature=s", ETag: "e1", Size: int64(len(content))}); err != nil {
			t.Error(err)
		}
	})
	at, err := c.Find(t.Context(), Scan{"team-a", "nightly", "u"}, results.FileFindings)
	if err != nil || at.Size != int64(len(content)) || KeyOf(at) != "bucket/scan-u/findings.json" {
		t.Fatalf("got %+v, %v", at, err)
	}
	for _, offset := range []int64{0, 5} {
		body, err := c.Read(t.Context(), at, offset)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != content[offset:] {
			t.Errorf("from %d: %q, %v", offset, got, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	at.ETag = "e0"
	if _, err := c.Read(t.Context(), at, 5); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	status, body := 0, ""
	c, roots := operator(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	for name, tt := range map[string]struct {
		status     int
		body, want string
	}{
		"Missing": {404, `{"reason":"ResultsMissing","message":"no findings"}`, "404 ResultsMissing: no findings"},
		"Other":   {404, "404 page not found", "resultsEndpoint.enabled"},
		"Busy":    {503, `{"reason":"StorageUnavailable","message":"later"}`, "StorageUnavailable"},
	} {
		status, body = tt.status, tt.body
		_, err := c.Find(t.Context(), Scan{}, results.FileFindings)
		if r, ok := errors.AsType[*RefusedError](err); !ok || r.Status != tt.status || r.RetryAfter != 7*time.Second || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another authority is read at once, and a wrong one is an error that says so.
	*roots = []byte("no certificate")
	c.read = time.Time{}
	if _, err := c.Find(t.Context(), Scan{}, results.FileFindings); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(c.options.TokenFile); err != nil {
		t.Fatal(err)
	}
	c.read = time.Now()
	if _, err := c.Find(t.Context(), Scan{}, results.FileFindings); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"", "http://operator", "https://", "https://u:p@host"} {
		if _, err := New(Options{URL: text}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
