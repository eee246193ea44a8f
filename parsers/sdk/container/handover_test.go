// SPDX-License-Identifier: Apache-2.0

package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/container"
	"github.com/scanyard/scanyard/podkit/handoff"
	"github.com/scanyard/scanyard/podkit/scanclient"
)

// handOver runs the container with the Scan in its environment, and returns its last words.
func (w *world) handOver(t *testing.T, change func(*container.Config)) (words []byte, err error) {
	t.Helper()
	scan, err := json.Marshal(w.scan)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{handover.EnvCategoriesURL: w.server.URL + "/bucket/categories?" + secret}
	if w.exceptions != nil {
		env[handover.EnvExceptionsURL] = w.server.URL + "/bucket/exceptions?" + secret
	}
	variables, err := handover.Split(scan)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		env[v.Name] = v.Value
	}
	err = w.run(t, func(c *container.Config) {
		c.Client = nil
		c.Handover = scanclient.FromEnvironment(func(name string) string { return env[name] })
		c.Leave = func(text []byte) error {
			words = text
			return nil
		}
		if change != nil {
			change(c)
		}
	})
	return words, err
}

// TestHandover holds that a container with a Scan that was handed over sends no request to the API server, and reports which bytes
// it has stored.
func TestHandover(t *testing.T) {
	for name, limit := range map[string]int{"Kept": 16 << 20, "Streamed": 10} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oneHost, "nmap-xml")
			puts := 0
			w.faults = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				if r.Method != http.MethodPut || puts > 0 {
					return false
				}
				puts++
				rw.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			words, err := w.handOver(t, func(c *container.Config) { c.BufferLimit = limit })
			if err != nil {
				t.Fatal(err)
			}
			got, err := outcome.Decode(words)
			if err != nil {
				t.Fatalf("%v: %s", err, words)
			}
			want := &outcome.Outcome{Version: outcome.Version, Findings: &outcome.Findings{
				Stored: outcome.StoredBytes(w.findings), Count: 2, Severities: outcome.Severities{Informational: 2},
				Categories: map[string]int64{"Open Port": 1, "Host": 1},
			}, Reached: &outcome.Reached{Status: outcome.True, Message: "1 of 1 hosts answered"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for _, r := range w.requests {
				if strings.Contains(r, "/apis/") {
					t.Errorf("the API server was asked: %s", r)
				}
			}
		})
	}
}

