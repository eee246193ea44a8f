// SPDX-License-Identifier: Apache-2.0

package doclinks

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var backquoted = regexp.MustCompile("`([^`\n]+)`")

// TestReadmesNameTheFolders holds the README of each module against the folders of the module: each folder with Go code directly below the
// module and below its internal is named there, and each folder of internal and cmd that is named there exists.
func TestReadmesNameTheFolders(t *testing.T) {
	seen := 0
	for _, module := range folders(t, root) {
		dir := filepath.Join(root, module)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		readme := filepath.Join(dir, "README.md")
		var named []string
		for _, m := range backquoted.FindAllStringSubmatch(fence.ReplaceAllString(read(t, readme), ""), -1) {
			named = append(named, expand(strings.TrimSuffix(m[1], "/"))...)
		}
		for _, folder := range append(codeFolders(t, dir, ""), codeFolders(t, dir, "internal")...) {
			seen++
			if !slices.ContainsFunc(named, func(n string) bool { return n == folder || n == path.Base(folder) || strings.HasPrefix(n, folder+"/") }) &&
				!registered(t, dir, folder, named) {
				t.Errorf("%s does not name `%s`", readme, folder)
			}
		}
		for _, n := range named {
			if _, err := os.Stat(filepath.Join(dir, n)); err != nil && ownFolder.MatchString(n) {
				t.Errorf("%s names `%s`, which does not exist", readme, n)
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d folders found: does this test still see them?", seen)
	}
}

// expand returns the paths that a name with braces stands for, as in `internal/{jsondoc,severity}`.
func expand(name string) []string {
	m := braces.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	var all []string
	for part := range strings.SplitSeq(m[2], ",") {
		all = append(all, m[1]+part)
	}
	return all
}

var braces = regexp.MustCompile(`^(.*)\{([^{}]+)\}$`)

// ownFolder is a folder below internal or cmd of the module whose README names the folder.
var ownFolder = regexp.MustCompile(`^(internal|cmd)/[a-z0-9_./-]+$`)

// registered says whether the README names registry.go, and registry.go imports the folder: a parser is found there.
func registered(t *testing.T, dir, folder string, named []string) bool {
	t.Helper()
	return slices.Contains(named, "registry.go") && strings.Contains(read(t, filepath.Join(dir, "registry.go")), "/"+filepath.Base(dir)+"/"+folder+`"`)
}

// codeFolders returns the folders directly below a folder of a module that hold Go code, at any depth, as paths from the module's.
func codeFolders(t *testing.T, module, below string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(module, below)); err != nil {
		return nil
	}
	var all []string
	for _, name := range folders(t, filepath.Join(module, below)) {
		if name != "internal" && name != "testdata" && holdsCode(t, filepath.Join(module, below, name)) {
			all = append(all, path.Join(below, name))
		}
	}
	return all
}

func holdsCode(t *testing.T, dir string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
