// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
	"github.com/scanyard/scanyard/podkit/process"
)

func hookOf(writes bool, handle sdk.HandlerFunc) sdk.Hook {
	return sdk.Hook{Name: "test", Writes: writes, New: func(sdk.Env) (sdk.Handler, error) { return handle, nil }}
}

// keep is a ReadAndWrite hook that changes nothing.
func keep(ctx context.Context, s *sdk.Session) error {
	return s.EditFindings(ctx, func(element []byte) ([]byte, error) { return element, nil })
}

func readAll(ctx context.Context, s *sdk.Session) error {
	return s.EachFinding(ctx, func([]byte) error { return nil })
}

func TestRunRefuses(t *testing.T) {
	cases := map[string]struct {
		env    map[string]string
		args   int
		writes bool
		change func(*sdktest.World)
		handle sdk.HandlerFunc
		want   string
		reason string
	}{
		"ScanNameMissing":  {env: map[string]string{"SCAN_NAME": ""}, args: 2, handle: readAll, want: "environment variable SCAN_NAME is not set"},
		"NamespaceMissing": {env: map[string]string{"NAMESPACE": ""}, args: 2, handle: readAll, want: "environment variable NAMESPACE is not set"},
		"OneArgument":      {args: 1, handle: readAll, want: "got 1 arguments, want 2 URLs"},
		"ThreeArguments":   {args: 3, handle: readAll, want: "got 3 arguments, want 2 URLs"},
		"CAFileMissing":    {env: map[string]string{"NODE_EXTRA_CA_CERTS": "/does/not/exist"}, args: 2, handle: readAll, want: "NODE_EXTRA_CA_CERTS"},
		"NoSuchScan":       {env: map[string]string{"SCAN_NAME": "gone"}, args: 2, handle: readAll, want: "read Scan ns/gone: the API server answers 404 Not Found: not found"},
		"ReadOnlyWrites":   {args: 2, handle: keep, want: "set spec.type of its ScanCompletionHook to ReadAndWrite", reason: "defect 65"},
		"ReadOnlyWritesRaw": {args: 2, handle: func(ctx context.Context, s *sdk.Session) error {
			return s.UpdateRawResult(ctx, 0, func() (io.ReadCloser, error) { return http.NoBody, nil })
		}, want: "set spec.type of its ScanCompletionHook to ReadAndWrite", reason: "defect 65"},
		"FindingsMissing": {
			args: 2, handle: readAll, want: "NoSuchKey", reason: "defect 65: the store's error text is not findings",
			change: func(w *sdktest.World) { delete(w.Objects, "/findings.json") },
		},
		"FindingsRefused": {
			args: 2, handle: readAll, want: "403", reason: "defect 65",
			change: func(w *sdktest.World) {
				w.Faults = func(_, path string) int { return map[string]int{"/findings.json": 403}[path] }
			},
		},
		"FindingsTruncated": {
			args: 2, handle: readAll, want: "read findings: element 1",
			change: func(w *sdktest.World) { w.Objects["/findings.json"] = []byte(`[{"a":1},{"b":`) },
		},
		"FindingsEmpty": {
			args: 2, handle: readAll, want: "read findings: the input is not a JSON array",
			change: func(w *sdktest.World) { w.Objects["/findings.json"] = nil },
		},
		"HookFails": {args: 2, handle: func(context.Context, *sdk.Session) error { return errors.New("two\nlines") }, want: "hook test: two lines"},
		"PatchRefused": {
			args: 4, handle: keep, want: "write the status of Scan ns/nmap-x",
			change: func(w *sdktest.World) {
				w.Faults = func(method, _ string) int { return map[string]int{"PATCH": 403}[method] }
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			if c.change != nil {
				c.change(w)
			}
			args := w.URLs("/raw", "/findings.json", "/put-raw", "/put-findings.json")[:c.args]
			got := w.RunArgs(t, hookOf(c.writes, c.handle), sdktest.Env(c.env), args)
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("%s: exit code %d, stderr %q, want 1 and %q", c.reason, got.ExitCode, got.Stderr, c.want)
			}
			if lines := strings.Count(got.Stderr, "\n"); lines != 1 {
				t.Errorf("%d lines, want one sentence: %q", lines, got.Stderr)
			}
		})
	}
}

// TestErroredScanWithoutFindings is what hooks see that run on failures: 404 where findings would be.
func TestErroredScanWithoutFindings(t *testing.T) {
	for name, hook := range map[string]sdk.Hook{"Reads": hookOf(false, readAll), "Writes": hookOf(true, keep)} {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan = strings.Replace(w.Scan, "HookProcessing", "Errored", 1)
			delete(w.Objects, "/findings.json")
			got := w.Run(t, hook, nil)
			if got.ExitCode != 0 {
				t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
			}
			for _, o := range got.Operations {
				if o.Method != http.MethodGet {
					t.Errorf("it was written: %s %s", o.Method, o.Path)
				}
			}
		})
	}
}

