// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/container"
	"github.com/scanyard/scanyard/podkit/process"
)

const oneHost = `<nmaprun><host><status state="up"/><address addr="10.0.0.1" addrtype="ipv4"/><ports><port protocol="tcp" portid="80">` +
	`<state state="open"/><service name="http"/></port></ports></host></nmaprun>`

func TestRun(t *testing.T) {
	w := newWorld(t, oneHost, "nmap-xml")
	if err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(w.findings, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("got %s", w.findings)
	}
	for _, f := range got {
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := finding.Validate(raw); err != nil {
			t.Errorf("%v: %s", err, raw)
		}
		want := map[string]any{"created_at": "2026-01-01T00:00:00Z", "name": "nightly", "namespace": "team-a", "scan_type": "nmap"}
		if diff := cmp.Diff(want, f["scan"]); diff != "" || f["parsed_at"] != "2026-01-02T03:04:05.006Z" {
			t.Errorf("scan differs: %s parsed_at %v", diff, f["parsed_at"])
		}
	}
	wantStatus := map[string]any{
		"state": "Parsing", "rawResultType": "nmap-xml",
		"findings": map[string]any{
			"count": 2.0, "severities": map[string]any{"informational": 2.0, "low": 0.0, "medium": 0.0, "high": 0.0},
			"categories": map[string]any{"Open Port": 1.0, "Host": 1.0},
		},
	}
	if diff := cmp.Diff(wantStatus, w.scan["status"]); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
	wantRequests := []string{"GET " + scanPath, "GET /bucket/raw", "PUT /bucket/findings.json", "PATCH " + scanPath + "/status"}
	if diff := cmp.Diff(wantRequests, w.requests); diff != "" {
		t.Errorf("requests differ (-want +got):\n%s", diff)
	}
	if contentType, ok := w.puts[0]["Content-Type"]; !ok || contentType[0] != "" {
		t.Errorf("content-type is %q", contentType)
	}
}

// TestLargeResultsAreParsedTwice compares what the two ways of storing give: the same bytes, and the same again in
// another run.
func TestLargeResultsAreParsedTwice(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(200, 20, true))
	if err != nil {
		t.Fatal(err)
	}
	store := func(limit int) []byte {
		w := newWorld(t, string(raw), "nmap-xml")
		if err := w.run(t, func(c *container.Config) { c.BufferLimit = limit }); err != nil {
			t.Fatal(err)
		}
		if w.lengths[0] != int64(len(w.findings)) {
			t.Errorf("length %d, %d bytes", w.lengths[0], len(w.findings))
		}
		reads := 0
		for _, r := range w.requests {
			if r == "GET /bucket/raw" {
				reads++
			}
		}
		if want := map[bool]int{true: 1, false: 2}[limit > len(w.findings)]; reads != want {
			t.Errorf("limit %d: read %d times, want %d", limit, reads, want)
		}
		if got := w.status("findings", "count"); got != float64(200*22) {
			t.Errorf("count is %v", got)
		}
		return w.findings
	}
	kept, streamed := store(16<<20), store(1000)
	if !bytes.Equal(kept, streamed) {
		t.Error("the two ways differ")
	}
}

