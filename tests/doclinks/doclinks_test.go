// SPDX-License-Identifier: Apache-2.0

package doclinks

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the checkout.
const root = "../.."

// skipped are folders that hold nothing of ours: what was built, and what tools keep.
var skipped = map[string]bool{".git": true, "bin": true, "dist": true, "node_modules": true}

// files returns the files of the repository with a suffix.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped[d.Name()]:
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, suffix):
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// ours returns what matches a file or folder of the repository in backquotes, as in `operator/internal/scan/act.go`. Names in capitals
// stand for something of the reader's.
func ours(t *testing.T) *regexp.Regexp {
	t.Helper()
	var top []string
	for _, name := range folders(t, root) {
		if !skipped[name] {
			top = append(top, regexp.QuoteMeta(name))
		}
	}
	return regexp.MustCompile("`((?:" + strings.Join(top, "|") + ")/[a-z0-9_./-]+)`")
}

// folders returns the names of the folders directly below a folder.
func folders(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	return all
}

// exercise is what readers of a guide make themselves.
var exercise = regexp.MustCompile(`^(parsers|charts|hooks)/(whois|drop-?informational)`)

// TestNamedFilesExist holds that what the documentation tells people to look at is there, from the top or beside the
// document. Decisions are left out: they tell of the day on which they were taken.
func TestNamedFilesExist(t *testing.T) {
	seen := 0
	ours := ours(t)
	for _, file := range files(t, ".md") {
		if strings.Contains(file, "docs/decisions") {
			continue
		}
		for _, m := range ours.FindAllStringSubmatch(fence.ReplaceAllString(read(t, file), ""), -1) {
			seen++
			_, fromTop := os.Stat(filepath.Join(root, m[1]))
			_, beside := os.Stat(filepath.Join(filepath.Dir(file), m[1]))
			if fromTop != nil && beside != nil && !exercise.MatchString(m[1]) {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d files found: does this test still see them?", seen)
	}
}

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	seen := 0
	for _, file := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %q: %v", file, m[1], err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			seen++
			target := file
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(file), u.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %q leads nowhere", file, m[1])
				continue
			}
			if u.Fragment != "" && strings.HasSuffix(target, ".md") && !anchors(read(t, target))[u.Fragment] {
				t.Errorf("%s: link %q: there is no such heading", file, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d links found: does this test still see them?", seen)
	}
}

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		text := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(strings.TrimSpace(text), " ", "-")] = true
	}
	return all
}
