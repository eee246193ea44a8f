// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/scanners/internal/gobuild"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/registry"
	"github.com/scanyard/scanyard/scanners/internal/release"
	"github.com/scanyard/scanyard/scanners/internal/sbom"
	"github.com/scanyard/scanyard/scanners/internal/signing"
)

// maker makes releases.
type maker struct {
	root, dist, images string
	environ            []string
	today              string
	// date is that of the commit.
	date time.Time
	// key is nil where nothing is signed.
	key    *signing.Key
	client *registry.Client
	say    func(format string, args ...any)
}

// mayPush asks the registry before anything long begins.
func (m *maker) mayPush(ctx context.Context, p release.Plan) error {
	if p.Registry == "" {
		return nil
	}
	var names []string
	if len(p.Images) > 0 {
		names = append(names, p.ImageName(p.Images[0]))
	}
	if len(p.Charts) > 0 {
		names = append(names, p.ChartName(p.Charts[0]))
	}
	for _, name := range names {
		if err := m.client.May(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// commit commits the changelog with the section of the version.
func (m *maker) commit(ctx context.Context, p release.Plan) error {
	m.say("%s: %s gets the section %s, and is committed", p.Version, changelog, p.Version.Number())
	if err := os.WriteFile(filepath.Join(m.root, changelog), []byte(p.Changelog), 0o644); err != nil { //nolint:gosec // as git checks it out
		return fmt.Errorf("write the changelog: %w", err)
	}
	_, err := m.git(ctx, "commit", "--quiet", "-m", fmt.Sprintf("release: %s", p.Version), "--", changelog)
	return err
}

// make builds everything in a hidden folder, which takes its name when all is there; then it tags and pushes.
func (m *maker) make(ctx context.Context, p release.Plan) (err error) {
	if err := os.MkdirAll(m.dist, 0o755); err != nil { //nolint:gosec // releases are for others to read
		return err
	}
	dir, err := os.MkdirTemp(m.dist, "."+string(p.Version)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	items, err := m.build(ctx, p, dir)
	if err != nil {
		return err
	}
	final := filepath.Join(m.dist, string(p.Version))
	if err := errors.Join(os.RemoveAll(final), os.Rename(dir, final)); err != nil {
		return err
	}
	m.say("%s is in %s", p.Version, final)
	if p.Tag {
		if _, err := m.git(ctx, "tag", "-a", "-m", fmt.Sprintf("Scanyard %s", p.Version), string(p.Version)); err != nil {
			return err
		}
		m.say("commit %s has the tag %s; \"git push --follow-tags\" publishes both", p.Commit, p.Version)
	}
	if p.Registry == "" {
		return nil
	}
	// The layouts lie in the final folder now.
	for i, image := range p.Images {
		if items[i], err = registry.OpenLayout(filepath.Join(final, "images", image)); err != nil {
			return err
		}
	}
	return m.push(ctx, items)
}

// build fills the folder of a release, and returns its images and charts, in the order of the plan.
func (m *maker) build(ctx context.Context, p release.Plan, dir string) ([]*registry.Item, error) {
	done, all := 0, len(p.Archives)+len(p.Images)+len(p.Charts)
	step := func(format string, args ...any) {
		done++
		m.say("[%d/%d] %s", done, all, fmt.Sprintf(format, args...))
	}
	for _, a := range p.Archives {
		step("%s", a.File)
		if err := m.archive(ctx, p, a, dir); err != nil {
			return nil, err
		}
	}
	var items []*registry.Item
	for _, image := range p.Images {
		step("image %s", image)
		if err := m.image(ctx, p, image, filepath.Join(dir, "images")); err != nil {
			return nil, err
		}
		item, err := registry.OpenLayout(filepath.Join(dir, "images", image))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	library, err := m.chartFiles(ctx, release.Library)
	if err != nil {
		return nil, err
	}
	for _, chart := range p.Charts {
		step("chart %s", chart)
		item, err := m.chart(ctx, p, chart, library, dir)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, m.documents(p, items, dir)
}

// archive builds the command line for a platform, and packs it with its manual and licence.
func (m *maker) archive(ctx context.Context, p release.Plan, a release.Archive, dir string) (err error) {
	temp, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file := filepath.Join(temp, "scanyard")
	builder := gobuild.Builder{Root: m.root, Env: m.environ, Version: string(p.Version), Revision: p.Commit}
	if err := builder.Program(ctx, recipe.Program{Package: "./cli/cmd/scanyard"}, recipe.Platform(a.Platform), file); err != nil {
		return err
	}
	if err := m.truthful(ctx, p, a, file); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	list, err := sbom.Write(sbom.Content{
		Name: "scanyard", Version: string(p.Version), Description: "The command line of Scanyard for " + a.Platform, Licenses: "Apache-2.0",
		Date: m.date, Programs: []sbom.Program{{Path: "scanyard", Info: info}}, Archive: true,
	})
	if err != nil {
		return err
	}
	entries, err := m.entries(file)
	if err != nil {
		return err
	}
	packed, err := release.Archived(entries, m.date)
	if err != nil {
		return err
	}
	return errors.Join(write(dir, a.File, packed), write(dir, a.SBOM, list))
}

// truthful asks a program that runs on this machine which build it is.
func (m *maker) truthful(ctx context.Context, p release.Plan, a release.Archive, file string) error {
	if a.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		return nil
	}
	said, err := exec.CommandContext(ctx, file, "version", "--client").CombinedOutput()
	if err != nil || !strings.Contains(string(said), string(p.Version)) || !strings.Contains(string(said), p.Commit) {
		return fmt.Errorf("the program that was built does not say that it is %s of commit %s: %q (%w)", p.Version, p.Commit, said, err)
	}
	return nil
}

// entries are the files of an archive: the program, the names that make it a plugin of kubectl, its manual, its licence.
func (m *maker) entries(program string) ([]release.Entry, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	all := []release.Entry{
		{Name: "scanyard", Content: content, Program: true},
		{Name: "kubectl-scanyard", Link: "scanyard"},
		{Name: "kubectl-prext", Link: "scanyard"},
	}
	files, err := filepath.Glob(filepath.Join(m.root, "docs", "reference", "man", "*.1"))
	if err != nil {
		return nil, err
	}
	for _, f := range append([]string{filepath.Join(m.root, "LICENSE")}, files...) {
		if content, err = os.ReadFile(f); err != nil {
			return nil, err
		}
		name := filepath.Base(f)
		if filepath.Ext(f) == ".1" {
			name = "man/man1/" + name
		}
		all = append(all, release.Entry{Name: name, Content: content})
	}
	return all, nil
}

// image has the builder of images make an image as an OCI layout.
func (m *maker) image(ctx context.Context, p release.Plan, image, out string) error {
	args := []string{"build", image, "--out", out, "--tag", p.Version.Number(), "--version", string(p.Version), "--revision", p.Commit}
	if p.Registry != "" {
		args = append(args, "--registry", p.Registry)
	}
	if len(p.ImagePlatforms) > 0 {
		args = append(args, "--platform", strings.Join(p.ImagePlatforms, ","))
	}
	cmd := exec.CommandContext(ctx, m.images, args...)
	cmd.Dir = m.root
	cmd.Env = slices.Concat(m.environ, []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(m.date.Unix(), 10)})
	said := &strings.Builder{}
	cmd.Stderr = io.MultiWriter(said, lines{m.say})
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build image %s: %w: %s", image, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// lines says what is written to it, set off.
type lines struct{ say func(string, ...any) }

// Write says each line.
func (l lines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l.say("      %s", strings.TrimSuffix(line, "\n"))
	}
	return len(b), nil
}

func (m *maker) chart(ctx context.Context, p release.Plan, chart string, library release.Files, dir string) (*registry.Item, error) {
	files, err := m.chartFiles(ctx, chart)
	if err != nil {
		return nil, err
	}
	c, err := release.PackChart(p, files, library, m.date)
	if err != nil {
		return nil, err
	}
	if err := write(dir, p.ChartFile(chart), c.Package); err != nil {
		return nil, err
	}
	return registry.NewChart(p.ChartName(chart), c.Metadata, c.Package, map[string]string{
		"org.opencontainers.image.title": c.Name, "org.opencontainers.image.version": c.Version, "org.opencontainers.image.description": c.Description,
		"org.opencontainers.image.created": m.date.Format(time.RFC3339), "org.opencontainers.image.revision": p.Commit,
	})
}

// documents writes what is said about everything else in the folder, and signs it.
func (m *maker) documents(p release.Plan, items []*registry.Item, dir string) error {
	var digests strings.Builder
	for _, i := range items {
		fmt.Fprintf(&digests, "%s@%s\n", i.Name, i.Digest)
	}
	notes := fmt.Sprintf("# Scanyard %s\n\n%s\n", p.Version.Number(), p.Notes)
	if err := errors.Join(write(dir, "digests.txt", []byte(digests.String())), write(dir, "RELEASE_NOTES.md", []byte(notes))); err != nil {
		return err
	}
	if m.key != nil {
		public, err := m.key.Public()
		if err != nil {
			return err
		}
		if err := write(dir, "cosign.pub", public); err != nil {
			return err
		}
	}
	sums, err := sums(dir)
	if err != nil {
		return err
	}
	if err := write(dir, "SHA256SUMS", sums); err != nil || m.key == nil {
		return err
	}
	signature, err := m.key.Sign(sums)
	if err != nil {
		return err
	}
	return write(dir, "SHA256SUMS.sig", []byte(signature+"\n"))
}

// push sends images and charts, after it has looked at all names: a release is pushed whole or not at all.
func (m *maker) push(ctx context.Context, items []*registry.Item) error {
	free := make([]bool, len(items))
	var taken []error
	for n, i := range items {
		var err error
		free[n], err = m.client.Free(ctx, i)
		taken = append(taken, err)
	}
	if err := errors.Join(taken...); err != nil {
		return fmt.Errorf("nothing was pushed: %w", err)
	}
	for n, i := range items {
		m.say("[%d/%d] push %s", n+1, len(items), i.Name)
		if free[n] {
			if err := m.client.Send(ctx, i); err != nil {
				return err
			}
		}
		if m.key == nil {
			continue
		}
		payload, err := signing.Payload(i.Repository(), i.Digest.String())
		if err != nil {
			return err
		}
		signature, err := m.key.Sign(payload)
		if err != nil {
			return err
		}
		if err := m.client.Sign(ctx, i, payload, signing.PayloadType, signing.Annotation, signature); err != nil {
			return err
		}
	}
	return nil
}

// write stores a file of a release.
func write(dir, name string, content []byte) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // releases are for others to read
		return err
	}
	return os.WriteFile(file, content, 0o644) //nolint:gosec // as above
}

// sums are the SHA-256 of all files below a folder, as sha256sum writes and reads them.
func sums(dir string) ([]byte, error) {
	var text strings.Builder
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := files.Open(file)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		fmt.Fprintf(&text, "%x  %s\n", h.Sum(nil), file)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("checksums: %w", err)
	}
	return []byte(text.String()), nil
}