func TestFaultsAreWaitedOut(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(50, 100, false))
	if err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]int{"Kept": 64 << 20, "Streamed": 1000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, string(raw), "nmap-xml")
			w.cut = 200_000
			w.faults = func(rw http.ResponseWriter, r *http.Request, n int) bool {
				switch {
				case strings.HasPrefix(r.URL.Path, "/apis/") && n <= 4:
					[]func(){
						func() { apiError(rw, 503, "etcd is away") },
						func() { apiError(rw, 403, "RBAC is not there yet") },
						func() { apiError(rw, 409, "conflict") },
						func() { panic(http.ErrAbortHandler) },
					}[n-1]()
					return true
				case r.Method == http.MethodPut && n == 1:
					s3Error(rw, 503, "SlowDown", "Please reduce your request rate.")
					return true
				case r.Method == http.MethodPut && n == 2:
					_, _ = io.CopyN(io.Discard, r.Body, 100_000)
					panic(http.ErrAbortHandler)
				case r.URL.Path == "/bucket/raw" && n == 1:
					s3Error(rw, 500, "InternalError", "oops")
					return true
				}
				return false
			}
			if err := w.run(t, func(c *container.Config) { c.BufferLimit = limit }); err != nil {
				t.Fatal(err)
			}
			stats := finding.Stats{}
			reader := finding.NewReader(bytes.NewReader(w.findings), finding.Limits{})
			for {
				element, err := reader.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := stats.AddRaw(element); err != nil {
					t.Fatal(err)
				}
			}
			if stats.Count != 50*101 || w.status("findings", "count") != float64(stats.Count) {
				t.Errorf("%d findings, status %v", stats.Count, w.status("findings", "count"))
			}
			if w.pauses < 8 {
				t.Errorf("only %d pauses", w.pauses)
			}
		})
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	answer := func(path string, f func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request, int) bool {
		return func(rw http.ResponseWriter, r *http.Request, _ int) bool {
			if r.URL.Path == path {
				f(rw)
			}
			return r.URL.Path == path
		}
	}
	expired := func(rw http.ResponseWriter) { s3Error(rw, 403, "AccessDenied", "Request has expired") }
	// Where another try cannot help, the exit code says so.
	codes := map[string]int{
		"UnknownType": exitcode.Configuration, "BadResult": exitcode.InvalidInput,
		"ExpiredRaw": exitcode.Refused, "ExpiredFindings": exitcode.Refused,
	}
	tests := map[string]struct {
		raw, resultType string
		faults          func(http.ResponseWriter, *http.Request, int) bool
		want            []string
		stored          bool
	}{
		"NoScan": {
			oneHost, "nmap-xml", answer(scanPath, func(rw http.ResponseWriter) { apiError(rw, 404, `scans "nightly" not found`) }),
			[]string{"read Scan team-a/nightly", "404", "it was deleted"},
			false,
		},
		"Forbidden": {
			oneHost, "nmap-xml", answer(scanPath, func(rw http.ResponseWriter) { apiError(rw, 403, "no") }),
			[]string{"403", "RoleBinding of the pod's ServiceAccount in namespace team-a"},
			false,
		},
		"APIServerAway": {
			oneHost, "nmap-xml", answer(scanPath, func(rw http.ResponseWriter) { apiError(rw, 503, "away") }),
			[]string{"given up after", "503", "away"},
			false,
		},
		"NoType":      {oneHost, "", nil, []string{"names no rawResultType"}, false},
		"UnknownType": {oneHost, "no-such-xml", nil, []string{`no parser here reads result type "no-such-xml"`, "nmap-xml", "ParseDefinition"}, false},
		"BadResult":   {"<nmaprun>\n<host>", "nmap-xml", nil, []string{"parse nmap-xml", "line 2, byte 16", "stopped before its end"}, false},
		"ExpiredRaw":  {oneHost, "nmap-xml", answer("/bucket/raw", expired), []string{"Request has expired", "URL_EXPIRATION_PARSER"}, false},
		"NoRaw": {
			oneHost, "nmap-xml", answer("/bucket/raw", func(rw http.ResponseWriter) { s3Error(rw, 404, "NoSuchKey", "gone") }),
			[]string{"parse nmap-xml", "/bucket/raw", "NoSuchKey"},
			false,
		},
		"ExpiredFindings": {
			oneHost, "nmap-xml", answer("/bucket/findings.json", expired),
			[]string{"store the findings", "Request has expired", "URL_EXPIRATION_PARSER"},
			false,
		},
		"StoreAway": {
			oneHost, "nmap-xml", answer("/bucket/findings.json", func(rw http.ResponseWriter) { s3Error(rw, 503, "SlowDown", "slow") }),
			[]string{"store the findings", "given up after", "SlowDown"},
			false,
		},
		"ScanDeletedMeanwhile": {
			oneHost, "nmap-xml", answer(scanPath+"/status", func(rw http.ResponseWriter) { apiError(rw, 404, "gone") }),
			[]string{"write the status of Scan team-a/nightly", "it was deleted"},
			true,
		},
		"PatchRefused": {
			oneHost, "nmap-xml", answer(scanPath+"/status", func(rw http.ResponseWriter) { apiError(rw, 422, "status.findings: Invalid") }),
			[]string{"422", "status.findings: Invalid"},
			true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.raw, tt.resultType)
			w.faults = tt.faults
			err := w.run(t, nil)
			if err == nil {
				t.Fatal("want an error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
			if code := process.ExitCode(err); code != max(codes[name], 1) {
				t.Errorf("exit code %d, want %d", code, max(codes[name], 1))
			}
			if w.stored != tt.stored || w.status("findings") != nil {
				t.Errorf("stored: %t, findings in the status: %v", w.stored, w.status("findings"))
			}
		})
	}
}

// TestAResultThatFailsOnTheSecondReading can only happen if the raw result is replaced meanwhile.
func TestResultChangesBetweenReads(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(50, 100, false))
	if err != nil {
		t.Fatal(err)
	}
	for name, second := range map[string]string{"Shorter": oneHost, "Broken": "<nmaprun>"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, string(raw), "nmap-xml")
			w.faults = func(_ http.ResponseWriter, r *http.Request, n int) bool {
				if r.URL.Path == "/bucket/raw" && n == 2 {
					w.raw = []byte(second)
				}
				return false
			}
			if err := w.run(t, func(c *container.Config) { c.BufferLimit = 1000 }); err == nil {
				t.Error("want an error")
			}
			if w.stored || w.status("findings") != nil {
				t.Error("something was stored")
			}
		})
	}
}

