// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fake is a server that gives answers of the documented REST APIs: a route per path, pages by the Link header.
type fake struct {
	*httptest.Server
	t        *testing.T
	requests []*http.Request
	// first are answers to the first requests, before the routes.
	first  []http.HandlerFunc
	routes map[string]http.HandlerFunc
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, routes: map[string]http.HandlerFunc{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests = append(f.requests, r)
		w.Header().Set("Content-Type", "application/json")
		if len(f.first) > 0 {
			answer := f.first[0]
			f.first = f.first[1:]
			answer(w, r)
			return
		}
		route, ok := f.routes[r.URL.EscapedPath()]
		if !ok {
			status(http.StatusNotFound, `{"message":"Not Found"}`)(w, r)
			return
		}
		route(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// status answers with a code, a body and headers in pairs.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// paged serves items in pages of two, with numbered pages and their Link header.
func (f *fake) paged(items ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := 1
		if p := r.URL.Query().Get("page"); p != "" {
			page, _ = strconv.Atoi(p)
		}
		from, to := min((page-1)*2, len(items)), min(page*2, len(items))
		if to < len(items) {
			q := r.URL.Query()
			q.Set("page", strconv.Itoa(page+1))
			next := f.URL + r.URL.Path + "?" + q.Encode()
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next", <%s>; rel="last"`, next, next))
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		}
		f.write(w, items[from:to])
	}
}

// keyset serves items in pages of two, after the ID in the address, as GitLab does it.
func (f *fake) keyset(items ...map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("pagination") != "keyset" || q.Get("order_by") != "id" {
			status(http.StatusBadRequest, `{"error":"keyset pagination only"}`)(w, r)
			return
		}
		after, _ := strconv.Atoi(q.Get("id_after"))
		var page []map[string]any
		for _, i := range items {
			if i["id"].(int) > after && len(page) < 2 {
				page = append(page, i)
			}
		}
		if n := len(page); n == 2 {
			q.Set("id_after", strconv.Itoa(page[n-1]["id"].(int)))
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, f.URL, r.URL.EscapedPath(), q.Encode()))
		}
		f.write(w, page)
	}
}

func (f *fake) write(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

// scan is a run with a clock that sleeps without taking time.
type scan struct {
	dir    string
	err    error
	stderr string
	slept  []time.Duration
}

func run(t *testing.T, env map[string]string, args ...string) *scan {
	t.Helper()
	s := &scan{dir: t.TempDir()}
	var stderr bytes.Buffer
	clock := now
	s.err = Run(t.Context(), Process{
		Args: append([]string{"--file-output", s.dir}, args...), Env: func(n string) string { return env[n] }, Stderr: &stderr,
		Transport: http.DefaultTransport, Random: func() float64 { return 1 },
		Clock: retry.Clock{Now: func() time.Time { return clock }, Sleep: func(ctx context.Context, d time.Duration) error {
			s.slept = append(s.slept, d)
			clock = clock.Add(d)
			return ctx.Err()
		}},
	})
	s.stderr = stderr.String()
	return s
}

// findings reads the result, and nil if there is none. No other file may be left.
func (s *scan) findings(t *testing.T) []finding {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		return nil
	}
	if len(entries) > 1 || entries[0].Name() != resultFile {
		t.Fatalf("files left: %v", entries)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, resultFile))
	if err != nil {
		t.Fatal(err)
	}
	found := []finding{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&found); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return found
}

// names of the repositories found, in order.
func (s *scan) names(t *testing.T) string {
	t.Helper()
	var all []string
	for _, f := range s.findings(t) {
		all = append(all, f.Attributes.FullName)
	}
	return strings.Join(all, " ")
}
