// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/report/reporttest"
)

// TestFormats prints findings of trivy in every format.
func TestFormats(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	cases := map[string][]string{
		"Table":    {"findings", "shop"},
		"Limited":  {"findings", "shop", "--limit", "3"},
		"All":      {"findings", "shop", "--limit", "0"},
		"Wide":     {"findings", "shop", "-o", "wide", "--severity", "low"},
		"JSON":     {"findings", "shop", "-o", "json", "--min-severity", "medium", "--severity", "medium"},
		"Lines":    {"findings", "shop", "-o", "jsonl", "--severity", "medium,low"},
		"YAML":     {"findings", "shop", "-o", "yaml", "--severity", "med"},
		"CSV":      {"findings", "shop", "-o", "csv", "--severity", "low"},
		"SARIF":    {"findings", "shop", "-o", "sarif"},
		"JUnit":    {"findings", "shop", "-o", "junit", "--severity", "low,medium", "--fail-on", "medium"},
		"Markdown": {"findings", "shop", "-o", "md"},
		"None":     {"findings", "shop", "-o", "json", "--text", "no such text"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			got := w.Run(args...)
			if name != "JUnit" && got.Code != 0 || name == "JUnit" && got.Code != 2 {
				t.Errorf("exit code %d", got.Code)
			}
			golden(t, w, name, got)
		})
	}
}

// TestFormatsAreWhatTheySay reads each format as other programs do.
func TestFormatsAreWhatTheySay(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	w.Scan("hostile", reporttest.HostileFindings(t), nil)
	w.Scan("none", []byte("[]"), nil)
	validate := reporttest.SARIF(t)
	list := func(read func([]byte, any) error) func(string) (int, error) {
		return func(text string) (int, error) {
			var all []map[string]any
			err := read([]byte(text), &all)
			return len(all), err
		}
	}
	read := map[string]func(string) (int, error){
		"json": list(json.Unmarshal),
		"yaml": list(func(b []byte, v any) error { return yaml.Unmarshal(b, v) }),
		"jsonl": func(text string) (n int, err error) {
			for line := range strings.Lines(text) {
				n++
				if !json.Valid([]byte(line)) {
					return n, fmt.Errorf("line %d: %s", n, line)
				}
			}
			return n, nil
		},
		"csv": func(text string) (int, error) {
			rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
			return len(rows) - 1, err
		},
		"sarif": func(text string) (int, error) {
			var log struct{ Runs []struct{ Results []any } }
			if err := json.Unmarshal([]byte(text), &log); err != nil {
				return 0, err
			}
			return len(log.Runs[0].Results), validate([]byte(text))
		},
		"junit": func(text string) (int, error) {
			var suites struct {
				Suite struct {
					Cases []struct{} `xml:"testcase"`
				} `xml:"testsuite"`
			}
			err := xml.Unmarshal([]byte(text), &suites)
			if strings.Contains(text, `name="no findings"`) {
				return 0, err
			}
			return len(suites.Suite.Cases), err
		},
		"html": func(text string) (int, error) {
			_, data, _ := strings.Cut(text, `<script type="application/json" id="data">`)
			data, _, _ = strings.Cut(data, "</script>")
			var page struct{ Findings []any }
			err := json.Unmarshal([]byte(data), &page)
			return len(page.Findings), err
		},
	}
	for scan, want := range map[string]int{"shop": 20, "hostile": len(reporttest.HostileTexts), "none": 0} {
		for format, count := range read {
			got := w.Run("findings", scan, "-o", format)
			n, err := count(got.Out)
			if err != nil || n != want || got.Code != 0 {
				t.Errorf("%s as %s: %d findings, %v, exit code %d, want %d: %s", scan, format, n, err, got.Code, want, got.Err)
			}
		}
	}
}

// TestHostile holds that nothing of a finding reaches a terminal through tables, CSV and Markdown.
func TestHostile(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("hostile", reporttest.HostileFindings(t), nil)
	w.Scan("empty", []byte("[]"), nil)
	for _, args := range [][]string{
		{"findings", "hostile"},
		{"findings", "hostile", "--limit", "0"},
		{"findings", "hostile", "-o", "wide"},
		{"findings", "hostile", "-o", "csv"},
		{"findings", "hostile", "-o", "markdown"},
		{"diff", "empty", "hostile"},
		{"diff", "empty", "hostile", "-o", "markdown"},
	} {
		got := w.Run(args...)
		if got.Code != 0 || strings.ContainsAny(got.Out+got.Err, "\x1b\x00\x07\x7f\u009b\u202e") {
			t.Errorf("%v: exit code %d, control characters in %q", args, got.Code, got.Out)
		}
		if strings.Contains(args[len(args)-1], "csv") {
			rows, err := csv.NewReader(strings.NewReader(got.Out)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				for _, cell := range row {
					if strings.HasPrefix(cell, "=") {
						t.Errorf("cell %q", cell)
					}
				}
			}
		}
	}
}

