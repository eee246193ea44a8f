// SPDX-License-Identifier: Apache-2.0

package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/scanners/internal/layer"
)

// checkLibraries looks whether each program in a tree finds its shared libraries, and those theirs. Maintainer
// scripts are not run, so a link that update-alternatives would have made may be missing; that is said here and
// not by the first scan.
func checkLibraries(t *layer.Tree, triplet string) error {
	c := libraries{tree: t, known: map[string]bool{}, dirs: []string{
		"usr/lib/" + triplet, "usr/lib", "usr/lib64", "usr/local/lib",
	}}
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/local/bin"} {
		names, err := t.Within(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := c.check(n); err != nil {
				return err
			}
		}
	}
	if len(c.missing) > 0 {
		return fmt.Errorf("shared libraries are missing: %s; add their packages, or the links that update-alternatives would make", strings.Join(c.missing, ", "))
	}
	return nil
}

type libraries struct {
	tree    *layer.Tree
	dirs    []string
	known   map[string]bool
	missing []string
}

func (c *libraries) check(name string) error {
	real, err := c.tree.Real(name)
	if err != nil || c.known[real] {
		return err
	}
	c.known[real] = true
	content, err := c.tree.Open(real)
	if err != nil || content == nil {
		return err
	}
	f, err := elf.NewFile(content)
	if err != nil {
		return nil //nolint:nilerr // a script, or anything else that is not an ELF file
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dirs, err := c.searched(f, path.Dir(real))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, lib := range needed {
		at, err := c.find(lib, dirs)
		if err != nil {
			return err
		}
		if at == "" {
			c.missing = append(c.missing, lib+" (for /"+real+")")
			continue
		}
		if err := c.check(at); err != nil {
			return err
		}
	}
	return nil
}

// searched are the folders that a file asks for, then the folders of all.
func (c *libraries) searched(f *elf.File, origin string) ([]string, error) {
	var own []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := f.DynString(tag)
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return nil, err
		}
		for _, p := range paths {
			for dir := range strings.SplitSeq(p, ":") {
				own = append(own, strings.NewReplacer("$ORIGIN", "/"+origin, "${ORIGIN}", "/"+origin).Replace(dir))
			}
		}
	}
	return slices.Concat(own, c.dirs, []string{origin}), nil
}

func (c *libraries) find(lib string, dirs []string) (string, error) {
	for _, d := range dirs {
		p := path.Join(d, lib)
		content, err := c.tree.Open(p)
		if err != nil {
			return "", err
		}
		if content != nil {
			return p, nil
		}
	}
	return "", nil
}
