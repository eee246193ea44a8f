// SPDX-License-Identifier: Apache-2.0

package s3fault

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProxy(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Seen-Host", r.Host)
		w.Header().Set("Seen-Query", r.URL.RawQuery)
		if _, err := w.Write(b); err != nil {
			t.Error(err)
		}
	}))
	defer store.Close()
	p, err := Start(strings.TrimPrefix(store.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	put := func() (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.Endpoint()+"/b/k?X-Amz-Signature=abc", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b), resp.Header
	}
	code, body, h := put()
	got := []any{code, body, h.Get("Seen-Host"), h.Get("Seen-Query")}
	if diff := cmp.Diff([]any{200, "hello", p.Endpoint(), "X-Amz-Signature=abc"}, got); diff != "" {
		t.Errorf("while off: -want +got:\n%s", diff)
	}
	p.Fail(true)
	if code, body, _ = put(); code != http.StatusServiceUnavailable || !strings.Contains(body, "ServiceUnavailable") {
		t.Errorf("while on: got %d %q, want a 503 with an S3 error", code, body)
	}
	p.Fail(false)
	if code, _, _ = put(); code != http.StatusOK {
		t.Errorf("after: got %d, want 200", code)
	}
	if diff := cmp.Diff([]int64{1, 2}, []int64{p.Refused(), p.Passed()}); diff != "" {
		t.Errorf("counts: -want +got:\n%s", diff)
	}
}

func TestStartRefusesBadEndpoint(t *testing.T) {
	if _, err := Start("not a host:port"); err == nil {
		t.Error("no error for a bad endpoint")
	}
}
