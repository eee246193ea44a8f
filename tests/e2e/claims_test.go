// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Za-z0-9_]+)(?:/[^`]*)?`")
	writtenTest = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
)

// TestClaimsOfSecurityHaveTests: each test that docs/security.md names is there.
func TestClaimsOfSecurityHaveTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(securityDoc)
	if err != nil {
		t.Fatal(err)
	}
	there := testsOfTheRepository(t)
	named := namedTest.FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Fatalf("%s names only %d tests", securityDoc, len(named))
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("%s names %s, and there is no such test", securityDoc, m[1])
		}
	}
	// The tables of threats say for each what holds it, and which test shows it, or that
	// nothing does.
	_, threats, _ := strings.Cut(string(text), "## Threats")
	threats, _, _ = strings.Cut(threats, "### What a Scan may bring along")
	if strings.Count(threats, "\n| it might") < 4 {
		t.Errorf("%s has no tables of threats", securityDoc)
	}
}

func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range writtenTest.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil || len(there) < 100 {
		t.Fatalf("%d tests found (%v)", len(there), err)
	}
	return there
}
