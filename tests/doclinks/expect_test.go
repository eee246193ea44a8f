// SPDX-License-Identifier: Apache-2.0

package doclinks

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	needRow  = regexp.MustCompile(`(?m)^\| ([^|]+) \| (yes|partly|no) \| ([^|]+) \|$`)
	shownRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| (` + "`[^|]+`" + `) \|$`)
)

// TestEachYesIsShown holds docs/what-to-expect.md against the tests: each need that is met names tests that exist, and the others,
// which are met in part or not, say what is missing instead.
func TestEachYesIsShown(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "what-to-expect.md"))
	shown := map[string][]string{}
	for _, m := range shownRow.FindAllStringSubmatch(page, -1) {
		for _, name := range backquoted.FindAllStringSubmatch(m[2], -1) {
			shown[m[1]] = append(shown[m[1]], name[1])
		}
	}
	exists := namesOfTests(t)
	needs := needRow.FindAllStringSubmatch(page, -1)
	for _, m := range needs {
		need, yes := m[1], m[2] == "yes"
		if yes != (len(shown[need]) > 0) {
			t.Errorf("%q is %q and is shown by %d tests", need, m[2], len(shown[need]))
		}
		for _, name := range shown[need] {
			if !exists[name] {
				t.Errorf("%q is shown by %q, which does not exist", need, name)
			}
		}
		delete(shown, need)
	}
	for need := range shown {
		t.Errorf("tests show %q, which is no need of the page", need)
	}
	const all = 40
	if len(needs) != all {
		t.Errorf("%d needs found, want %d: does this test still see them?", len(needs), all)
	}
}

// namesOfTests returns the tests by "FOLDER: TestName", and the specs by "SUITE: text".
func namesOfTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, file := range files(t, "_test.go") {
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, file)
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			all[filepath.ToSlash(folder)+": "+m[1]] = true
		}
		for _, m := range spec.FindAllStringSubmatch(text, -1) {
			all[strings.TrimPrefix(filepath.ToSlash(folder), "tests/")+": "+m[1]] = true
		}
	}
	return all
}
