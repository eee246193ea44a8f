// SPDX-License-Identifier: Apache-2.0

package gitrepo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a repository that can be cloned.
type Repository struct {
	// URL is what to clone.
	URL string
	// File is the file that holds the credential.
	File string
	// Secret is the planted credential.
	Secret string

	server *httptest.Server
}

// Start makes the repository below dir and serves it.
func Start(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{File: "deploy/settings.py", Secret: token()}
	work, bare := filepath.Join(dir, "work"), filepath.Join(dir, "serve", "shop.git")
	files := map[string]string{
		"README.md":  "# Shop\n\nA demo.\n",
		"shop.py":    "def total(prices):\n    return sum(prices)\n",
		r.File:       fmt.Sprintf("HOST = \"shop.example\"\nDEPLOY_TOKEN = %q\n", r.Secret),
		"deploy/run": "#!/bin/sh\nexec python3 shop.py\n",
	}
	if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(filepath.Dir(bare), 0o755)); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	if err := git(ctx, work, "init", "--quiet", "--initial-branch=main"); err != nil {
		return nil, err
	}
	for name, text := range files {
		path := filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return nil, fmt.Errorf("make repository: %w", err)
		}
	}
	for _, args := range [][]string{
		{"add", "."},
		{"commit", "--quiet", "-m", "first version"},
		// Removing it later does not help: it stays in the history.
		{"rm", "--quiet", r.File},
		{"commit", "--quiet", "-m", "read the token from the environment"},
		{"clone", "--quiet", "--bare", work, bare},
		{"--git-dir", bare, "update-server-info"}, // for clones over plain HTTP
	} {
		if err := git(ctx, work, args...); err != nil {
			return nil, err
		}
	}
	r.server = httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(bare))))
	r.URL = r.server.URL + "/shop.git"
	return r, nil
}

// token looks like a personal access token of a well-known code host. It is put
// together here so that scanners of this repository have nothing to find.
func token() string {
	return strings.Join([]string{"ghp", "_", (rand.Text() + rand.Text())[:36]}, "")
}

// git runs git without the settings of the user who runs this.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Demo", "GIT_AUTHOR_EMAIL=demo@example.com", "GIT_COMMITTER_NAME=Demo", "GIT_COMMITTER_EMAIL=demo@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// Close stops serving.
func (r *Repository) Close() { r.server.Close() }