func TestFailOn(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	w.Scan("ports", testdata(t, "nmap.json"), nil)
	w.Scan("rated", testdata(t, "rated.json"), nil, func(s *executionv1.Scan) {
		s.Status.Findings = executionv1.FindingStats{Count: new(int64(4)), FindingSeverities: executionv1.FindingSeverities{High: new(int64(3)), Low: new(int64(1))}}
	})
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"Reached":       {[]string{"findings", "shop", "--fail-on", "high"}, 2, "--fail-on high: 12 findings of that severity or worse"},
		"NotReached":    {[]string{"findings", "ports", "--fail-on", "low"}, 0, ""},
		"Least":         {[]string{"findings", "ports", "--fail-on", "informational"}, 2, "17 findings"},
		"FilteredOut":   {[]string{"findings", "shop", "--fail-on", "high", "--severity", "low"}, 0, ""},
		"BeyondLimit":   {[]string{"findings", "shop", "--limit", "1", "--fail-on", "low"}, 2, "20 findings"},
		"JSON":          {[]string{"findings", "shop", "-o", "json", "--fail-on", "medium"}, 2, "14 findings"},
		"CSV":           {[]string{"findings", "shop", "-o", "csv", "--fail-on", "medium"}, 2, "14 findings"},
		"SARIF":         {[]string{"findings", "shop", "-o", "sarif", "--fail-on", "medium"}, 2, "14 findings"},
		"Typo":          {[]string{"findings", "shop", "--fail-on", "hgih"}, 1, `--fail-on: severity "hgih" is none of critical, high, medium, low, informational`},
		"Critical":      {[]string{"findings", "rated", "--fail-on", "critical"}, 2, "--fail-on critical: 2 findings with a CVSS score of 9 or more, or that the scanner calls critical"},
		"NoneCritical":  {[]string{"findings", "rated", "--fail-on", "critical", "--category", "Vulnerable*", "--text", "shop"}, 0, ""},
		"CriticalJUnit": {[]string{"findings", "rated", "--fail-on", "critical", "-o", "junit"}, 2, "2 findings"},
		"OnlyCritical":  {[]string{"findings", "rated", "--min-severity", "critical", "--fail-on", "low"}, 2, "2 findings of that severity"},
		"MinCVSS":       {[]string{"findings", "rated", "--min-cvss", "7.5", "--fail-on", "low"}, 2, "2 findings of that severity"},
		"MinCVSSLow":    {[]string{"findings", "rated", "--min-cvss", "3", "--fail-on", "low"}, 2, "3 findings of that severity"},
		"NoneOfCVSS":    {[]string{"findings", "shop", "--min-cvss", "1", "--fail-on", "low"}, 0, "no findings are left by the filters"},
		"WrongCVSS":     {[]string{"findings", "rated", "--min-cvss", "11"}, 1, "--min-cvss: 11 is not between 0 and 10"},
		"NoSeverity":    {[]string{"findings", "shop", "--severity", "critical"}, 1, `--severity: severity "critical" is none of high`},
		"Diff":          {[]string{"diff", "ports", "rated", "--fail-on", "critical"}, 2, "--fail-on critical: 2 new findings"},
		"Wait":          {[]string{"wait", "rated", "--fail-on", "critical"}, 2, "scan rated has 2 findings of severity CRITICAL or above"},
		"WaitNone":      {[]string{"wait", "shop", "--fail-on", "critical"}, 0, ""},
		"Format":        {[]string{"findings", "shop", "-o", "jsn"}, 1, "did you mean json"},
		"LimitOfJSON":   {[]string{"findings", "shop", "-o", "json", "--limit", "3"}, 1, "--limit is for tables"},
		"NegativeLimit": {[]string{"findings", "shop", "--limit", "-3"}, 1, "want 0 for all or more"},
		"NoSuchScan":    {[]string{"findings", "shpo"}, 1, "did you mean shop?"},
		"NoScan":        {[]string{"findings"}, 1, "name a Scan, or choose several"},
		"ConnectTo":     {[]string{"findings", "shop", "--connect-to", "localhost"}, 1, "is not a host:port"},
	}
	for name, c := range cases {
		got := w.Run(c.args...)
		if got.Code != c.code || !strings.Contains(got.Err, c.says) {
			t.Errorf("%s: exit code %d, stderr %q, want %d and %q", name, got.Code, got.Err, c.code, c.says)
		}
		if got.Code == 2 && got.Out == "" {
			t.Errorf("%s: nothing was printed", name)
		}
	}
}

