// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

// Builder runs the go command.
type Builder struct {
	// Root is the repository's root, with go.work.
	Root string
	// Env is the environment of the go command, without what decides about the result.
	Env []string
	// Version and Revision are linked into our programs, if not empty.
	Version, Revision string
}

// flags give the same program anywhere. Trimming paths is what makes a digest independent of where the
// repository lies. They are the Makefile's, so that both share the build cache: what is linked keeps no debugging data, so none is made.
var flags = []string{"-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false"}

// environ sets what the result depends on, over whatever the caller's environment says.
func (b *Builder) environ(p recipe.Platform, extra ...string) []string {
	fixed := []string{"CGO_ENABLED=0", "GOEXPERIMENT=", "GOOS=" + p.OS(), "GOARCH=" + p.Arch(), "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOFLAGS="}
	return slices.Concat(b.Env, fixed, extra)
}

// Program builds a main package of this repository into file out.
func (b *Builder) Program(ctx context.Context, program recipe.Program, p recipe.Platform, out string) error {
	ld := "-s -w"
	const info = " -X github.com/scanyard/scanyard/apis/buildinfo."
	if b.Version != "" {
		ld += info + "version=" + b.Version
	}
	if b.Revision != "" {
		ld += info + "commit=" + b.Revision
	}
	// In a module outside of the workspace the package is named from that module's folder.
	dir, pkg, workspace := b.Root, program.Package, filepath.Join(b.Root, "go.work")
	if program.Module != "" {
		dir, pkg, workspace = filepath.Join(b.Root, filepath.FromSlash(program.Module)), "."+strings.TrimPrefix(pkg, program.Module), "off"
	}
	args := append([]string{"build"}, flags...)
	_, err := b.run(ctx, dir, b.environ(p, "GOWORK="+workspace, "GOEXPERIMENT="+program.Experiment), append(args, "-ldflags="+ld, "-o", out, pkg)...)
	if err != nil {
		return fmt.Errorf("build %s for %s: %w", program.Package, p, err)
	}
	return nil
}

// download is a module in the module cache.
type download struct{ Version, Sum, Dir, Error string }

// download fetches a tool's module. The go command holds it against the checksum database, unless its settings
// say otherwise.
func (b *Builder) download(ctx context.Context, t recipe.Tool) (*download, error) {
	out, err := b.run(ctx, os.TempDir(), slices.Concat(b.Env, []string{"GOWORK=off", "GOFLAGS="}), "mod", "download", "-json", t.Module+"@"+t.Version)
	if err != nil {
		return nil, fmt.Errorf("fetch %s@%s: %w", t.Module, t.Version, err)
	}
	m := &download{}
	if err := json.Unmarshal(out, m); err != nil {
		return nil, fmt.Errorf("fetch %s@%s: %w", t.Module, t.Version, err)
	}
	if m.Error != "" {
		return nil, fmt.Errorf("fetch %s@%s: %s", t.Module, t.Version, m.Error)
	}
	return m, nil
}

// Sum looks up the checksum of a tool's module.
func (b *Builder) Sum(ctx context.Context, t recipe.Tool) (string, error) {
	m, err := b.download(ctx, t)
	if err != nil {
		return "", err
	}
	return m.Sum, nil
}

// ErrSum says that a module is another one than the one that was locked.
var ErrSum = errors.New("has another checksum than the one in the lock")

// Tool builds a program of the module proxy below dir, and returns its file.
//
// It is built from a module that requires nothing but the tool, with the tool's own go.sum: the lock's checksum
// is over that file too, and so over everything that is linked in. ("go install" refuses to cross compile where
// GOBIN is set, and asks the proxy for lists of versions that it then does not need.)
func (b *Builder) Tool(ctx context.Context, t recipe.Tool, sum string, p recipe.Platform, dir string) (string, error) {
	m, err := b.download(ctx, t)
	if err != nil {
		return "", err
	}
	if m.Sum != sum {
		return "", fmt.Errorf("%s@%s %w: %s, not %s", t.Module, t.Version, ErrSum, m.Sum, sum)
	}
	sums, err := os.ReadFile(filepath.Join(m.Dir, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a tool without dependencies has none
		return "", fmt.Errorf("build %s: %w", t.Module, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("build %s: %w", t.Module, err)
	}
	mod := fmt.Sprintf("module tool\n\ngo 1.26.0\n\nrequire %s %s\n", t.Module, t.Version)
	sums = append(sums, fmt.Sprintf("%s %s %s\n", t.Module, t.Version, sum)...)
	err = os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600)
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600)); err != nil { //nolint:gosec // a folder of this build
		return "", fmt.Errorf("build %s: %w", t.Module, err)
	}
	out := filepath.Join(dir, "program")
	args := append([]string{"build", "-mod=mod"}, flags...)
	if _, err := b.run(ctx, dir, b.environ(p, "GOWORK=off"), append(args, "-ldflags=-s -w", "-o", out, t.Main())...); err != nil {
		return "", fmt.Errorf("build %s@%s for %s: %w", t.Main(), t.Version, p, err)
	}
	return out, nil
}

func (b *Builder) run(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("the go command is needed: %w", err)
	}
	// "go mod download -json" reports its errors in JSON.
	if err != nil && out.Len() == 0 {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(tail(said.Bytes())))
	}
	if err != nil && args[0] != "mod" {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(tail(said.Bytes())))
	}
	return out.Bytes(), nil
}

// tail keeps the end of a long message, where compilers say what is wrong.
func tail(b []byte) []byte {
	const most = 4096
	if len(b) > most {
		return b[len(b)-most:]
	}
	return b
}