func TestStaleCategoriesAreRemoved(t *testing.T) {
	w := newWorld(t, oneHost, "nmap-xml")
	status, _ := w.scan["status"].(map[string]any)
	status["findings"] = map[string]any{"count": 9, "severities": map[string]any{"high": 9}, "categories": map[string]any{"Old": 4, "Host": 5}}
	w.faults = func(_ http.ResponseWriter, r *http.Request, n int) bool {
		if r.Method == http.MethodPut { // a former attempt's patch arrives late
			w.scan["status"] = merge(w.scan["status"], map[string]any{"findings": map[string]any{"categories": map[string]any{"Late": 1}}})
		}
		return false
	}
	if err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"Open Port": 1.0, "Host": 1.0}, w.status("findings", "categories")); diff != "" {
		t.Errorf("categories differ (-want +got):\n%s", diff)
	}
	if len(w.patches) != 2 || !strings.Contains(w.patches[0], `"Old":null`) || !strings.Contains(w.patches[1], `"Late":null`) {
		t.Errorf("patches: %q", w.patches)
	}
}

func TestInvalidFindings(t *testing.T) {
	invalid := func(c *container.Config) { c.Env = func(string) string { return "true" } }
	w := newWorld(t, "", "test-txt")
	if err := w.run(t, invalid); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.log.String(), "name: is missing") || !w.stored {
		t.Errorf("stored %t, log: %s", w.stored, &w.log)
	}
	if diff := cmp.Diff(map[string]any{"undefined": 1.0}, w.status("findings", "categories")); diff != "" {
		t.Errorf("categories differ (-want +got):\n%s", diff)
	}
	w = newWorld(t, "", "test-txt")
	err := w.run(t, func(c *container.Config) { invalid(c); c.Strict = true })
	if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "CRASH_ON_FAILED_VALIDATION") || w.stored || len(w.patches) > 0 {
		t.Errorf("stored %t, error %v", w.stored, err)
	}
	if code := process.ExitCode(err); code != exitcode.InvalidInput {
		t.Errorf("exit code %d", code)
	}
}

// TestTruncatedDownloadIsNotInvalidInput: a parser sees the end of what came, and its words are about that; the result itself may
// be fine.
func TestTruncatedDownloadIsNotInvalidInput(t *testing.T) {
	w := newWorld(t, oneHost, "nmap-xml")
	w.cut = 60
	w.faults = func(rw http.ResponseWriter, r *http.Request, n int) bool {
		away := r.URL.Path == "/bucket/raw" && n > 1
		if away {
			s3Error(rw, 503, "SlowDown", "slow")
		}
		return away
	}
	err := w.run(t, nil)
	if err == nil || process.ExitCode(err) != 1 {
		t.Errorf("exit code %d, error %v", process.ExitCode(err), err)
	}
}

// TestExitCodes of errors that no parser has a part in.
func TestExitCodes(t *testing.T) {
	_, err := container.ParseArguments([]string{"http://store/raw"}, func(string) string { return "" })
	if code := process.ExitCode(err); code != exitcode.Configuration {
		t.Errorf("exit code %d, error %v", code, err)
	}
}

func TestNoFindings(t *testing.T) {
	w := newWorld(t, "null", "gitleaks-json")
	if err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	if string(w.findings) != "[]" || w.status("findings", "count") != 0.0 {
		t.Errorf("got %s, %v", w.findings, w.status("findings"))
	}
}

func TestParseArguments(t *testing.T) {
	complete := map[string]string{"SCAN_NAME": "s", "NAMESPACE": "n", "CRASH_ON_FAILED_VALIDATION": "true", "NODE_EXTRA_CA_CERTS": "/ca"}
	without := func(name string) func(string) string {
		return func(asked string) string {
			if asked == name {
				return ""
			}
			return complete[asked]
		}
	}
	urls := []string{"http://a/raw?" + secret, "http://a/findings?" + secret}
	got, err := container.ParseArguments(urls, without(""))
	want := container.Arguments{Raw: "http://a/raw?" + secret, Findings: "http://a/findings?" + secret, Scan: process.Scan{Namespace: "n", Name: "s"}, Strict: true, ExtraCA: "/ca"}
	if err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	for _, name := range []string{"SCAN_NAME", "NAMESPACE"} {
		if _, err := container.ParseArguments(urls, without(name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %s, got %v", name, err)
		}
	}
	for _, args := range [][]string{nil, urls[:1], append(urls, "x")} {
		if _, err := container.ParseArguments(args, without("")); err == nil || strings.Contains(err.Error(), "c0ffee") {
			t.Errorf("%d arguments: got %v", len(args), err)
		}
	}
}

// TestMemoryStaysSmall parses and stores 25 MiB of findings and looks at what was allocated at any one time.
func TestMemoryStaysSmall(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(400, 100, false))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, string(raw), "nmap-xml")
	w.faults = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodPut {
			return false
		}
		n, err := io.Copy(io.Discard, r.Body) // keeping it would count
		return err == nil && n > 20<<20
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 40<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// BenchmarkRun measures the container mode over a result that is parsed twice. The store and the API server are in the
// same process and count.
func BenchmarkRun(b *testing.B) {
	raw, err := io.ReadAll(rawgen.Nmap(1000, 100, false))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	w := newWorld(b, string(raw), "nmap-xml")
	w.faults = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodPut {
			return false
		}
		_, err := io.Copy(io.Discard, r.Body)
		return err == nil
	}
	for b.Loop() {
		if err := w.run(b, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(101_000*b.N)/b.Elapsed().Seconds(), "findings/s")
}
