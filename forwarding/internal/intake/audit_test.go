// SPDX-License-Identifier: Apache-2.0

package intake_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// counted remembers what an intake tells.
type counted struct {
	nobody
	enqueued, passedOver, malformed int
}

func (c *counted) Enqueued(_, _ string, n int) { c.enqueued += n }
func (c *counted) Rejected(code string) {
	switch code {
	case "PassedOver":
		c.passedOver++
	case "Malformed":
		c.malformed++
	}
}

func startAudit(t *testing.T, tenantMax int64) (*queue.Queue, *intake.Audit, *counted) {
	t.Helper()
	q, err := queue.Open(queue.Options{Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: tenantMax, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	told := &counted{}
	return q, &intake.Audit{
		Options: intake.Options{Queue: q, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observe: told}, Callers: intake.Callers{Tenant: "cluster"},
	}, told
}

func post(t *testing.T, a *intake.Audit, body, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func events(t *testing.T) string {
	t.Helper()
	body, err := os.ReadFile("../audit/testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAuditEventsAreOnDiskBeforeTheAnswer(t *testing.T) {
	q, a, told := startAudit(t, 1<<20)
	for range 2 { // the API server tries again where the answer was lost
		if w := post(t, a, events(t), ""); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if told.enqueued != 10 || told.passedOver != 4 || q.Last("cluster") != 10 {
		t.Errorf("%+v, %d", told, q.Last("cluster"))
	}
	r, err := q.Reader("cluster")
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.Next(0, 10, 1<<20)
	if err != nil || records[0].ID != "cddeb3fb-dc9b-41aa-a7a6-fc0e517a1b86-0" || records[5].ID != records[0].ID || records[0].Metadata["producer"] != "kube-apiserver" {
		t.Errorf("%+v, %v", records, err)
	}
}

func TestAuditByNamespace(t *testing.T) {
	q, a, _ := startAudit(t, 1<<20)
	a.Options.ByNamespace = true
	if w := post(t, a, events(t), ""); w.Code != http.StatusOK || q.Last("default") != 5 || q.Last("cluster") != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAuditAtTheQuota(t *testing.T) {
	q, a, _ := startAudit(t, 1200) // room for one record
	for range 2 {                  // what was reserved is free again
		w := post(t, a, events(t), "")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || q.Last("cluster") != 0 {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if err := q.Reserve("cluster", 1200); err != nil {
		t.Error(err)
	}
}

func TestAuditRefuses(t *testing.T) {
	_, a, told := startAudit(t, 1<<20)
	if w := post(t, a, "{}", ""); w.Code != http.StatusBadRequest || told.malformed != 1 || !strings.Contains(w.Body.String(), "EventList of audit.k8s.io/v1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	tokens, err := intake.OpenTokens(trusttest.Write(t, t.TempDir(), "tokens", []byte("secret,apiserver,audit\n")), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.Callers.Tokens = tokens
	for token, code := range map[string]int{"": http.StatusUnauthorized, "guess": http.StatusUnauthorized, "secret": http.StatusOK} {
		if w := post(t, a, events(t), token); w.Code != code {
			t.Errorf("%q: %d %s", token, w.Code, w.Body)
		}
	}
	if a.Options.Queue.Last("audit") != 5 {
		t.Error("the records are the token's tenant's")
	}
}
