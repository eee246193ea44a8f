// SPDX-License-Identifier: Apache-2.0

package cascading_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/explain"
	"github.com/scanyard/scanyard/hooks/cascading"
)

// explainCases are those of the package that answers.
var explainCases = filepath.Join("..", "..", "findings", "cascade", "explain", "testdata")

// TestCommandOnFiles runs the command on the files of each case.
func TestCommandOnFiles(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(explainCases, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			args := []string{"--scan", filepath.Join(folder, "scan.yaml"), "--findings", filepath.Join(folder, "findings.json"), "--rules", filepath.Join(folder, "rules.yaml")}
			if definition := filepath.Join(folder, "definition.yaml"); exists(definition) {
				args = append(args, "--parse-definition", definition)
			}
			var stdout, stderr bytes.Buffer
			code := cascading.Command(args, &stdout, &stderr)
			golden := filepath.Join(folder, "output.yaml")
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), stdout.String()); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, stderr.String())
			}
			if fails := strings.Contains(string(want), "\nerror:"); (code == 1) != fails || code > 1 {
				t.Errorf("exit code %d although the hook would fail: %t", code, fails)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestCommandRefuses(t *testing.T) {
	folder := filepath.Join(explainCases, "ports")
	file := func(name string) string { return filepath.Join(folder, name) }
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("a: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	three := func(scan, findings, rules string, more ...string) []string {
		return append([]string{"--scan", scan, "--findings", findings, "--rules", rules}, more...)
	}
	cases := map[string]struct {
		args []string
		code int
		says string
	}{
		"Nothing":        {nil, 2, "--scan, --findings and --rules are needed"},
		"Help":           {[]string{"--help"}, 0, "Tells which Scans the findings of a Scan would start"},
		"NoSuchFlag":     {[]string{"--nope"}, 2, "flag provided but not defined: -nope"},
		"Word":           {three(file("scan.yaml"), file("findings.json"), file("rules.yaml"), "word"), 2, `"word" was not expected`},
		"Format":         {three(file("scan.yaml"), file("findings.json"), file("rules.yaml"), "--output", "xml"), 2, `there is no format "xml"`},
		"NoScan":         {three("nope.yaml", file("findings.json"), file("rules.yaml")), 2, "nope.yaml"},
		"ScanIsARule":    {three(file("rules.yaml"), file("findings.json"), file("rules.yaml")), 2, "rules.yaml holds 4 objects, want one"},
		"BrokenYAML":     {three(file("scan.yaml"), file("findings.json"), broken), 2, "broken.yaml"},
		"NoFindings":     {three(file("scan.yaml"), "nope.json", file("rules.yaml")), 2, "nope.json"},
		"FindingsNoList": {three(file("scan.yaml"), file("scan.yaml"), file("rules.yaml")), 2, "read findings"},
		"OtherKind":      {three(filepath.Join(explainCases, "scope", "definition.yaml"), file("findings.json"), file("rules.yaml")), 2, "the Scan has another kind, or no name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := cascading.Command(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("exit code %d, stderr %q, want %d and %q", code, stderr.String(), c.code, c.says)
			}
		})
	}
}

// TestExplainAnswersAsTheHook compares the children of an explanation with those that the hook creates.
func TestExplainAnswersAsTheHook(t *testing.T) {
	a := newAPI(t)
	rules := []string{ruleWith("CascadingRule", "a", anyPort, ""), ruleWith("CascadingRule", "b", `{"attributes":{"port":443}}`, "")}
	q := explain.Question{
		Scan:     decode(t, scanWith(`{"deduplicate":true}`, "")),
		Findings: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(twoPorts)), nil },
	}
	for i, r := range rules {
		a.put(rulesPath+"/"+string(rune('a'+i)), r)
		q.Rules = append(q.Rules, decode(t, r))
	}
	if got := a.run(t, scanWith(`{"deduplicate":true}`, ""), twoPorts); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	e, err := explain.Explain(q)
	if err != nil || e.Error != "" {
		t.Fatal(err, e.Error)
	}
	var want []string
	for _, path := range a.created {
		want = append(want, a.objects[path])
	}
	var got []string
	for _, c := range e.Children {
		raw, err := finding.AppendValue(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(raw))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hook against explanation:\n%s", diff)
	}
}