// TestFilters counts what is left.
func TestFilters(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	w.Scan("ports", testdata(t, "nmap.json"), nil)
	cases := map[string]struct {
		args []string
		want int
	}{
		"Category":         {[]string{"ports", "--category", "host"}, 2},
		"CategoryPattern":  {[]string{"ports", "--category", "open*"}, 15},
		"TwoCategories":    {[]string{"ports", "--category", "Open Port", "--category", "Host"}, 17},
		"NoCategory":       {[]string{"ports", "--category", "Port"}, 0},
		"Location":         {[]string{"ports", "--location", "10.0.0.1:8"}, 4},
		"LocationPattern":  {[]string{"ports", "--location", "tcp://*:81"}, 1},
		"Text":             {[]string{"ports", "--text", "FILTERED using"}, 2},
		"TwoTexts":         {[]string{"ports", "--text", "filtered", "--text", "82"}, 1},
		"TextOfAttribute":  {[]string{"shop", "--text", "installedversion"}, 20},
		"TextOfReference":  {[]string{"shop", "--text", "cve-2021"}, 3},
		"Together":         {[]string{"shop", "--severity", "high,low", "--category", "NPM*"}, 16},
		"SeverityOfLetter": {[]string{"shop", "--severity", "HIGH"}, 12},
	}
	for name, c := range cases {
		got := w.Run(append([]string{"findings", "-o", "jsonl"}, c.args...)...)
		if n := strings.Count(got.Out, "\n"); n != c.want || got.Code != 0 {
			t.Errorf("%s: %d findings, want %d: %s", name, n, c.want, got.Err)
		}
	}
}

