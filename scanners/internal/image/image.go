// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanyard/scanyard/scanners/internal/debian"
	"github.com/scanyard/scanyard/scanners/internal/layer"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/sbom"
)

// Programs builds Go programs.
type Programs interface {
	// Program builds a main package of the repository into a file.
	Program(ctx context.Context, program recipe.Program, p recipe.Platform, out string) error
	// Tool builds a program of the module proxy below a folder, holds it against a checksum, and returns its file.
	Tool(ctx context.Context, t recipe.Tool, sum string, p recipe.Platform, dir string) (string, error)
}

// Packages takes Debian packages apart.
type Packages interface {
	// Unpack puts a package's files into a tree; an error wraps debian.ErrGone if the mirror lacks the package.
	Unpack(ctx context.Context, p recipe.Package, tree *layer.Tree) error
}

// Puller fetches vendors' images.
type Puller interface {
	// Pull returns the image of a platform by the digest in a lock.
	Pull(ctx context.Context, base recipe.BaseLock, p recipe.Platform) (v1.Image, error)
}

// Builder makes images. Layers lie as files below Temp as long as the images are used.
type Builder struct {
	Programs Programs
	Packages Packages
	Bases    Puller
	// Distribution is the Debian release in SBOMs.
	Distribution string
	// Temp is a folder of the caller, who removes it.
	Temp string
	// Epoch replaces the recipes' dates, if not nil.
	Epoch *time.Time
	// Source, Version and Revision are labels; empty ones are left out.
	Source, Version, Revision string
	// Progress hears what is done.
	Progress func(format string, args ...any)
}

// Image is the image of one platform with the list of what is in it.
type Image struct {
	Platform recipe.Platform
	Image    v1.Image
	SBOM     []byte
}

// Set is all images of a recipe.
type Set struct {
	Recipe *recipe.Recipe
	Images []Image
	// Labels are the labels of the images, for the index.
	Labels map[string]string
}

// build is the work on one image.
type build struct {
	*Builder
	recipe   *recipe.Recipe
	lock     *recipe.Lock
	platform recipe.Platform
	dir      string
	date     time.Time
	content  sbom.Content
	trees    []*layer.Tree
}

// Build makes the images of a recipe for those requested platforms that the recipe has.
func (b *Builder) Build(ctx context.Context, r *recipe.Recipe, lock *recipe.Lock, platforms []recipe.Platform) (*Set, error) {
	set := &Set{Recipe: r}
	for _, p := range r.Platforms {
		if !slices.Contains(platforms, p) {
			continue
		}
		b.Progress("%s: building for %s", r.Name, p)
		im, labels, err := b.one(ctx, r, lock, p)
		if err != nil {
			return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
		}
		set.Images = append(set.Images, *im)
		set.Labels = labels
	}
	if len(set.Images) == 0 {
		return nil, fmt.Errorf("recipe %s: is for %v only, not for %v; name another --platform", r.Name, r.Platforms, platforms)
	}
	return set, nil
}

func (b *Builder) one(ctx context.Context, r *recipe.Recipe, lock *recipe.Lock, p recipe.Platform) (im *Image, labels map[string]string, err error) {
	dir, err := os.MkdirTemp(b.Temp, r.Name+"-"+p.Arch()+"-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for layers: %w", err)
	}
	w := &build{Builder: b, recipe: r, lock: lock, platform: p, dir: dir, date: r.Time()}
	if b.Epoch != nil {
		w.date = *b.Epoch
	}
	defer func() {
		for _, t := range w.trees {
			err = errors.Join(err, t.Close())
		}
	}()
	w.content = sbom.Content{
		Name: r.Name, Version: version(r, lock, b.Version), Description: r.Description, Licenses: r.Licenses,
		Date: w.date, Distribution: b.Distribution, Base: lock.Base,
	}
	img, err := w.assemble(ctx)
	if err != nil {
		return nil, nil, err
	}
	labels = w.labels()
	if img, err = w.configure(img, labels); err != nil {
		return nil, nil, fmt.Errorf("configure: %w", err)
	}
	list, err := sbom.Write(w.content)
	if err != nil {
		return nil, nil, err
	}
	return &Image{Platform: p, Image: img, SBOM: list}, labels, nil
}

