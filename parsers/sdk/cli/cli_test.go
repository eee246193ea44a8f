// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/cli"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/retry"
)

type result struct {
	code                int
	out, err, lastWords string
}

func run(t *testing.T, stdin io.Reader, env map[string]string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	termination := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := cli.Program{
		Parsers: parsers.All(), Lookup: parsers.For, Env: func(name string) string { return env[name] },
		Clock: retry.Clock{
			Now:   func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
			Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		},
		Stdin: stdin, Stdout: &out, Stderr: &errOut, TerminationLog: process.LastWords(termination),
	}
	code := p.Run(t.Context(), args)
	words, err := os.ReadFile(termination)
	if err != nil {
		t.Fatal(err)
	}
	return result{code, out.String(), errOut.String(), string(words)}
}

func TestParse(t *testing.T) {
	raw, err := io.ReadAll(rawgen.Nmap(3, 2, true))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, scan := filepath.Join(dir, "raw.xml"), filepath.Join(dir, "scan.json")
	for name, content := range map[string][]byte{
		file: raw,
		scan: []byte(`{"metadata":{"name":"nightly","namespace":"team-a","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"scanType":"nmap"}}`),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	full := run(t, nil, nil, "parse", "--type", "nmap-xml", "--scan", scan, "--strict", file)
	if full.code != 0 || full.err != "" {
		t.Fatalf("%+v", full)
	}
	var findings []finding.Finding
	if err := json.Unmarshal([]byte(full.out), &findings); err != nil {
		t.Fatal(err)
	}
	want := finding.ScanInfo{CreatedAt: "2026-01-01T00:00:00Z", Name: "nightly", Namespace: "team-a", ScanType: "nmap"}
	if len(findings) != 12 || *findings[0].Scan != want || findings[0].ParsedAt != finding.String("2026-01-02T03:04:05.000Z") {
		t.Errorf("got %d findings, first %+v", len(findings), findings[0])
	}
	for name, r := range map[string]result{
		"OptionsAfterTheFile": run(t, nil, nil, "parse", file, "--type=nmap-xml", "--scan="+scan),
		"StandardInput":       run(t, bytes.NewReader(raw), nil, "parse", "--type", "nmap-xml", "--scan", scan, "-"),
	} {
		if r.code != 0 || r.out != full.out {
			t.Errorf("%s differs: %+v", name, r)
		}
	}
	bare := run(t, nil, nil, "parse", "--type", "nmap-xml", "--bare", file)
	if bare.code != 0 || strings.Contains(bare.out, `"id"`) || strings.Contains(bare.out, `"scan"`) || strings.Contains(bare.out, "parsed_at") {
		t.Errorf("bare: %+v", bare)
	}
}

// TestParseSaysWhatWasReached looks at standard error, and at the finding that a setting asks for.
func TestParseSaysWhatWasReached(t *testing.T) {
	const nothing = `<nmaprun><runstats><hosts up="0" down="1" total="1"/></runstats></nmaprun>`
	asked := map[string]string{sdk.EnvFindingWhenUnreached: "true"}
	for name, tt := range map[string]struct {
		env                map[string]string
		typ, raw, out, err string
	}{
		"Nothing": {nil, "nmap-xml", nothing, "[]\n", "parser: nothing was reached: 0 of 1 hosts answered\n"},
		"Asked":   {asked, "nmap-xml", nothing, `"category":"Nothing Reached"`, "parser: nothing was reached: 0 of 1 hosts answered\n"},
		"Unknown": {asked, "gitleaks-json", "[]", "[]\n", "parser: whether anything was reached is not known: gitleaks has found nothing"},
		"Reached": {asked, "whatweb-json", `[{"target":"h","request_config":{"headers":{}}}]`, `"WEB APPLICATION"`, ""},
	} {
		r := run(t, strings.NewReader(tt.raw), tt.env, "parse", "--type", tt.typ, "--strict", "-")
		if r.code != 0 || !strings.Contains(r.out, tt.out) || !strings.HasPrefix(r.err, tt.err) || tt.err == "" && r.err != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestStandardInputCanBeReadAgain makes the parser read twice.
func TestStandardInputCanBeReadAgain(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	r := run(t, rawgen.Nmap(30_000, 1, false), nil, "parse", "--type", "nmap-xml", "--bare", "-")
	if n := strings.Count(r.out, `"name":"Host: `); r.code != 0 || n != 30_000 {
		t.Errorf("exit code %d, %d hosts, %s", r.code, n, r.err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestQuestions(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"list"}, []string{"nmap-xml ", "gitleaks-json ", "test-txt "}},
		{[]string{"version"}, []string{"parser ", "go1."}},
		{[]string{"--version"}, []string{"parser "}},
		{[]string{"help"}, []string{"Usage:", "CRASH_ON_FAILED_VALIDATION", "--bare"}},
		{[]string{"--help"}, []string{"Usage:"}},
		{[]string{"-h"}, []string{"Usage:"}},
		{[]string{"parse", "--help"}, []string{"Options of parse:"}},
	} {
		r := run(t, nil, nil, tt.args...)
		for _, want := range tt.want {
			if r.code != 0 || r.err != "" || !strings.Contains(r.out, want) {
				t.Errorf("%q: want %q in %+v", tt.args, want, r)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.xml")
	if err := os.WriteFile(bad, []byte("<nmaprun>\n<host>"), 0o600); err != nil {
		t.Fatal(err)
	}
	const raw, findings = "http://store/raw?X-Amz-Signature=c0ffee", "http://store/findings?X-Amz-Signature=c0ffee"
	env := map[string]string{"SCAN_NAME": "nightly", "NAMESPACE": "team-a"}
	for name, tt := range map[string]struct {
		args   []string
		env    map[string]string
		want   string
		inAPod bool
	}{
		"Nothing":        {nil, nil, "no arguments", false},
		"Unknown":        {[]string{"frobnicate"}, nil, `unknown command "frobnicate"`, false},
		"TwoWords":       {[]string{"a?X-Amz-Signature=c0ffee", "b"}, nil, "neither a command nor a URL", false},
		"OneWordQuery":   {[]string{"a?X-Amz-Signature=c0ffee"}, nil, "unknown command", false},
		"NoType":         {[]string{"parse", bad}, nil, "needs --type", false},
		"UnknownType":    {[]string{"parse", "--type", "x", bad}, nil, `result type "x"`, false},
		"NoFile":         {[]string{"parse", "--type", "nmap-xml"}, nil, "needs one FILE", false},
		"TwoFiles":       {[]string{"parse", "--type", "nmap-xml", bad, bad}, nil, "needs one FILE", false},
		"UnknownOption":  {[]string{"parse", "--frob", bad}, nil, "-frob", false},
		"BareAndStrict":  {[]string{"parse", "--type", "nmap-xml", "--bare", "--strict", bad}, nil, "--strict has no use", false},
		"MissingFile":    {[]string{"parse", "--type", "nmap-xml", filepath.Join(dir, "none")}, nil, "no such file", false},
		"MissingScan":    {[]string{"parse", "--type", "nmap-xml", "--scan", filepath.Join(dir, "none"), bad}, nil, "no such file", false},
		"BadScan":        {[]string{"parse", "--type", "nmap-xml", "--scan", bad, bad}, nil, "read the Scan", false},
		"BadFile":        {[]string{"parse", "--type", "nmap-xml", bad}, nil, "line 2, byte 16", false},
		"StrictInvalid":  {[]string{"parse", "--type", "test-txt", "--strict", bad}, map[string]string{"PRODUCE_INVALID_FINDINGS": "true"}, "name: is missing", false},
		"NoEnvironment":  {[]string{raw, findings}, nil, "environment variable SCAN_NAME is not set", true},
		"OneURL":         {[]string{raw}, env, "takes two arguments", true},
		"NoCluster":      {[]string{raw, findings}, env, "find the API server", true},
		"BadKubeconfig":  {[]string{raw, findings}, map[string]string{"SCAN_NAME": "s", "NAMESPACE": "n", "KUBECONFIG": bad}, "read KUBECONFIG", true},
		"MissingExtraCA": {[]string{raw, findings}, map[string]string{"SCAN_NAME": "s", "NAMESPACE": "n", "NODE_EXTRA_CA_CERTS": filepath.Join(dir, "none")}, "extra CA", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, nil, tt.env, tt.args...)
			code := 1
			if name == "NoEnvironment" || name == "OneURL" {
				code = exitcode.Configuration
			}
			if r.code != code || !strings.Contains(r.err, tt.want) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("want one line with %q, got %+v", tt.want, r)
			}
			if strings.Contains(r.err+r.lastWords, "c0ffee") {
				t.Errorf("a secret is shown: %+v", r)
			}
			if tt.inAPod != strings.Contains(r.lastWords, tt.want) {
				t.Errorf("last words: %q", r.lastWords)
			}
		})
	}
}

func TestCrashIsAFailure(t *testing.T) {
	var errOut bytes.Buffer
	p := cli.Program{
		Lookup: func(string) (sdk.Parser, error) {
			return sdk.Parser{ResultType: "boom", Parse: func(context.Context, *sdk.Input, sdk.Emit) error { panic("boom") }}, nil
		},
		Env: func(string) string { return "" }, Clock: retry.Clock{Now: time.Now}, Stdin: strings.NewReader(""),
		Stdout: io.Discard, Stderr: &errOut,
	}
	if code := p.Run(t.Context(), []string{"parse", "--type", "boom", "-"}); code != 1 ||
		!strings.Contains(errOut.String(), "the parser for boom crashed, which is a defect of the parser: boom") ||
		strings.Contains(errOut.String(), "goroutine") {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
}
