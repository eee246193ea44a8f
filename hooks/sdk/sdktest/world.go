// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Signature is in every URL that a hook gets. It must never appear in the output of a hook.
const Signature = "X-Amz-Signature=s3cr3t"

// ExceptionsPath is where the exceptions are among the objects that hold for a Scan that is handed over.
const ExceptionsPath = "/exceptions.json"

// Operation is one request of a hook to the API server or to the store.
type Operation struct {
	Method      string
	Path        string
	ContentType string
	// Length is the announced length of the body, -1 where none was announced.
	Length int64
	Body   []byte
}

// World holds one Scan and what belongs to it. Set the fields before the hook runs.
type World struct {
	// Scan is the Scan of the API server.
	Scan string
	// Objects are what the store holds, by path.
	Objects map[string][]byte
	// Faults are called first: a status other than 0 is the response.
	Faults func(method, path string) int
	// Transport reaches third parties. Nil connects for real.
	Transport http.RoundTripper
	// Clock is the hook's. Its pauses take no time.
	Clock *Clock
	// HandOver has the operator hand the Scan over in the environment. Then there is no API server.
	HandOver bool
	// Patience is how long a store or API server that is away is waited for. 0 means hardly.
	Patience time.Duration

	api, store *httptest.Server
	mu         sync.Mutex
	operations []Operation
}

// New starts a world with a Scan ns/nmap-x that has no findings yet. It ends with the test.
func New(t testing.TB) *World {
	w := &World{
		Scan: `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"nmap-x","namespace":"ns"},` +
			`"spec":{"scanType":"nmap","parameters":["localhost"]},"status":{"state":"HookProcessing"}}`,
		Objects: map[string][]byte{"/raw": []byte("RAW"), "/findings.json": []byte("[]")},
		Faults:  func(string, string) int { return 0 },
		Clock:   NewClock(),
	}
	w.api = httptest.NewServer(http.HandlerFunc(w.serveAPI))
	w.store = httptest.NewServer(http.HandlerFunc(w.serveStore))
	t.Cleanup(func() { w.api.Close(); w.store.Close() })
	return w
}

// Result is how a hook ended.
type Result struct {
	ExitCode   int
	Stderr     string
	Operations []Operation
	// LastWords are what the hook left for the status of its pod.
	LastWords string
}

// Env is the environment of a pod for the world's Scan with further variables.
func Env(more map[string]string) sdk.Env {
	return func(name string) (string, bool) {
		if value, ok := more[name]; ok {
			return value, true
		}
		value, ok := map[string]string{"SCAN_NAME": "nmap-x", "NAMESPACE": "ns"}[name]
		return value, ok
	}
}

// Args are the arguments the operator gives to a hook of this type.
func (w *World) Args(hook sdk.Hook) []string {
	paths := []string{"/raw", "/findings.json"}
	if hook.Writes {
		paths = append(paths, "/put-raw", "/put-findings.json")
	}
	return w.URLs(paths...)
}

// URLs makes presigned URLs of paths in the store.
func (w *World) URLs(paths ...string) []string {
	urls := make([]string, 0, len(paths))
	for _, path := range paths {
		urls = append(urls, w.store.URL+path+"?"+Signature)
	}
	return urls
}

// API is how to reach the world's API server.
func (w *World) API() *rest.Config { return &rest.Config{Host: w.api.URL} }

// Run runs a hook as the operator would.
func (w *World) Run(t testing.TB, hook sdk.Hook, env map[string]string) Result {
	return w.RunArgs(t, hook, Env(env), w.Args(hook))
}

// RunUntil runs a hook as the operator would, until the context ends: as a pod that is deleted.
func (w *World) RunUntil(ctx context.Context, t testing.TB, hook sdk.Hook, env map[string]string) Result {
	t.Helper()
	return w.run(ctx, t, hook, Env(env), w.Args(hook))
}

