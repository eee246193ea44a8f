// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/container"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/scanclient"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const (
	secret   = "X-Amz-Signature=c0ffee"
	scanPath = "/apis/execution.securecodebox.io/v1/namespaces/team-a/scans/nightly"
)

// world is an object store and an API server with one Scan, which can be made to misbehave.
type world struct {
	mu sync.Mutex

	raw      []byte
	findings []byte
	// categories are the counts that were stored beside the findings.
	categories []byte
	stored     bool
	// exceptions are those that hold for the Scan; nil for none.
	exceptions []byte
	scan       map[string]any

	requests []string // method and path, in order
	puts     []http.Header
	lengths  []int64
	patches  []string

	// faults is asked before each request; true means that it has answered.
	faults func(w http.ResponseWriter, r *http.Request, n int) bool
	// cut is how many bytes of an answer of the store are sent before it breaks, 0 for all.
	cut int

	server *httptest.Server
	log    bytes.Buffer
	time   time.Time
	pauses int
}

func newWorld(t testing.TB, raw, resultType string) *world {
	t.Helper()
	w := &world{
		raw:  []byte(raw),
		time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
		scan: map[string]any{
			"apiVersion": "execution.securecodebox.io/v1", "kind": "Scan",
			"metadata": map[string]any{"name": "nightly", "namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z"},
			"spec":     map[string]any{"scanType": "nmap"},
			"status":   map[string]any{"state": "Parsing", "rawResultType": resultType},
		},
	}
	w.server = httptest.NewServer(w)
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), 0)
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	n := 0
	for _, request := range w.requests {
		if request == r.Method+" "+r.URL.Path {
			n++
		}
	}
	faults := w.faults
	w.mu.Unlock()
	if faults != nil && faults(rw, r, n) {
		return
	}
	switch {
	case r.URL.Path == scanPath && r.Method == http.MethodGet:
		w.answerScan(rw)
	case r.URL.Path == scanPath+"/status" && r.Method == http.MethodPatch:
		w.patch(rw, r)
	case strings.HasPrefix(r.URL.Path, "/apis/"):
		apiError(rw, http.StatusNotFound, "not found")
	case r.URL.RawQuery != secret:
		s3Error(rw, http.StatusForbidden, "AccessDenied", "no signature")
	case r.URL.Path == "/bucket/raw" && r.Method == http.MethodGet:
		w.get(rw, r)
	case r.URL.Path == "/bucket/exceptions" && r.Method == http.MethodGet && w.exceptions != nil:
		_, _ = rw.Write(w.exceptions)
	case r.URL.Path == "/bucket/findings.json" && r.Method == http.MethodPut:
		w.put(rw, r)
	case r.URL.Path == "/bucket/categories" && r.Method == http.MethodPut:
		w.putCategories(rw, r)
	default:
		s3Error(rw, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
}

func apiError(rw http.ResponseWriter, code int, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	fmt.Fprintf(rw, `{"kind":"Status","status":"Failure","code":%d,"message":%q}`, code, message)
}

func s3Error(rw http.ResponseWriter, status int, code, message string) {
	rw.WriteHeader(status)
	fmt.Fprintf(rw, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}

func (w *world) answerScan(rw http.ResponseWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(w.scan)
}

func (w *world) patch(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var patch map[string]any
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		apiError(rw, http.StatusUnsupportedMediaType, fmt.Sprint("bad patch: ", err))
		return
	}
	w.mu.Lock()
	w.patches = append(w.patches, string(body))
	// The status subresource takes nothing but the status.
	w.scan["status"] = merge(w.scan["status"], patch["status"])
	w.mu.Unlock()
	w.answerScan(rw)
}

// merge is RFC 7386.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
		} else {
			t[k] = merge(t[k], v)
		}
	}
	return t
}

func (w *world) get(rw http.ResponseWriter, r *http.Request) {
	from := 0
	rw.Header().Set("ETag", `"raw-1"`)
	if rng, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		if r.Header.Get("If-Match") != `"raw-1"` {
			rw.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		from, _ = strconv.Atoi(strings.TrimSuffix(rng, "-"))
		rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(w.raw)-1, len(w.raw)))
	}
	rest := w.raw[from:]
	rw.Header().Set("Content-Length", strconv.Itoa(len(rest)))
	if from > 0 {
		rw.WriteHeader(http.StatusPartialContent)
	}
	if w.cut > 0 && len(rest) > w.cut {
		_, _ = rw.Write(rest[:w.cut])
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = rw.Write(rest)
}

func (w *world) put(rw http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.TransferEncoding != nil {
		s3Error(rw, http.StatusLengthRequired, "MissingContentLength", "You must provide the Content-Length HTTP header.")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings, w.stored = body, true
	w.puts = append(w.puts, r.Header.Clone())
	w.lengths = append(w.lengths, r.ContentLength)
}

func (w *world) putCategories(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.categories = body
}

// run runs the container mode against the world, with a clock that never really sleeps.
func (w *world) run(t testing.TB, change func(*container.Config)) error {
	t.Helper()
	clock := retry.Clock{
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.time },
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.time = w.time.Add(d)
			w.pauses++
			return ctx.Err()
		},
	}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	store, err := transfer.New(transfer.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SCAN_NAME": "nightly", "NAMESPACE": "team-a"}
	arguments, err := container.ParseArguments([]string{
		w.server.URL + "/bucket/raw?" + secret, w.server.URL + "/bucket/findings.json?" + secret,
	}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	policy := kubeapi.Policy(kubeapi.DefaultPatience)
	policy.Clock = clock
	api, err := kubeapi.New(&rest.Config{Host: w.server.URL}, "test", policy)
	if err != nil {
		t.Fatal(err)
	}
	config := container.Config{
		Arguments: arguments, Lookup: parsers.For, Env: func(string) string { return "" }, Client: scanclient.New(api, arguments.Scan), Store: store,
		Limits: sdk.DefaultLimits(), BufferLimit: container.DefaultBufferLimit, Clock: clock, Log: log,
	}
	if change != nil {
		change(&config)
	}
	err = container.Run(t.Context(), config)
	for _, text := range []string{w.log.String(), fmt.Sprint(err)} {
		if strings.Contains(text, "Signature") || strings.Contains(text, "c0ffee") {
			t.Errorf("the query of a URL is shown: %s", text)
		}
	}
	return err
}

// status digs in the Scan's status.
func (w *world) status(path ...string) any {
	v := w.scan["status"]
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}
