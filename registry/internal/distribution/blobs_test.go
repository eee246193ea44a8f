// SPDX-License-Identifier: Apache-2.0

package distribution_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

func TestBlobsAreStreams(t *testing.T) {
	r := registrytest.New(t)
	digest := r.Blob("shop/app", []byte("hello"))
	client := connect(t, r)
	body, size, err := client.Blob(t.Context(), "shop/app", digest)
	if err != nil || size != 5 {
		t.Fatalf("want 5 bytes, got %d, %v", size, err)
	}
	content, err := io.ReadAll(body)
	if err != nil || string(content) != "hello" || body.Close() != nil {
		t.Errorf("got %q, %v", content, err)
	}
	missing := registrytest.Digest([]byte("other"))
	if _, _, err := client.Blob(t.Context(), "shop/app", missing); distribution.ReasonOf(err) != distribution.NotFound {
		t.Errorf("want NotFound, got %v", err)
	}
	for digest, want := range map[string]bool{digest: true, missing: false} {
		if has, err := client.HasBlob(t.Context(), "shop/app", digest); has != want || err != nil {
			t.Errorf("want %v, got %v, %v", want, has, err)
		}
	}
}

func TestSlowBlobIsAborted(t *testing.T) {
	r := registrytest.New(t)
	digest := r.Blob("shop/app", []byte("hello"))
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		if !strings.Contains(request.URL.Path, "/blobs/") {
			return false
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-request.Context().Done()
		return true
	}
	client := connect(t, r, func(o *distribution.Options) {
		o.Pace = distribution.Pace{FirstByte: time.Minute, Window: 20 * time.Millisecond, MinBytes: 1000}
	})
	body, _, err := client.Blob(t.Context(), "shop/app", digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body); err == nil || !strings.Contains(err.Error(), "more slowly") {
		t.Errorf("want the reason, got %v", err)
	}
	body.Close()
}