// assemble stacks the layers.
func (w *build) assemble(ctx context.Context) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if w.lock.Base != nil {
		base, err := w.Bases.Pull(ctx, *w.lock.Base, w.platform)
		if err != nil {
			return nil, fmt.Errorf("base image %s: %w", w.lock.Base.Image, err)
		}
		img = mutate.ConfigMediaType(mutate.MediaType(base, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	steps := []struct {
		what string
		fill func(context.Context, *layer.Tree) error
	}{
		{"Debian packages", w.packages},
		{"programs", w.programs},
		{"files", w.files},
	}
	var below *layer.Tree
	for _, s := range steps {
		t, err := layer.NewTree(w.dir, below, layer.DefaultLimits)
		if err != nil {
			return nil, err
		}
		w.trees = append(w.trees, t)
		if w.lock.Base != nil {
			t.Overlay()
		}
		if err := s.fill(ctx, t); err != nil {
			return nil, err
		}
		if t.Empty() {
			continue
		}
		below = t
		l, err := t.Layer(w.dir, w.date)
		if err != nil {
			return nil, err
		}
		add := mutate.Addendum{
			Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: w.date}, CreatedBy: "images build " + w.recipe.Name, Comment: s.what},
		}
		if img, err = mutate.Append(img, add); err != nil {
			return nil, fmt.Errorf("add layer of %s: %w", s.what, err)
		}
	}
	if w.recipe.Debian == nil {
		return img, nil
	}
	return img, checkLibraries(below, w.platform.Triplet())
}

// packages unpacks the Debian packages of this platform.
func (w *build) packages(ctx context.Context, t *layer.Tree) error {
	if w.recipe.Debian == nil {
		return nil
	}
	// Debian has all programs and libraries below /usr, and these links are there before any package.
	links := []string{"bin", "lib", "sbin"}
	if w.platform == recipe.LinuxAMD64 {
		links = append(links, "lib64")
	}
	for _, n := range links {
		if err := errors.Join(t.Dir("usr/"+n, 0o755, 0, 0), t.Link(n, "usr/"+n)); err != nil {
			return err
		}
	}
	for _, p := range w.lock.Debian.Packages {
		if p.For != w.platform.Arch() {
			continue
		}
		err := w.Packages.Unpack(ctx, p, t)
		if errors.Is(err, debian.ErrGone) {
			return fmt.Errorf("%w; %s, or name an older state of the archive with --mirror", err, w.recipe.Remedy())
		}
		if err != nil {
			return err
		}
		w.content.Packages = append(w.content.Packages, p)
	}
	for _, d := range w.recipe.Debian.Drop {
		t.Remove(d)
	}
	return nil
}

// programs builds our programs and the tools.
func (w *build) programs(ctx context.Context, t *layer.Tree) error {
	for i, p := range w.recipe.Programs {
		out := filepath.Join(w.dir, "program-"+strconv.Itoa(i))
		w.Progress("%s: compiling %s for %s", w.recipe.Name, p.Package, w.platform)
		if err := w.Programs.Program(ctx, p, w.platform, out); err != nil {
			return err
		}
		if err := w.program(t, p.Path, out); err != nil {
			return err
		}
	}
	for i, tool := range w.recipe.Tools {
		dir := filepath.Join(w.dir, "tool-"+strconv.Itoa(i))
		w.Progress("%s: compiling %s@%s for %s", w.recipe.Name, tool.Main(), tool.Version, w.platform)
		out, err := w.Programs.Tool(ctx, tool, w.lock.Tools[i].Sum, w.platform, dir)
		if err != nil {
			return fmt.Errorf("%w; if the recipe is right, %s", err, w.recipe.Remedy())
		}
		if err := w.program(t, tool.Path, out); err != nil {
			return err
		}
	}
	return nil
}

func (w *build) program(t *layer.Tree, name, file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.content.Programs = append(w.content.Programs, sbom.Program{Path: name, Info: info})
	return addFile(t, name, 0o755, file)
}

func addFile(t *layer.Tree, name string, mode int64, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(t.File(name, mode, 0, 0, f), f.Close())
}

const (
	accounts = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/securecodebox:/sbin/nologin\n"
	groups   = "root:x:0:\nnonroot:x:65532:\n"
	// The C library's own order asks DNS before /etc/hosts.
	nsswitch = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)

