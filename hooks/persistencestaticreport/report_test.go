// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// three is a Scan with one finding each that is bad, harmless, and hardly one.
const three = `[
	{"id":"0b3cd5c1-3a5d-5c43-9a8d-1d8a3d3bb9f3","name":"Note","severity":"info","category":null},
	{"id":"i-2","fingerprint":"fp","name":"Injection","category":"Web","severity":"high","location":"https://a/b?q=<1>","description":"d","mitigation":"m","references":[{"type":"CVE","value":"CVE-1"}],"attributes":{"tags":"t","line":12},"identified_at":"2030-01-01T00:00:00Z"},
	{"id":"i-3","name":7,"category":"Web","severity":"MEDIUM","location":"image name","osi_layer":"APPLICATION"}]`

func threeReports(t *testing.T, env map[string]string, previous string) map[string]sdktest.Operation {
	t.Helper()
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = exampleScan, []byte(three)
	if previous != "" {
		w.Objects["/before.json"] = []byte(previous)
		env["PREVIOUS_FINDINGS_URL"] = w.URLs("/before.json")[0]
	}
	return reports(t, w, env)
}

// TestStored looks at what is put where. The world's store refuses what is not signed.
func TestStored(t *testing.T) {
	got := map[string]string{}
	for name, o := range threeReports(t, nil, "") {
		got[name] = o.ContentType
	}
	want := map[string]string{
		"report.html": "text/html; charset=utf-8", "report.sarif": "application/sarif+json", "report.junit.xml": "application/xml",
		"report.csv": "text/csv; charset=utf-8; header=present", "report.md": "text/markdown; charset=utf-8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("content types (-want +got):\n%s", diff)
	}
	if chosen := threeReports(t, map[string]string{"REPORT_FORMATS": "CSV, sarif,csv"}, ""); len(chosen) != 2 {
		t.Errorf("%d reports, want csv and sarif", len(chosen))
	}
}

// TestAgain holds that a second run stores the same bytes.
func TestAgain(t *testing.T) {
	bodies := func() map[string]string {
		all := map[string]string{}
		for name, o := range threeReports(t, nil, "") {
			all[name] = string(o.Body)
		}
		return all
	}
	if diff := cmp.Diff(bodies(), bodies()); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		env    map[string]string
		faults func(method, path string) int
		want   string
	}{
		"NoPlaces":     {env: map[string]string{"OUTPUT_URLS": ""}, want: "spec.outputs of the hook must list"},
		"OnePlace":     {env: map[string]string{"OUTPUT_URLS": `{"report.html":"http://x/s3cr3t"}`}, want: "no place for report.sarif"},
		"NoJSON":       {env: map[string]string{"OUTPUT_URLS": "s3cr3t"}, want: "OUTPUT_URLS is not a JSON object"},
		"Format":       {env: map[string]string{"REPORT_FORMATS": "pdf"}, want: `REPORT_FORMATS has "pdf", want some of html,sarif,junit,csv,markdown`},
		"NoFormat":     {env: map[string]string{"REPORT_FORMATS": ","}, want: "names no format"},
		"Severity":     {env: map[string]string{"REPORT_JUNIT_SEVERITY": "WORST"}, want: `REPORT_JUNIT_SEVERITY: severity "WORST" is none of critical, high, medium, low, informational`},
		"TooMany":      {env: map[string]string{"REPORT_MAX_FINDINGS": "1000000"}, want: "want 250000 at most"},
		"StoreRefuses": {faults: putFault(403), want: "URL_EXPIRATION_HOOK"},
		"StoreDead":    {faults: putFault(503), want: "report.html: given up after 5 attempts"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			if c.faults != nil {
				w.Faults = c.faults
			}
			env := map[string]string{"OUTPUT_URLS": outputURLs(t, w)}
			maps.Copy(env, c.env)
			got := w.Run(t, Hook(), env)
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

func putFault(status int) func(method, path string) int {
	return func(method, _ string) int {
		if method == http.MethodPut {
			return status
		}
		return 0
	}
}

// TestKilledEverywhere has the reports of 10,000 findings complete after a kill at any upload.
func TestKilledEverywhere(t *testing.T) {
	sdktest.Delivery{
		Hook: Hook(),
		Env: func(address string) map[string]string {
			return map[string]string{"OUTPUT_URLS": fmt.Sprintf(`{"report.csv":"%s/report.csv?sig=1","report.html":"%s/report.html?sig=1"}`, address, address), "REPORT_FORMATS": "csv,html"}
		},
		Prepare: func(w *sdktest.World) { w.Objects["/findings.json"] = sdktest.Findings(10_000) },
		Remote: func() (take func(sdktest.Request) sdktest.Reply, check func() error) {
			objects := map[string][]byte{}
			return func(r sdktest.Request) sdktest.Reply {
					if r.Method != http.MethodPut || !strings.HasSuffix(r.URL, "?sig=1") {
						return sdktest.Reply{Status: 403}
					}
					objects[r.URL] = r.Body
					return sdktest.Reply{}
				}, func() error {
					rows, err := csv.NewReader(bytes.NewReader(objects["/report.csv?sig=1"])).ReadAll()
					if err != nil {
						return err
					}
					arrived := sdktest.Tally{}
					for _, row := range rows[1:] {
						arrived[row[10]]++
					}
					if n := bytes.Count(objects["/report.html?sig=1"], []byte(`"finding-`)); n != 10_000 {
						return fmt.Errorf("%d findings in the page", n)
					}
					return arrived.Exactly(10_000)
				}
		},
	}.KillEverywhere(t)
}

// TestReportsOfTheRun compares what is stored with what the package makes of the same findings.
func TestReportsOfTheRun(t *testing.T) {
	const previous = `[{"id":"old","name":"Note","severity":"info","category":null},{"id":"x","name":"Gone","severity":"LOW"}]`
	stored := threeReports(t, map[string]string{"REPORT_TITLE": "Shop", "REPORT_JUNIT_SEVERITY": "medium", "REPORT_MAX_FINDINGS": "2"}, previous)
	source := func(text string) report.Source {
		return report.Stream(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
	}
	var known compare.Set
	if err := source(previous)(t.Context(), known.AddFinding); err != nil {
		t.Fatal(err)
	}
	scan, err := report.ScanOf([]byte(exampleScan))
	if err != nil {
		t.Fatal(err)
	}
	scan.Title = "Shop"
	r, err := report.New(t.Context(), report.Input{
		Findings: source(three), Scan: scan, Comparison: &known, MaxFindings: 2, FailOn: report.AtLeast(report.Medium), Siblings: report.Formats(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Formats() {
		var want bytes.Buffer
		if err := r.Write(t.Context(), &want, f); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(stored[f.Object].Body)); diff != "" || want.Len() == 0 {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
}
