// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Lock is what a recipe's wishes came to.
type Lock struct {
	// For are the wishes that were looked up; a recipe with others needs a new lock.
	For Wishes `json:"for"`
	// Base is the vendor's image by digest.
	Base *BaseLock `json:"base,omitempty"`
	// Tools holds the checksums of modules, as go.sum writes them.
	Tools []ToolLock `json:"tools,omitempty"`
	// Debian holds the packages.
	Debian *DebianLock `json:"debian,omitempty"`
}

// Wishes is the part of a recipe that is looked up elsewhere.
type Wishes struct {
	Base      string     `json:"base,omitempty"`
	Tools     []string   `json:"tools,omitempty"`
	Packages  []string   `json:"packages,omitempty"`
	Without   []string   `json:"without,omitempty"`
	Platforms []Platform `json:"platforms"`
}

// BaseLock is an image by digest: the digest of the index if there is one.
type BaseLock struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
}

// ToolLock is the checksum of a module.
type ToolLock struct {
	Module string `json:"module"`
	Sum    string `json:"sum"`
}

// DebianLock is a list of packages, and which signed lists they came from.
type DebianLock struct {
	Suites   []Suite   `json:"suites"`
	Packages []Package `json:"packages"`
}

// Suite is a part of a Debian release: an archive and the name in it.
type Suite struct {
	// Archive is the folder on a mirror: debian or debian-security.
	Archive string `json:"archive"`
	Suite   string `json:"suite"`
	// Date is the date of the signed list; only locks have a date.
	Date string `json:"date,omitempty"`
}

// Package is one file of a Debian archive.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// For is the architecture of the image, Arch the architecture of the package, which may be "all".
	For     string `json:"for"`
	Arch    string `json:"arch"`
	Archive string `json:"archive"`
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
}

// String is the package as people name it.
func (p Package) String() string { return p.Name + " " + p.Version + " (" + p.Arch + ")" }

// WishesOf picks what a recipe wants from elsewhere.
func WishesOf(r *Recipe) Wishes {
	w := Wishes{Base: r.Base, Platforms: r.Platforms}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, t.Main()+"@"+t.Version)
	}
	if r.Debian != nil {
		w.Packages = r.Debian.Packages
		for n := range r.Debian.Without {
			w.Without = append(w.Without, n)
		}
		slices.Sort(w.Without)
	}
	return w
}

// Remedy is what to do about a lock that does not fit.
func (r *Recipe) Remedy() string {
	return fmt.Sprintf("run \"images lock %s\" and commit the result", r.Name)
}

// ErrNoLock says that a recipe was never locked.
var ErrNoLock = errors.New(LockFile + " does not exist")

// LoadLock reads the lock beside a recipe and holds it against the recipe. A recipe that needs none gets an
// empty one.
func LoadLock(r *Recipe) (*Lock, error) {
	if !r.NeedsLock() {
		return &Lock{}, nil
	}
	data, err := os.ReadFile(filepath.Join(r.Dir, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recipe %s: %w: %s", r.Name, ErrNoLock, r.Remedy())
	}
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	l := &Lock{}
	if err := yaml.UnmarshalStrict(data, l); err != nil {
		return nil, fmt.Errorf("recipe %s: %s: %w; %s", r.Name, LockFile, err, r.Remedy())
	}
	if err := l.fits(r); err != nil {
		return nil, fmt.Errorf("recipe %s: %s %w; %s", r.Name, LockFile, err, r.Remedy())
	}
	return l, nil
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// fits checks that a lock is for this recipe, and that nothing in it points elsewhere: a lock comes with a
// change request like any other file, and is not to be trusted with paths.
func (l *Lock) fits(r *Recipe) error {
	want, got := mustJSON(WishesOf(r)), mustJSON(l.For)
	if !bytes.Equal(want, got) {
		return fmt.Errorf("was made for another content of %s", File)
	}
	if r.Base != "" && (l.Base == nil || l.Base.Image != r.Base || !digestForm.MatchString(l.Base.Digest)) {
		return errors.New("has no digest of the base image")
	}
	if len(l.Tools) != len(r.Tools) {
		return errors.New("has other tools")
	}
	for i, t := range l.Tools {
		if t.Module != r.Tools[i].Module || !strings.HasPrefix(t.Sum, "h1:") {
			return fmt.Errorf("has no checksum of %s", r.Tools[i].Module)
		}
	}
	if r.Debian == nil {
		return nil
	}
	if l.Debian == nil || len(l.Debian.Packages) == 0 {
		return errors.New("has no packages")
	}
	for _, p := range l.Debian.Packages {
		if !sha256Form.MatchString(p.SHA256) {
			return fmt.Errorf("has no SHA256 of %s", p)
		}
		if p.Archive != path.Base(p.Archive) || path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path || strings.HasPrefix(p.Path, "..") {
			return fmt.Errorf("has a path for %s that is not one of an archive: %s/%s", p, p.Archive, p.Path)
		}
	}
	return nil
}

// mustJSON writes a value of strings and lists, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// Save writes the lock beside its recipe: YAML with a line per package, so that a change reads as one.
func (l *Lock) Save(r *Recipe) error {
	var b strings.Builder
	b.WriteString("# Written by \"images lock " + r.Name + "\". Do not edit: what the recipe means is looked up there.\n")
	head := *l
	if l.Debian != nil {
		head.Debian = nil
	}
	y, err := yaml.Marshal(head)
	if err != nil {
		return fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	b.Write(y)
	if l.Debian != nil {
		b.WriteString("debian:\n  suites:\n")
		for _, s := range l.Debian.Suites {
			b.WriteString("  - " + string(mustJSON(s)) + "\n")
		}
		b.WriteString("  packages:\n")
		for _, p := range l.Debian.Packages {
			b.WriteString("  - " + string(mustJSON(p)) + "\n")
		}
	}
	err = os.WriteFile(filepath.Join(r.Dir, LockFile), []byte(b.String()), 0o644) //nolint:gosec // a file to commit, readable as its neighbours are
	if err != nil {
		return fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	return nil
}
