// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/release"
)

const changelog = "CHANGELOG.md"

// decide looks at the repository and plans.
func (m *maker) decide(ctx context.Context, w release.Wishes) (release.Plan, error) {
	facts, err := m.observe(ctx, w.Version)
	if err != nil {
		return release.Plan{}, err
	}
	plan, err := release.Make(w, facts)
	if err != nil {
		return release.Plan{}, err
	}
	if plan.Changelog == "" && !plan.Tag {
		return plan, nil
	}
	// Git asks for it when everything is built.
	if _, err := m.git(ctx, "var", "GIT_COMMITTER_IDENT"); err != nil {
		return release.Plan{}, fmt.Errorf("the release is to be committed and tagged, and git does not know you: %w", err)
	}
	return plan, nil
}

func (m *maker) observe(ctx context.Context, v release.Version) (release.Facts, error) {
	f := release.Facts{Today: m.today}
	var err error
	if f.Head, err = m.git(ctx, "rev-parse", "HEAD"); err != nil {
		return f, err
	}
	seconds, err := m.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return f, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return f, fmt.Errorf("date of the commit: %w", err)
	}
	m.date = time.Unix(n, 0).UTC()
	changed, err := m.git(ctx, "status", "--porcelain")
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(changed) {
		_, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		f.Changed = append(f.Changed, strings.TrimSpace(file))
	}
	// An error says that there is no such tag.
	if tagged, err := m.git(ctx, "rev-parse", "--quiet", "--verify", "refs/tags/"+string(v)+"^{commit}"); err == nil {
		f.Tagged = tagged
	}
	text, err := os.ReadFile(filepath.Join(m.root, changelog))
	if err != nil {
		return f, err
	}
	f.Changelog = string(text)
	if f.Images, err = m.recipes(); err != nil {
		return f, err
	}
	f.Charts, err = m.charts()
	return f, err
}

func (m *maker) recipes() ([]release.ImageFact, error) {
	recipes, err := recipe.List(filepath.Join(m.root, "scanners", "images"))
	if err != nil {
		return nil, err
	}
	var all []release.ImageFact
	for _, r := range recipes {
		_, err := recipe.LoadLock(r)
		if err != nil && !errors.Is(err, recipe.ErrNoLock) {
			return nil, err
		}
		all = append(all, release.ImageFact{Name: r.Name, Locked: err == nil, Remedy: r.Remedy()})
	}
	return all, nil
}

// charts are the charts that are released, by the names of their folders.
func (m *maker) charts() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(m.root, "charts", "*", "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range files {
		if name := filepath.Base(filepath.Dir(f)); name != release.Library {
			all = append(all, name)
		}
	}
	return all, nil
}

// chartFiles are the files of a chart's folder that git knows: what was made beside them is not released.
func (m *maker) chartFiles(ctx context.Context, chart string) (release.Files, error) {
	folder := path.Join("charts", chart)
	list, err := m.git(ctx, "ls-files", "-z", "--", folder)
	if err != nil {
		return nil, err
	}
	files := release.Files{}
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == 0 }) {
		content, err := fs.ReadFile(os.DirFS(m.root), name)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(name, folder+"/")] = content
	}
	return files, nil
}

// git runs git and returns what it has said, without the line's end.
func (m *maker) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", slices.Concat([]string{"-C", m.root}, args)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
