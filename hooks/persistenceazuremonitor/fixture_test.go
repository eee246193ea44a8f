// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	Env      map[string]string `json:"env"`
	Now      time.Time         `json:"now"`
	Scan     json.RawMessage   `json:"scan"`
	Findings json.RawMessage   `json:"findings"`
	Expected struct {
		Error    any       `json:"error"`
		Requests []request `json:"requests"`
	} `json:"expected"`
}

type request struct {
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	BodyText string            `json:"bodyText"`
}

// network takes every request and keeps it.
type network struct{ requests []request }

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for _, name := range []string{"content-type", "Authorization", "Log-Type", "x-ms-date"} {
		headers[name] = r.Header.Get(name)
	}
	n.requests = append(n.requests, request{r.Method, r.URL.String(), headers, string(body)})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, r.Body.Close()
}

// TestFixturePersistenceAzureMonitor holds every byte that is sent, since bytes are what is signed.
func TestFixturePersistenceAzureMonitor(t *testing.T) {
	sdktest.Cases(t, "persistence-azure-monitor", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Scan, w.Objects["/findings.json"] = string(c.Scan), c.Findings
		w.Clock.Set(c.Now)
		far := &network{}
		w.Transport = far
		got := w.Run(t, Hook(), c.Env)
		wantFailure := c.Expected.Error != nil && c.Expected.Error != false
		if failed := got.ExitCode != 0; failed != wantFailure {
			t.Fatalf("failed: %t, want %t: %s", failed, wantFailure, got.Stderr)
		}
		for _, secret := range []string{c.Env["MONITOR_SHARED_KEY"], "SharedKey"} {
			if secret != "" && strings.Contains(got.Stderr, secret) {
				t.Errorf("stderr shows %s: %s", secret, got.Stderr)
			}
		}
		if wantFailure && len(c.Expected.Requests) == 0 {
			return
		}
		if diff := cmp.Diff(c.Expected.Requests, far.requests); diff != "" && len(c.Expected.Requests)+len(far.requests) > 0 {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
