// SPDX-License-Identifier: Apache-2.0

package begin

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func quiet(string) {}

// TestNewScanner begins one in a copy of the repository: it compiles, is registered, and its test fails until the
// parser is written.
func TestNewScanner(t *testing.T) {
	root := t.TempDir()
	for _, part := range []string{"apis", "findings", "parsers", "podkit", "charts/test-scan", "charts/import"} {
		if err := os.CopyFS(filepath.Join(root, part), sources(filepath.Join("../..", part))); err != nil {
			t.Fatal(err)
		}
	}
	if err := Scanner(root, "my-tool", "", quiet); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = filepath.Join(root, "parsers"), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("vet", ".", "./mytool"); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}
	if out, err := run("test", "-run", "TestRegistry|TestImportTakesEachFormat", "."); err != nil {
		t.Errorf("the registry: %v\n%s", err, out)
	}
	out, err := run("test", "./mytool")
	if err == nil || !strings.Contains(out, "neither expected findings nor an expected error") || strings.Contains(out, "FAIL: TestFixtures/truncated") {
		t.Errorf("the parser's test must fail for the one case that nobody has written: %v\n%s", err, out)
	}
	for file, want := range map[string]string{
		"charts/my-tool/values.yaml":            "repository: docker.io/scanyard/scanner-my-tool",
		"charts/my-tool/Chart.lock":             "scanyard-lib",
		"charts/my-tool/templates/scanner.yaml": `"resultType" "my-tool-json"`,
		"charts/my-tool/.helmignore":            ".gotmpl",
	} {
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "test-scan") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	if files, err := filepath.Glob(filepath.Join(root, "parsers", "mytool", "*.go")); err != nil || len(files) != 3 {
		t.Errorf("Go files %q, %v", files, err)
	} else if out, err := exec.CommandContext(t.Context(), "gofmt", append([]string{"-l"}, files...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v\n%s", err, out)
	}
	if err := Scanner(root, "my-tool", "", quiet); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second time: %v", err)
	}
}

// TestNewScannerOfKnownFormat begins a chart only.
func TestNewScannerOfKnownFormat(t *testing.T) {
	root := t.TempDir()
	for _, chart := range []string{"charts/test-scan", "charts/import"} {
		if err := os.CopyFS(filepath.Join(root, chart), sources(filepath.Join("../..", chart))); err != nil {
			t.Fatal(err)
		}
	}
	if err := Scanner(root, "lintly", "sarif", quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "parsers")); err == nil {
		t.Error("there is a parser")
	}
	for file, want := range map[string]string{"values.yaml": "\n  enabled: false\n", "templates/scanner.yaml": `"resultType" "sarif"`} {
		if text, err := os.ReadFile(filepath.Join(root, "charts/lintly", file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	if err := Scanner(root, "other", "sarif-json", quiet); err == nil || !strings.Contains(err.Error(), "RESULT_TYPE") || !strings.Contains(err.Error(), "sarif, sbom-cyclonedx") {
		t.Errorf("an unknown format: %v", err)
	}
}

// sources leaves out what would be large and is not needed.
func sources(dir string) fs.FS { return withoutTestdata{os.DirFS(dir)} }

type withoutTestdata struct{ fs.FS }

func (f withoutTestdata) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(f.FS, name)
	var kept []fs.DirEntry
	for _, e := range all {
		if e.Name() != "testdata" && e.Name() != "charts" {
			kept = append(kept, e)
		}
	}
	return kept, err
}

func TestNamesOfScanners(t *testing.T) {
	for _, bad := range []string{"", "My", "my_tool", "-x", "x-", "a--b", "1x", "../x", strings.Repeat("a", 41), "type", "main", "init", "go"} {
		if err := Scanner(t.TempDir(), bad, "", quiet); err == nil || !strings.Contains(err.Error(), "NAME=") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
