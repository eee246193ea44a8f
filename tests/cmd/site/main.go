// SPDX-License-Identifier: Apache-2.0

// Command site builds the documentation as a site with Hugo: one folder for the working tree and one for the newest release of each minor
// version. It fails where a link leads nowhere.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"

	"github.com/scanyard/scanyard/tests/site"
)

// working is the folder of the version that is being worked on.
const working = "main"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	b := builder{}
	flag.StringVar(&b.hugo, "hugo", "hugo", "the program hugo")
	flag.StringVar(&b.root, "root", ".", "the repository's root")
	flag.StringVar(&b.out, "out", "dist/site", "the folder for the site, which is replaced")
	flag.Parse()
	err := b.build(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

type builder struct{ hugo, root, out string }

func (b *builder) build(ctx context.Context) (err error) {
	for _, p := range []*string{&b.hugo, &b.root, &b.out} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	tags, err := b.run(ctx, b.root, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	versions := []string{working}
	if err := b.version(ctx, b.root, working); err != nil {
		return err
	}
	for _, tag := range site.Released(strings.Fields(tags)) {
		if err := b.released(ctx, tag); err != nil {
			return err
		}
		versions = append(versions, tag)
	}
	list, err := site.Versions(versions)
	if err != nil {
		return err
	}
	// Who comes without a version reads that of the newest release.
	front := versions[min(1, len(versions)-1)]
	err = errors.Join(write(b.out, "versions.js", list), write(b.out, "index.html", site.Front(front)))
	fmt.Printf("%s: %s\n", filepath.Join(b.out, "index.html"), strings.Join(versions, ", "))
	return err
}

// released builds the version of a tag: its texts, with the layouts of the working tree.
func (b *builder) released(ctx context.Context, tag string) (err error) {
	tree, err := os.MkdirTemp("", "site-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	archive := filepath.Join(tree, ".tar")
	if _, err := b.run(ctx, b.root, "git", "archive", "--output", archive, tag); err != nil {
		return err
	}
	if _, err := b.run(ctx, tree, "tar", "-xf", archive); err != nil {
		return err
	}
	layouts := filepath.Join(tree, "docs", "site")
	if err := errors.Join(os.RemoveAll(layouts), os.CopyFS(layouts, os.DirFS(filepath.Join(b.root, "docs", "site")))); err != nil {
		return err
	}
	return b.version(ctx, tree, tag)
}

// version has Hugo build a tree, looks at all links, and writes the index.
func (b *builder) version(ctx context.Context, tree, name string) error {
	out := filepath.Join(b.out, name)
	cmd := exec.CommandContext(ctx, b.hugo, "--source", tree, "--config", filepath.Join(tree, "docs", "site", "hugo.yaml"), "--destination", out,
		"--noBuildLock", "--panicOnWarning", "--quiet")
	cmd.Env = append(os.Environ(), "HUGO_PARAMS_VERSION="+name, "HUGO_PARAMS_REF="+name)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hugo, for %s: %w\n%s", name, err, said)
	}
	pages, files, err := readAll(out)
	if err != nil {
		return err
	}
	files["search-index.js"], files["../versions.js"] = true, true
	if broken := site.Broken(pages, files); len(broken) > 0 {
		return fmt.Errorf("version %s:\n  %s", name, strings.Join(broken, "\n  "))
	}
	index, err := site.Index(pages)
	if err != nil {
		return err
	}
	return write(out, "search-index.js", index)
}

// readAll reads the pages below a folder, and names all files there.
func readAll(dir string) (map[string]*site.Page, map[string]bool, error) {
	pages, files := map[string]*site.Page{}, map[string]bool{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pages[name], err = site.Parse(content)
		return err
	})
	return pages, files, err
}

func (b *builder) run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}

func write(dir, name string, content []byte) error {
	return os.WriteFile(filepath.Join(dir, name), content, 0o644)
}
