// SPDX-License-Identifier: Apache-2.0

package doclinks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lastDefect is the highest number of the list.
const lastDefect = 69

var (
	update = flag.Bool("update", false, "write the tests that exist into docs/defects.md")

	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	// number and another one, as in TestDefect17And18FailedHook.
	defectName = regexp.MustCompile(`^TestDefect(\d+)(?:And(\d+))?`)
	defectRow  = regexp.MustCompile(`(?m)^\| (\d+) \|(.*)\|([^|]*)\|$`)
	quoted     = regexp.MustCompile("`(Test\\w+|[a-z0-9]+: [^`]+)`")

	// Specs of Ginkgo have a text instead of a name. Documents name them with their package
	// before it, and defect labels those that hold against a defect.
	spec        = regexp.MustCompile(`\b(?:It|Describe|DescribeTable)\("([^"]+)", ([^\n]*)`)
	defectLabel = regexp.MustCompile(`\bdefect\(([\d, ]+)\)`)
)

// TestDefectTable holds the last column of docs/defects.md against the tests that exist.
func TestDefectTable(t *testing.T) {
	exists := map[string]bool{}
	byNumber := map[int][]string{}
	for _, file := range files(t, "_test.go") {
		for _, m := range spec.FindAllStringSubmatch(read(t, file), -1) {
			name := filepath.Base(filepath.Dir(file)) + ": " + m[1]
			exists[name] = true
			for _, n := range labelled(t, m[2]) {
				byNumber[n] = append(byNumber[n], name)
			}
		}
		for _, m := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
			if exists[m[1]] {
				continue
			}
			exists[m[1]] = true
			for _, n := range numbers(t, m[1]) {
				byNumber[n] = append(byNumber[n], m[1])
			}
		}
	}
	path := filepath.Join(root, "docs", "defects.md")
	have := read(t, path)
	seen := map[int]bool{}
	want := defectRow.ReplaceAllStringFunc(have, func(row string) string {
		m := defectRow.FindStringSubmatch(row)
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		seen[n] = true
		return fmt.Sprintf("| %d |%s|%s|", n, m[2], column(m[3], byNumber[n], exists))
	})
	for n := 1; n <= lastDefect; n++ {
		if !seen[n] {
			t.Errorf("docs/defects.md has no row %d", n)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have == want {
		return
	}
	old, now := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range now {
		if old[i] != now[i] {
			t.Errorf("docs/defects.md, line %d, is\n  %s\nand should be\n  %s", i+1, old[i], now[i])
		}
	}
	t.Log("to correct it: GOWORK=off go -C tests test ./doclinks -update")
}

// numbers returns the numbers of the defects that a test is about.
func numbers(t *testing.T, name string) []int {
	t.Helper()
	var all []int
	if m := defectName.FindStringSubmatch(name); m != nil {
		for _, text := range m[1:] {
			if text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	return all
}

// labelled returns the numbers of the defects among what decorates a spec.
func labelled(t *testing.T, decorators string) []int {
	t.Helper()
	m := defectLabel.FindStringSubmatch(decorators)
	if m == nil {
		return nil
	}
	var all []int
	for text := range strings.SplitSeq(m[1], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// column returns what the last column of a row should be: the tests of that number, and
// of those that were written in by hand the ones that exist.
func column(have string, tests []string, exists map[string]bool) string {
	tests = slices.Clone(tests)
	for _, m := range quoted.FindAllStringSubmatch(have, -1) {
		if !strings.HasPrefix(m[1], "TestDefect") && exists[m[1]] {
			tests = append(tests, m[1])
		}
	}
	if len(tests) == 0 {
		return " "
	}
	slices.Sort(tests)
	return " `" + strings.Join(slices.Compact(tests), "`, `") + "` "
}