// RunArgs runs a hook with arguments and an environment of the test's choice.
func (w *World) RunArgs(t testing.TB, hook sdk.Hook, env sdk.Env, args []string) Result {
	t.Helper()
	return w.run(t.Context(), t, hook, env, args)
}

func (w *World) run(ctx context.Context, t testing.TB, hook sdk.Hook, env sdk.Env, args []string) Result {
	t.Helper()
	w.mu.Lock()
	w.operations = nil
	w.mu.Unlock()
	patience := max(w.Patience, time.Nanosecond)
	var stderr bytes.Buffer
	words := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(words, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api := func() (*rest.Config, error) { return w.API(), nil }
	if w.HandOver {
		env = w.handOver(t, env)
		api = func() (*rest.Config, error) { return nil, errors.New("there is no API server") }
	}
	code := sdk.Run(ctx, hook, sdk.Process{
		TerminationLog: process.LastWords(words),
		Args:           args, Env: env, Stderr: &stderr, Patience: patience, Transport: w.Transport,
		Clock: w.Clock.Delivery(), Random: func() float64 { return 1 },
		Kubernetes: api,
		Transfer:   []transfer.Option{transfer.WithBackoff(time.Millisecond, time.Millisecond)},
	})
	if strings.Contains(stderr.String(), Signature) {
		t.Errorf("the hook printed a credential: %s", stderr.String())
	}
	left, err := os.ReadFile(words)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{ExitCode: code, Stderr: stderr.String(), Operations: w.operations, LastWords: string(left)}
}

// handOver adds to an environment what the operator adds.
func (w *World) handOver(t testing.TB, env sdk.Env) sdk.Env {
	t.Helper()
	variables, err := handover.Split([]byte(w.Scan))
	if err != nil {
		t.Fatal(err)
	}
	added := map[string]string{handover.EnvCategoriesURL: w.URLs("/put-categories")[0]}
	if w.Objects[ExceptionsPath] != nil {
		added[handover.EnvExceptionsURL] = w.URLs(ExceptionsPath)[0]
	}
	for _, v := range variables {
		added[v.Name] = v.Value
	}
	return func(name string) (string, bool) {
		if value, ok := added[name]; ok {
			return value, true
		}
		return env(name)
	}
}

const scanPath = "/apis/execution.securecodebox.io/v1/namespaces/ns/scans/nmap-x"

func (w *World) serveAPI(rw http.ResponseWriter, r *http.Request) {
	if !w.record(rw, r) {
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + r.URL.Path {
	case "GET " + scanPath, "PATCH " + scanPath + "/status":
		writeAll(rw, []byte(w.Scan))
	default:
		rw.WriteHeader(http.StatusNotFound)
		writeAll(rw, []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`))
	}
}

func (w *World) serveStore(rw http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != Signature {
		http.Error(rw, "unsigned", http.StatusForbidden)
		return
	}
	if !w.record(rw, r) || r.Method != http.MethodGet {
		return
	}
	object, ok := w.Objects[r.URL.Path]
	if !ok {
		rw.WriteHeader(http.StatusNotFound)
		writeAll(rw, []byte(`<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`))
		return
	}
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(object))
}

// record keeps what was asked and says whether to go on. Downloads from the store are not operations: hooks may read
// as often as they like.
func (w *World) record(rw http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false // the hook broke off: there is no client to respond to
	}
	download := r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/apis/")
	if !download {
		w.mu.Lock()
		w.operations = append(w.operations, Operation{
			Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), Length: r.ContentLength, Body: body,
		})
		w.mu.Unlock()
	}
	if status := w.Faults(r.Method, r.URL.Path); status != 0 {
		http.Error(rw, fmt.Sprintf("fault %d", status), status)
		return false
	}
	return true
}

// writeAll responds to a client that may be gone: then there is nothing more to do.
func writeAll(rw http.ResponseWriter, text []byte) {
	_, _ = rw.Write(text)
}
