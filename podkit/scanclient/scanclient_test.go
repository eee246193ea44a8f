// SPDX-License-Identifier: Apache-2.0

package scanclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const scan = `{"metadata":{"name":"nightly"}}`

func newClient(t *testing.T, handler http.HandlerFunc) *scanclient.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	now := time.Unix(0, 0)
	policy := kubeapi.Policy(time.Minute)
	policy.Clock = retry.Clock{Now: func() time.Time { return now }, Sleep: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }}
	api, err := kubeapi.New(&rest.Config{Host: server.URL}, "test", policy)
	if err != nil {
		t.Fatal(err)
	}
	return scanclient.New(api, process.Scan{Namespace: "team-a", Name: "nightly"})
}

// TestTransientErrorsAreWaitedOut: both calls wait for the same.
func TestTransientErrorsAreWaitedOut(t *testing.T) {
	for name, tc := range map[string]struct {
		code, times, asked int
		fails              string
	}{
		"Fine":           {200, 0, 1, ""},
		"Away":           {503, 4, 5, ""},
		"Conflict":       {409, 4, 5, ""},
		"NewRole":        {403, 4, 5, ""},
		"NewToken":       {401, 4, 5, ""},
		"NoRole":         {403, 99, 5, "RoleBinding of the pod's ServiceAccount in namespace team-a"},
		"Deleted":        {404, 99, 1, "404 Not Found: no (it was deleted, or the custom resource definitions are not installed)"},
		"Invalid":        {422, 99, 1, "422 Unprocessable Entity: no"},
		"AwayForMinutes": {503, 99, 0, "the API server cannot be used: given up after"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
				if len(asked) <= tc.times {
					w.WriteHeader(tc.code)
					fmt.Fprintf(w, `{"kind":"Status","status":"Failure","code":%d,"message":"no","reason":%q}`, tc.code, reasons[tc.code])
					return
				}
				fmt.Fprint(w, scan)
			})
			const path = "/apis/execution.securecodebox.io/v1/namespaces/team-a/scans/nightly"
			for want, call := range map[string]func() ([]byte, error){
				"GET " + path + " ": func() ([]byte, error) { return c.Get(t.Context()) },
				"PATCH " + path + "/status application/merge-patch+json": func() ([]byte, error) { return c.PatchStatus(t.Context(), []byte(`{}`)) },
			} {
				asked = nil
				got, err := call()
				if (err != nil) != (tc.fails != "") || err != nil && (!strings.Contains(err.Error(), tc.fails) || !strings.Contains(err.Error(), "Scan team-a/nightly")) {
					t.Errorf("%s: %v, want %q", want, err, tc.fails)
				}
				if err == nil && string(got) != scan {
					t.Errorf("%s: %s", want, got)
				}
				if tc.asked > 0 && !slices.Equal(asked, slices.Repeat([]string{want}, tc.asked)) {
					t.Errorf("asked for %q", asked)
				}
			}
		})
	}
}

var reasons = map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid"}

func TestHandover(t *testing.T) {
	if scanclient.FromEnvironment(func(string) string { return "" }) != nil {
		t.Fatal("a Scan of nothing")
	}
	stored := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		stored = string(body)
	}))
	defer server.Close()
	variables, err := handover.Split([]byte(scan))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{handover.EnvCategoriesURL: server.URL + "/categories"}
	for _, v := range variables {
		env[v.Name] = v.Value
	}
	h := scanclient.FromEnvironment(func(name string) string { return env[name] })
	if h == nil || string(h.Scan) != scan {
		t.Fatalf("got %+v", h)
	}
	store, err := transfer.New()
	if err != nil {
		t.Fatal(err)
	}
	many := map[string]int64{}
	for i := range 200 {
		many[fmt.Sprintf("a category with a long name %03d", i)] = 1
	}
	for name, categories := range map[string]map[string]int64{"Few": {"a": 200}, "Many": many} {
		stored = ""
		o := &outcome.Outcome{Findings: &outcome.Findings{Stored: outcome.StoredBytes(nil), Count: 200, Categories: categories}}
		words, err := h.Words(t.Context(), store, o)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := outcome.Decode(words)
		if err != nil {
			t.Fatal(err)
		}
		if (stored != "") != (name == "Many") || (decoded.Findings.CategoriesStored != nil) != (name == "Many") {
			t.Errorf("%s: stored %.40q, decoded %+v", name, stored, decoded.Findings)
		}
	}
}
