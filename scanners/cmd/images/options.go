// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/scanners/internal/debian"
	"github.com/scanyard/scanyard/scanners/internal/gobuild"
	"github.com/scanyard/scanyard/scanners/internal/image"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/registry"
)

// options are the flags of all commands.
type options struct {
	environment
	root, recipes, cache   string
	mirror, securityMirror string
	insecure               bool

	platforms                 []string
	registry, tag             string
	version, revision, source string
	allowExpired              bool
}

// bindBuild adds the flags of commands that build.
func (o *options) bindBuild(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.platforms, "platform", nil, "build for these only: linux/amd64, linux/arm64 (default: all that a recipe has)")
	f.StringVar(&o.registry, "registry", "docker.io/scanyard", "registry and prefix of the images' names")
	f.StringVar(&o.tag, "tag", "dev", "tag of the images")
	f.StringVar(&o.version, "version", "", "version of the programs of this repository (default: the tag)")
	f.StringVar(&o.revision, "revision", "", "commit of the source, for the label and for what programs say of themselves")
	f.StringVar(&o.source, "source", "https://github.com/scanyard/scanyard", "address of the source, for the label")
}

// complete fills in the folders.
func (o *options) complete() error {
	if o.root == "" {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		if o.root, err = findRoot(wd); err != nil {
			return err
		}
	}
	root, err := filepath.Abs(o.root) // Go wants it so
	if err != nil {
		return err
	}
	o.root = root
	if o.recipes == "" {
		o.recipes = filepath.Join(o.root, "scanners", "images")
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w; name a folder with --cache", err)
		}
		o.cache = filepath.Join(dir, "scanyard", "images")
	}
	if o.version == "" {
		o.version = o.tag
	}
	return nil
}

func findRoot(dir string) (string, error) {
	for d := dir; ; d = filepath.Dir(d) {
		_, err := os.Stat(filepath.Join(d, "go.work"))
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("there is no go.work in %s or above it; name the repository with --root", dir)
		}
	}
}

// selected reads the recipes named, or all.
func (o *options) selected(names []string) ([]*recipe.Recipe, error) {
	if len(names) == 0 {
		return recipe.List(o.recipes)
	}
	var all []*recipe.Recipe
	for _, n := range names {
		if n != filepath.Base(n) {
			return nil, fmt.Errorf("%q is not a recipe's name; see \"images list\"", n)
		}
		r, err := recipe.Load(filepath.Join(o.recipes, n))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (o *options) platformsWanted() ([]recipe.Platform, error) {
	if len(o.platforms) == 0 {
		return recipe.Platforms(), nil
	}
	var all []recipe.Platform
	for _, p := range o.platforms {
		if !slices.Contains(recipe.Platforms(), recipe.Platform(p)) {
			return nil, fmt.Errorf("--platform %q is not known; known are %v", p, recipe.Platforms())
		}
		all = append(all, recipe.Platform(p))
	}
	return all, nil
}

// fullName is what an image is called in registries.
func (o *options) fullName(r *recipe.Recipe) (string, error) {
	full := o.registry + "/" + r.Name + ":" + o.tag
	if _, err := name.NewTag(full); err != nil {
		return "", fmt.Errorf("--registry and --tag make no image's name: %w", err)
	}
	return full, nil
}

func (o *options) progress(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// mirrors returns the mirrors of the flags, or else the mirrors of the machine's apt. Without either none is known, which
// matters to recipes with packages only.
func (o *options) mirrors() map[string]string {
	mirrors := map[string]string{}
	if o.Apt != nil {
		mirrors = debian.MachineMirrors(o.Apt)
	}
	if o.mirror != "" {
		mirrors[debian.ArchiveMain] = o.mirror
		mirrors[debian.ArchiveSecurity] = strings.TrimSuffix(o.mirror, "/") + "-security"
	}
	if o.securityMirror != "" {
		mirrors[debian.ArchiveSecurity] = o.securityMirror
	}
	return mirrors
}

func (o *options) debian(w io.Writer) *debian.Client {
	c := debian.NewClient(o.mirrors(), o.cache, o.Now, o.progress(w))
	c.AllowExpired = o.allowExpired
	return c
}

func (o *options) registryClient() *registry.Client {
	return &registry.Client{Insecure: o.insecure, Keychain: authn.DefaultKeychain}
}

func (o *options) goBuilder() *gobuild.Builder {
	return &gobuild.Builder{Root: o.root, Env: o.Environ, Version: o.version, Revision: o.revision}
}

// builder sets up building below a folder that the caller removes.
func (o *options) builder(w io.Writer, temp string) (*image.Builder, error) {
	rel, err := debian.LoadRelease(o.recipes)
	if err != nil {
		return nil, err
	}
	b := &image.Builder{
		Programs: o.goBuilder(), Packages: o.debian(w), Bases: o.registryClient(), Distribution: rel.Distribution,
		Temp: temp, Source: o.source, Version: o.version, Revision: o.revision, Progress: o.progress(w),
	}
	if s, ok := o.LookupEnv("SOURCE_DATE_EPOCH"); ok && s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q must be seconds since 1970", s)
		}
		t := time.Unix(n, 0).UTC()
		b.Epoch = &t
	}
	return b, nil
}