func TestFindingThatCannotBeCounted(t *testing.T) {
	w := sdktest.New(t)
	w.Objects["/findings.json"] = []byte(`[{"severity":"LOW","category":"a"},{"category":"a"}]`)
	got := w.Run(t, hookOf(true, keep), nil)
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "finding 1: finding has no severity") {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
	for _, o := range got.Operations {
		if o.Method == http.MethodPatch {
			t.Errorf("counters were written: %s", o.Body)
		}
	}
}

// TestOutages lets everything fail a few times, as an API server or a store does that restarts.
func TestOutages(t *testing.T) {
	w := sdktest.New(t)
	w.Patience = time.Minute
	w.Objects["/findings.json"] = []byte(`[{"severity":"LOW","category":"a"}]`)
	var calls [3]atomic.Int32
	w.Faults = func(method, path string) int {
		n := map[string]int{"GET": 0, "PUT": 1, "PATCH": 2}[method]
		if strings.HasPrefix(path, "/apis/") && method == "GET" || method != "GET" {
			if calls[n].Add(1) == 1 {
				return http.StatusServiceUnavailable
			}
		}
		return 0
	}
	got := w.Run(t, hookOf(true, keep), nil)
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	var methods []string
	for _, o := range got.Operations {
		methods = append(methods, o.Method)
	}
	if diff := cmp.Diff([]string{"GET", "GET", "PUT", "PUT", "PATCH", "PATCH"}, methods); diff != "" {
		t.Error(diff)
	}
}

func TestStatusOfUploadsIsChecked(t *testing.T) {
	w := sdktest.New(t)
	w.Faults = func(method, _ string) int { return map[string]int{"PUT": 400}[method] }
	got := w.Run(t, hookOf(true, keep), nil)
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "put findings:") || !strings.Contains(got.Stderr, "400") {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
}

func TestFindingsWrittenByType(t *testing.T) {
	w := sdktest.New(t)
	got := w.Run(t, hookOf(true, func(ctx context.Context, s *sdk.Session) error {
		return s.UpdateFindings(ctx, func(_ context.Context, out *sdk.Output) error {
			return out.Write(&finding.Finding{Name: finding.String("n"), Severity: finding.String(finding.High), Category: finding.String("c")})
		})
	}), nil)
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if diff := cmp.Diff(`[{"name":"n","category":"c","severity":"HIGH"}]`, string(got.Operations[1].Body)); diff != "" {
		t.Error(diff)
	}
}

// TestOutputThatChanges holds that an output which is not the same the second time is never taken by the store.
func TestOutputThatChanges(t *testing.T) {
	w := sdktest.New(t)
	w.Objects["/findings.json"] = []byte("[" + strings.Repeat(`{"severity":"LOW","category":"a","text":"`+strings.Repeat("x", 1000)+`"},`, 6000) + `{"severity":"LOW"}]`)
	var pass atomic.Int32
	got := w.Run(t, hookOf(true, func(ctx context.Context, s *sdk.Session) error {
		return s.UpdateFindings(ctx, func(ctx context.Context, out *sdk.Output) error {
			n := byte('0' + pass.Add(1))
			return s.EachFinding(ctx, func(element []byte) error {
				return out.WriteRaw(bytes.Replace(element, []byte("a"), []byte{n}, 1))
			})
		})
	}), nil)
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, sdk.ErrNotRepeatable.Error()) {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
	for _, o := range got.Operations {
		if o.Method == http.MethodPut {
			t.Errorf("the store took %d of %d bytes as whole", len(o.Body), o.Length)
		}
	}
}

func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "termination-log")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := sdktest.New(t)
	long := strings.Repeat("ä", 5000)
	run := func(path string) int {
		return sdk.Run(t.Context(), hookOf(false, func(context.Context, *sdk.Session) error { return errors.New(long) }), sdk.Process{
			Args: w.URLs("/raw", "/findings.json"), Env: sdktest.Env(nil), Stderr: io.Discard, TerminationLog: process.LastWords(path), Patience: time.Second,
			Kubernetes: func() (*rest.Config, error) { return w.API(), nil },
		})
	}
	if code := run(path); code != 1 {
		t.Fatalf("exit code %d", code)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 4097 || !strings.HasSuffix(string(text), "ä…\n") {
		t.Errorf("%d bytes, ends in %q", len(text), text[len(text)-8:])
	}
	if code := run(filepath.Join(dir, "none")); code != 1 {
		t.Fatalf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error("outside a pod no file is made")
	}
}
