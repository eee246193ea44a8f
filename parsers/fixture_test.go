// SPDX-License-Identifier: Apache-2.0

package parsers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

// folders maps the folders of the fixtures to result types. A folder that is not here is of a parser still to come.
var folders = map[string]string{
	"ffuf":                     "ffuf-json",
	"git-repo-scanner":         "git-repo-scanner-json",
	"gitleaks":                 "gitleaks-json",
	"kube-hunter":              "kube-hunter-json",
	"ncrack":                   "ncrack-xml",
	"nikto":                    "nikto-json",
	"nmap":                     "nmap-xml",
	"nuclei":                   "nuclei-json",
	"screenshooter":            "screenshot-png",
	"semgrep":                  "semgrep-json",
	"ssh-audit":                "ssh-audit-json",
	"sslyze":                   "sslyze-json",
	"subfinder":                "subfinder-json",
	"test-scan":                "test-txt",
	"trivy":                    "trivy-json",
	"trivy-sbom":               "sbom-cyclonedx",
	"whatweb":                  "whatweb-json",
	"wpscan":                   "wpscan-json",
	"zap-automation-framework": "zap-xml",
}

// TestFixtures parses every case below the folder in the environment variable FIXTURES, by default the copies kept
// here. The layout is described in testdata/fixtures/README.md.
func TestFixtures(t *testing.T) {
	root := os.Getenv("FIXTURES")
	if root == "" {
		root = filepath.Join("testdata", "fixtures")
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatalf("read the fixtures: %v", err)
	}
	present := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		present[e.Name()] = true
		t.Run(e.Name(), func(t *testing.T) {
			resultType, ok := folders[e.Name()]
			if !ok {
				t.Skipf("there is no parser for %s yet", e.Name())
			}
			parser, err := parsers.For(resultType)
			if err != nil {
				t.Fatal(err)
			}
			sdktest.Fixtures(t, parser, filepath.Join(root, e.Name()))
		})
	}
	for name := range folders {
		if !present[name] {
			t.Errorf("%s has no folder %s", root, name)
		}
	}
}

func TestRegistry(t *testing.T) {
	all := parsers.All()
	types := make([]string, len(all))
	for i, p := range all {
		types[i] = p.ResultType
		if p.ResultType == "" || p.Summary == "" || p.Parse == nil {
			t.Errorf("parser %d (%q) is not complete", i, p.ResultType)
		}
		if err := p.CheckKinds(); err != nil {
			t.Errorf("%s: %v", p.ResultType, err)
		}
		if got, err := parsers.For(p.ResultType); err != nil || got.ResultType != p.ResultType {
			t.Errorf("For(%q): %q, %v", p.ResultType, got.ResultType, err)
		}
	}
	if !slices.IsSorted(types) || len(slices.Compact(slices.Clone(types))) != len(types) {
		t.Errorf("result types are not sorted or not unique: %q", types)
	}
	for folder, resultType := range folders {
		if !slices.Contains(types, resultType) {
			t.Errorf("folder %s is mapped to %q, which no parser reads", folder, resultType)
		}
	}
	_, err := parsers.For("no-such-type")
	if err == nil || !strings.Contains(err.Error(), `"no-such-type"`) || !strings.Contains(err.Error(), "nmap-xml") {
		t.Errorf("want an error with the type and those there are, got %v", err)
	}
}

// FuzzAll gives the same bytes to every parser, also to those that expect another format.
func FuzzAll(f *testing.F) {
	for _, seed := range []string{"", "null", "[]", "{}", "<nmaprun/>", "[{}]", "\uFEFF", "\x00"} {
		f.Add([]byte(seed))
	}
	all := parsers.All()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range all {
			sdktest.Fuzz(t, p, raw)
		}
	})
}

// notImported are formats of what only Scanyard itself makes, or of what is not a list of findings.
var notImported = []string{"registry-json", "screenshot-png", "test-txt"}

// TestImportTakesEachFormat: the chart import has a ScanType for each format that somebody may bring along.
func TestImportTakesEachFormat(t *testing.T) {
	values, err := os.ReadFile(filepath.Join("..", "charts", "import", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parsers.All() {
		if has := strings.Contains(string(values), "\n  - "+p.ResultType+"\n"); has == slices.Contains(notImported, p.ResultType) {
			t.Errorf("resultTypes of charts/import/values.yaml and %s: listed %v, want %v", p.ResultType, has, !has)
		}
	}
}