// TestNew compares with the previous run: of the same ScheduledScan, or else of the same target.
func TestNew(t *testing.T) {
	w := clitest.New(t, cluster)
	var all []json.RawMessage
	if err := json.Unmarshal(testdata(t, "trivy.json"), &all); err != nil {
		t.Fatal(err)
	}
	part := func(from, to int) []byte {
		text, err := json.Marshal(all[from:to])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	other := func(s *executionv1.Scan) { s.Spec.Parameters = []string{"other-image"} }
	w.Scan("first", part(0, 10), nil)
	w.Scan("errored", part(0, 20), nil, func(s *executionv1.Scan) { s.Status.State = executionv1.ScanStateErrored })
	w.Scan("other", part(0, 20), nil, other)
	w.Scan("labelled", part(0, 15), nil, other, func(s *executionv1.Scan) { s.Labels = map[string]string{executionv1.LabelTarget: "shop"} })
	w.AwaitLaterSecond("labelled")
	w.Scan("second", part(5, 20), nil)
	w.Scan("another", part(5, 20), nil, func(s *executionv1.Scan) { s.Labels = map[string]string{executionv1.LabelTarget: "shop"} })
	got := w.Run("findings", "second", "--new", "-o", "jsonl")
	if n := strings.Count(got.Out, `"comparison":"new"`); n != 10 || got.Err != "compared with Scan first\n" || got.Code != 0 {
		t.Errorf("%d findings, stderr %q, want those of 10 to 20", n, got.Err)
	}
	if got := w.Run("findings", "another", "--new", "-o", "jsonl"); got.Err != "compared with Scan labelled\n" || strings.Count(got.Out, "\n") != 5 {
		t.Errorf("of the same label: %+v", got)
	}
	golden(t, w, "Compared", w.Run("findings", "second", "--against", "first", "--min-severity", "medium"))
	golden(t, w, "FirstRun", w.Run("findings", "first", "--new", "--limit", "1"))
	if got := w.Run("findings", "second", "--against", "second"); got.Code != 1 || !strings.Contains(got.Err, "is the Scan itself") {
		t.Errorf("against itself: %+v", got)
	}
	if got := w.Run("findings", "second", "--against", "frist"); got.Code != 1 || !strings.Contains(got.Err, "did you mean first?") {
		t.Errorf("against nobody: %+v", got)
	}
}

func TestDiff(t *testing.T) {
	w := clitest.New(t, cluster)
	var all []json.RawMessage
	if err := json.Unmarshal(testdata(t, "trivy.json"), &all); err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string][]json.RawMessage{"before": all[:12], "after": all[3:]} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		w.Scan(name, text, nil)
	}
	cases := map[string]struct {
		args []string
		code int
	}{
		"DiffTable":    {[]string{"diff", "before", "after"}, 0},
		"DiffAll":      {[]string{"diff", "before", "after", "--all", "--limit", "0"}, 0},
		"DiffLimited":  {[]string{"diff", "before", "after", "--limit", "2"}, 0},
		"DiffMarkdown": {[]string{"diff", "before", "after", "-o", "markdown"}, 0},
		"DiffFilter":   {[]string{"diff", "before", "after", "--severity", "high"}, 0},
		"DiffFailOn":   {[]string{"diff", "before", "after", "--fail-on", "low"}, 2},
		"DiffSame":     {[]string{"diff", "after", "after", "--fail-on", "low"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := w.Run(c.args...)
			if got.Code != c.code {
				t.Errorf("exit code %d, want %d", got.Code, c.code)
			}
			golden(t, w, name, got)
		})
	}
	var log struct {
		Old, New struct{ Name string }
		Findings []struct{ Comparison string }
		Counts   struct{ New, Known, Fixed int }
	}
	got := w.Run("diff", "before", "after", "--all", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &log); err != nil {
		t.Fatalf("%v in %s", err, got.Out)
	}
	want := []any{"before", "after", 20, 8, 9, 3}
	if diff := cmp.Diff(want, []any{log.Old.Name, log.New.Name, len(log.Findings), log.Counts.New, log.Counts.Known, log.Counts.Fixed}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFiles writes files whole or not at all.
func TestFiles(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), []byte("raw \x1b[31m bytes"))
	w.Scan("broken", testdata(t, "trivy.json")[:30_000], nil)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("shop.json", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.Run("findings", "broken", "-o", "json", "-O", "shop.json"); got.Code != 1 || !strings.Contains(got.Err, "the input ends too early") {
		t.Errorf("broken: %+v", got)
	}
	if text, err := os.ReadFile("shop.json"); err != nil || string(text) != "old" {
		t.Errorf("a failed download leaves %q, %v", text, err)
	}
	if got := w.Run("findings", "shop", "-o", "json", "-O", "shop.json"); got.Code != 0 || got.Out != "" {
		t.Errorf("%+v", got)
	}
	if got := w.Run("raw", "shop"); got.Out != "raw \x1b[31m bytes" || got.Err != "" {
		t.Errorf("raw: %+v", got)
	}
	if got := w.Run("raw", "shop", "--own-name"); got.Out != "" || got.Err != "result.json: 15 B\n" {
		t.Errorf("raw --own-name: %+v", got)
	}
	if got := w.Run("raw", "shop", "-O", dir); got.Code != 1 || !strings.Contains(got.Err, "is a folder, name a file") {
		t.Errorf("raw into a folder: %+v", got)
	}
	if got := w.Run("raw", "shop", "-O", filepath.Join(dir, "no", "folder")); got.Code != 1 || !strings.Contains(got.Err, "no such file or directory") {
		t.Errorf("raw into no folder: %+v", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("files %v, %v", files, err)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*part*"))
	if err != nil || len(hidden) != 0 {
		t.Errorf("parts are left: %v, %v", hidden, err)
	}
}

// TestWidth: a table takes no more columns than the terminal has, as long as each column can be read.
func TestWidth(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	for _, columns := range []int{60, 80, 100, 0} {
		w.Columns = columns
		widest := 0
		for line := range strings.Lines(w.Run("findings", "shop", "--limit", "0").Out) {
			widest = max(widest, termsafe.Width(strings.TrimSuffix(line, "\n")))
		}
		switch {
		case columns > 0 && widest > columns:
			t.Errorf("a terminal of %d columns gets lines of %d", columns, widest)
		case columns == 0 && widest <= 100:
			t.Errorf("a file gets lines of at most %d columns: this test needs longer texts", widest)
		}
	}
}

// TestColours paints severities on a terminal, and nothing in a file.
func TestColours(t *testing.T) {
	w := clitest.New(t, cluster)
	w.Scan("shop", testdata(t, "trivy.json"), nil)
	w.Color = true
	if got := w.Run("findings", "shop", "--limit", "0"); strings.Count(got.Out, "\x1b[31mHIGH\x1b[0m  ") != 12 || !strings.HasPrefix(got.Out, string(session.Heading)+"SEVERITY\x1b[0m   ") {
		t.Errorf("%q", got.Out)
	}
	file := filepath.Join(t.TempDir(), "table")
	if got := w.Run("findings", "shop", "-O", file); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "\x1b") || strings.Count(string(text), "\n") != 21 {
		t.Errorf("%q, %v", text, err)
	}
}