// files adds what the recipe itself brings.
func (w *build) files(_ context.Context, t *layer.Tree) error {
	if w.recipe.Accounts {
		for name, text := range map[string]string{"etc/passwd": accounts, "etc/group": groups, "etc/nsswitch.conf": nsswitch} {
			if err := t.Text(name, 0o644, []byte(text)); err != nil {
				return err
			}
		}
	}
	if w.recipe.Certificates {
		if err := t.Text("etc/ssl/certs/ca-certificates.crt", 0o644, certificates()); err != nil {
			return err
		}
	}
	for _, d := range w.recipe.Directories {
		if err := t.Dir(d.Path, mode(d.Mode, 0o755), d.UID, d.GID); err != nil {
			return err
		}
	}
	return w.beside(t)
}

// beside adds the recipe's own files, and links.
func (w *build) beside(t *layer.Tree) error {
	for _, f := range w.recipe.Files {
		var err error
		if f.Source != "" {
			err = addFile(t, f.Path, mode(f.Mode, 0o644), filepath.Join(w.recipe.Dir, f.Source))
		} else {
			err = t.File(f.Path, mode(f.Mode, 0o644), 0, 0, io.Reader(strings.NewReader(f.Content)))
		}
		if err != nil {
			return err
		}
	}
	expand := strings.NewReplacer("{triplet}", w.platform.Triplet()).Replace
	for _, l := range w.recipe.Links {
		if err := t.Link(expand(l.Path), expand(l.Target)); err != nil {
			return err
		}
	}
	return nil
}

// mode reads an octal mode that was checked when the recipe was read.
func mode(s string, otherwise int64) int64 {
	m, err := strconv.ParseInt(s, 8, 64)
	if err != nil {
		return otherwise
	}
	return m
}

// version is the version of the program that the image is made for.
func version(r *recipe.Recipe, lock *recipe.Lock, ours string) string {
	switch {
	case r.Version != "":
		return r.Version
	case len(r.Tools) > 0:
		return r.Tools[0].Version
	case r.Debian != nil:
		for _, p := range lock.Debian.Packages {
			if p.Name == r.Debian.Packages[0] {
				return p.Version
			}
		}
	case r.Base != "":
		return r.Base[strings.LastIndex(r.Base, ":")+1:]
	}
	return ours
}

// labels are OCI's predefined annotations.
func (w *build) labels() map[string]string {
	all := map[string]string{
		"title": w.recipe.Title, "description": w.recipe.Description, "licenses": w.recipe.Licenses,
		"source": w.Source, "version": w.content.Version, "revision": w.Revision,
		"created": w.date.UTC().Format(time.RFC3339),
	}
	if w.lock.Base != nil {
		all["base.name"], all["base.digest"] = w.lock.Base.Image, w.lock.Base.Digest
	}
	labels := map[string]string{}
	for k, v := range all {
		if v != "" {
			labels["org.opencontainers.image."+k] = v
		}
	}
	return labels
}

func (w *build) configure(img v1.Image, labels map[string]string) (v1.Image, error) {
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cf = cf.DeepCopy()
	cf.Created = v1.Time{Time: w.date}
	cf.OS, cf.Architecture = w.platform.OS(), w.platform.Arch()
	c, r := &cf.Config, w.recipe
	if len(r.Entrypoint) > 0 {
		// The arguments of a base belong to the base's own entrypoint.
		c.Entrypoint, c.Cmd = r.Entrypoint, nil
	}
	if len(r.Cmd) > 0 {
		c.Cmd = r.Cmd
	}
	if r.User != "" {
		c.User = r.User
	}
	if r.WorkingDir != "" {
		c.WorkingDir = r.WorkingDir
	}
	c.Env = mergeEnv(c.Env, r.Env)
	merged := map[string]string{}
	maps.Copy(merged, c.Labels)
	maps.Copy(merged, labels)
	c.Labels = merged
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(img, labels).(v1.Image)
	if !ok {
		return nil, errors.New("annotations make something else than an image")
	}
	return annotated, nil
}

// mergeEnv lets ours win over a base's, and gives a path where there is none.
func mergeEnv(base, ours []string) []string {
	all := slices.Clone(base)
	for _, v := range append([]string{}, ours...) {
		name, _, _ := strings.Cut(v, "=")
		i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		if i < 0 {
			all = append(all, v)
			continue
		}
		all[i] = v
	}
	if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "PATH=") }) {
		all = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, all...)
	}
	return all
}