// TestHandoverOfNothingReached holds that the reached targets are reported although there are no findings.
func TestHandoverOfNothingReached(t *testing.T) {
	w := newWorld(t, `<nmaprun><runstats><hosts up="0" down="1" total="1"/></runstats></nmaprun>`, "nmap-xml")
	words, err := w.handOver(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := outcome.Decode(words)
	want := outcome.Reached{Status: outcome.False, Message: "0 of 1 hosts answered"}
	if err != nil || got.Reached == nil || *got.Reached != want || string(w.findings) != "[]" {
		t.Errorf("reported %s, %v, of %s", words, err, w.findings)
	}
}

// TestHandoverOfWhatChanges is a parser that writes other bytes each time, as one that encrypts does: it reports the
// bytes that were stored.
func TestHandoverOfWhatChanges(t *testing.T) {
	w := newWorld(t, oneHost, "nmap-xml")
	run := 0
	changing := sdk.Parser{ResultType: "nmap-xml", Parse: func(_ context.Context, _ *sdk.Input, emit sdk.Emit) error {
		run++
		return emit(&finding.Finding{Name: finding.String(strconv.Itoa(run)), Severity: finding.String("LOW"), Category: finding.String("a")})
	}}
	words, err := w.handOver(t, func(c *container.Config) {
		c.BufferLimit, c.Lookup = 10, func(string) (sdk.Parser, error) { return changing, nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := outcome.Decode(words)
	if err != nil || got.Findings.Stored != outcome.StoredBytes(w.findings) || !bytes.Contains(w.findings, []byte(`"name":"2"`)) {
		t.Errorf("reported %s, %v, of %s", words, err, w.findings)
	}
}

// TestHandoverOfManyCategories stores beside the findings what does not fit into last words.
func TestHandoverOfManyCategories(t *testing.T) {
	w := newWorld(t, oneHost, "nmap-xml")
	many := sdk.Parser{ResultType: "nmap-xml", Parse: func(_ context.Context, _ *sdk.Input, emit sdk.Emit) error {
		for i := range 200 {
			err := emit(&finding.Finding{Name: finding.String("n"), Severity: finding.String("LOW"), Category: finding.String(fmt.Sprintf("category number %d", i))})
			if err != nil {
				return err
			}
		}
		return nil
	}}
	words, err := w.handOver(t, func(c *container.Config) { c.Lookup = func(string) (sdk.Parser, error) { return many, nil } })
	if err != nil {
		t.Fatal(err)
	}
	got, err := outcome.Decode(words)
	if err != nil {
		t.Fatal(err)
	}
	categories, err := got.Findings.DecodeCategories(w.categories)
	if err != nil || len(categories) != 200 {
		t.Errorf("got %d categories, %v", len(categories), err)
	}
}

// TestHandoverFails holds that a container which cannot report its outcome fails.
func TestHandoverFails(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(2, 2, true))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, string(raw), "nmap-xml")
	_, err = w.handOver(t, func(c *container.Config) { c.Leave = func([]byte) error { return errors.New("no file") } })
	if err == nil || !strings.Contains(err.Error(), "report the outcome to the operator: no file") {
		t.Errorf("got %v", err)
	}
	_, err = w.handOver(t, func(c *container.Config) { c.Handover.Scan = []byte("{") })
	if err == nil || !strings.Contains(err.Error(), handover.EnvScan) {
		t.Errorf("got %v", err)
	}
}

// TestHandoverOfExceptions: the parser counts which findings are open. One that cannot read the exceptions goes on without, says
// so in its log and to the operator, and stores the same findings.
func TestHandoverOfExceptions(t *testing.T) {
	const hosts = `[{"namespace":"team-a","name":"hosts","spec":{"status":"FalsePositive","reason":"They are not targets","match":{"anyOf":[{"categories":["Host"]}]}}}]`
	for name, c := range map[string]struct {
		text      string
		limit     int
		missing   bool
		open      *outcome.Severities
		condition outcome.Condition
		log       string
	}{
		"Kept":     {hosts, 16 << 20, false, &outcome.Severities{Informational: 1}, outcome.Condition{Status: outcome.True, Reason: "Applied"}, ""},
		"Streamed": {hosts, 10, false, &outcome.Severities{Informational: 1}, outcome.Condition{Status: outcome.True, Reason: "Applied"}, ""},
		"Gone":     {hosts, 10, true, nil, outcome.Condition{Status: outcome.False, Reason: "ExceptionsUnreadable"}, "going on without exceptions"},
		"Broken":   {"{", 10, false, nil, outcome.Condition{Status: outcome.False, Reason: "ExceptionsUnreadable"}, "not a list of exceptions"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oneHost, "nmap-xml")
			w.exceptions = []byte(c.text)
			w.faults = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				gone := c.missing && r.URL.Path == "/bucket/exceptions"
				if gone {
					s3Error(rw, http.StatusNotFound, "NoSuchKey", "gone")
				}
				return gone
			}
			words, err := w.handOver(t, func(config *container.Config) { config.BufferLimit = c.limit })
			if err != nil {
				t.Fatal(err)
			}
			got, err := outcome.Decode(words)
			if err != nil {
				t.Fatalf("%v: %s", err, words)
			}
			if diff := cmp.Diff(c.open, got.Findings.Open); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			want := []outcome.ExceptionCount{{Name: "hosts", Count: 1}}
			if c.open == nil {
				want = nil
			}
			if diff := cmp.Diff(want, got.Findings.Exceptions); diff != "" || got.Findings.Count != 2 || got.Findings.Stored != outcome.StoredBytes(w.findings) {
				t.Errorf("%d findings; exceptions (-want +got):\n%s", got.Findings.Count, diff)
			}
			if len(got.Conditions) != 1 || got.Conditions[0].Type != "ExceptionsApplied" || got.Conditions[0].Status != c.condition.Status ||
				got.Conditions[0].Reason != c.condition.Reason || strings.Contains(got.Conditions[0].Message, secret) {
				t.Errorf("conditions %+v", got.Conditions)
			}
			if strings.Count(w.log.String(), "going on without") > 1 || !strings.Contains(w.log.String(), c.log) {
				t.Errorf("log: %s", w.log.String())
			}
			if bytes.Contains(w.findings, []byte("exception")) {
				t.Errorf("the findings are marked: %s", w.findings)
			}
		})
	}
}

// TestInTheScannersPod parses the file that the scanner has left, and downloads nothing.
func TestInTheScannersPod(t *testing.T) {
	for name, c := range map[string]struct {
		scanned bool
		file    string
		want    string // of the error; "" for none
	}{
		"Result":   {true, oneHost, ""},
		"NoResult": {false, oneHost, ""},
		"Broken":   {true, "<nmaprun>", "parse nmap-xml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "not asked for", "nmap-xml")
			pod, raw := t.TempDir(), filepath.Join(t.TempDir(), "nmap-results.xml")
			if err := os.WriteFile(raw, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			lurker, err := handoff.Hold(pod)
			if err != nil {
				t.Fatal(err)
			}
			if err := lurker.Tell(c.scanned); err != nil {
				t.Fatal(err)
			}
			words, err := w.handOver(t, func(config *container.Config) {
				env := map[string]string{"SCAN_NAME": "nightly", "NAMESPACE": "team-a", handover.EnvHandoff: pod}
				fused, err := container.ParseArguments([]string{"file://" + raw, string(config.Findings)}, func(name string) string { return env[name] })
				if err != nil {
					t.Fatal(err)
				}
				config.Arguments = fused
			})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || len(words) > 0 {
					t.Errorf("want an error with %q, got %v and %s", c.want, err, words)
				}
				return
			}
			if err != nil || (len(words) > 0) != c.scanned || (len(w.findings) > 0) != c.scanned {
				t.Errorf("got %v, %s, %s", err, words, w.findings)
			}
			for _, r := range w.requests {
				if strings.Contains(r, "/raw") {
					t.Errorf("the raw result was asked for: %s", r)
				}
			}
		})
	}
}
