// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// The names of the files in a recipe's folder.
const (
	File     = "image.yaml"
	LockFile = "image.lock"
)

// Platform is an operating system and an architecture, as Go and OCI call them.
type Platform string

// What images are built for.
const (
	LinuxAMD64 Platform = "linux/amd64"
	LinuxARM64 Platform = "linux/arm64"
)

// Platforms are all that can be built, in the order in which an index lists them.
func Platforms() []Platform { return []Platform{LinuxAMD64, LinuxARM64} }

// OS is the part before the slash.
func (p Platform) OS() string { return strings.Split(string(p), "/")[0] }

// Arch is the part after the slash, which is also Debian's name for these architectures.
func (p Platform) Arch() string { return strings.TrimPrefix(string(p), p.OS()+"/") }

// Triplet is Debian's name for the platform's folder of libraries.
func (p Platform) Triplet() string {
	if p == LinuxARM64 {
		return "aarch64-linux-gnu"
	}
	return "x86_64-linux-gnu"
}

// Dashed is the platform as a part of a file's name.
func (p Platform) Dashed() string { return strings.ReplaceAll(string(p), "/", "-") }

// Recipe says what an image is made of. Its layers are, from below: the base image or Debian packages, then
// programs, files, directories and links.
type Recipe struct {
	// Name is the folder's name and the last part of the image's name.
	Name string `json:"-"`
	// Dir is the recipe's folder.
	Dir string `json:"-"`

	Title       string `json:"title"`
	Description string `json:"description"`
	// Licenses is an SPDX expression over everything in the image that matters to who passes it on.
	Licenses string `json:"licenses"`
	// Date is the time of all files in the image, unless SOURCE_DATE_EPOCH is set; YYYY-MM-DD.
	Date string `json:"date"`
	// Version is the label's version. Empty means the version of the tool, the first package or the build.
	Version string `json:"version,omitempty"`
	// Platforms is empty for all.
	Platforms []Platform `json:"platforms,omitempty"`

	// Base is the name of a vendor's image; its digest is in the lock.
	Base string `json:"base,omitempty"`
	// Debian are packages of the release in images/debian.yaml.
	Debian *Debian `json:"debian,omitempty"`
	// Programs are main packages of this repository.
	Programs []Program `json:"programs,omitempty"`
	// Tools are programs of the Go module proxy.
	Tools []Tool `json:"tools,omitempty"`

	Files       []FileEntry `json:"files,omitempty"`
	Directories []Directory `json:"directories,omitempty"`
	Links       []Link      `json:"links,omitempty"`
	// Accounts adds /etc/passwd and /etc/group with root and nonroot (65532), and /etc/nsswitch.conf.
	Accounts bool `json:"accounts,omitempty"`
	// Certificates adds Mozilla's certificate authorities as /etc/ssl/certs/ca-certificates.crt.
	Certificates bool `json:"certificates,omitempty"`

	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"`
	// User is "UID:GID", in numbers, so that Kubernetes can see that it is not root.
	User       string `json:"user,omitempty"`
	WorkingDir string `json:"workingDir,omitempty"`
}

// Debian names packages.
type Debian struct {
	Packages []string `json:"packages"`
	// Without are packages to leave out although something depends on them, with the reason.
	Without map[string]string `json:"without,omitempty"`
	// Drop are paths of files and folders to leave out, such as /usr/share/man.
	Drop []string `json:"drop,omitempty"`
}

// Program is a main package of this repository.
type Program struct {
	// Package is the folder of the main package, as ./parsers/cmd/parser.
	Package string `json:"package"`
	Path    string `json:"path"`
	// Module is the folder of a module outside of the workspace that the package is in, as ./registry/adapters/trivy: the program
	// is built with that module's own versions. Empty for modules of go.work.
	Module string `json:"module,omitempty"`
	// Experiment is the GOEXPERIMENT that the program wants, as jsonv2.
	Experiment string `json:"experiment,omitempty"`
}

// Tool is a program of the Go module proxy.
type Tool struct {
	// Module is the path of the module; Package is the path of the main package if the main package is not the module's root.
	Module  string `json:"module"`
	Package string `json:"package,omitempty"`
	Version string `json:"version"`
	Path    string `json:"path"`
}

// Main is the path of the tool's main package.
func (t Tool) Main() string {
	if t.Package != "" {
		return t.Package
	}
	return t.Module
}

// FileEntry is a file of the recipe's folder, or a few lines of text.
type FileEntry struct {
	Path    string `json:"path"`
	Source  string `json:"source,omitempty"`
	Content string `json:"content,omitempty"`
	// Mode is octal, "0644" if empty.
	Mode string `json:"mode,omitempty"`
}

// Directory is an empty folder.
type Directory struct {
	Path string `json:"path"`
	Mode string `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

// Link is a symbolic link, such as update-alternatives would make. In both of its parts {triplet} stands for the
// platform's folder of libraries, as x86_64-linux-gnu.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// List reads all recipes below a folder, in the order of their names.
func List(dir string) ([]*Recipe, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", File))
	if err != nil {
		return nil, fmt.Errorf("look for recipes: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no recipes in %s: no folder holds a %s; name the folder with --recipes", dir, File)
	}
	slices.Sort(found)
	all := make([]*Recipe, 0, len(found))
	for _, f := range found {
		r, err := Load(filepath.Dir(f))
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Load reads and checks one recipe.
func Load(dir string) (*Recipe, error) {
	name := filepath.Base(dir)
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recipe %s: %s does not exist in %s; \"images list\" shows all recipes", name, File, filepath.Dir(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", name, err)
	}
	r := &Recipe{Name: name, Dir: dir}
	if err := yaml.UnmarshalStrict(data, r); err != nil {
		return nil, fmt.Errorf("recipe %s: %s: %w", name, File, err)
	}
	if len(r.Platforms) == 0 {
		r.Platforms = Platforms()
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("recipe %s: %s: %w", name, File, err)
	}
	return r, nil
}

// Time is the date of the recipe.
func (r *Recipe) Time() time.Time {
	t, err := time.Parse(time.DateOnly, r.Date)
	if err != nil {
		return time.Time{} // validated on load
	}
	return t
}

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	userForm = regexp.MustCompile(`^[0-9]+:[0-9]+$`)
	modeForm = regexp.MustCompile(`^[01]?[0-7]{3}$`)
	// A version that moves would make the same recipe mean another image tomorrow.
	toolVersion = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)
)

func (r *Recipe) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(r.Name) {
		bad("the folder's name must be of lower case letters, digits and single dashes")
	}
	for _, f := range []struct{ name, value string }{{"title", r.Title}, {"description", r.Description}, {"licenses", r.Licenses}} {
		if f.value == "" {
			bad("%s is missing", f.name)
		}
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		bad("date %q must be YYYY-MM-DD", r.Date)
	}
	for _, p := range r.Platforms {
		if !slices.Contains(Platforms(), p) {
			bad("platform %q is not known; known are %v", p, Platforms())
		}
	}
	if r.User != "" && !userForm.MatchString(r.User) {
		bad("user %q must be UID:GID in numbers", r.User)
	}
	if r.Base != "" && r.Debian != nil {
		bad("base and debian exclude each other: both are the lowest layer")
	}
	if r.Base != "" && strings.Contains(r.Base, "@") {
		bad("base %q: name a tag, the digest belongs into %s", r.Base, LockFile)
	}
	if r.Base == "" && r.Debian == nil && len(r.Programs)+len(r.Tools) == 0 {
		bad("nothing is in it: name base, debian, programs or tools")
	}
	errs = append(errs, r.validateParts()...)
	return errors.Join(append(errs, r.validatePaths()...)...)
}

func (r *Recipe) validateParts() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Debian != nil && len(r.Debian.Packages) == 0 {
		bad("debian.packages is empty")
	}
	for _, p := range r.Programs {
		if !strings.HasPrefix(p.Package, "./") || strings.Contains(p.Package, "..") {
			bad("program %q must be a package below the repository's root, as ./parsers/cmd/parser", p.Package)
		}
		if p.Module != "" && !strings.HasPrefix(p.Package, p.Module+"/") {
			bad("program %q must be below its module %q", p.Package, p.Module)
		}
	}
	for _, t := range r.Tools {
		if t.Module == "" || !toolVersion.MatchString(t.Version) {
			bad("tool %q: version %q must be a full one, as v1.2.3", t.Module, t.Version)
		}
		if t.Package != "" && t.Package != t.Module && !strings.HasPrefix(t.Package, t.Module+"/") {
			bad("tool %q: package %q is not in its module", t.Module, t.Package)
		}
	}
	for _, f := range r.Files {
		if err := f.validate(r.Dir); err != nil {
			bad("file %s: %w", f.Path, err)
		}
	}
	return errs
}

func (f FileEntry) validate(dir string) error {
	if (f.Source == "") == (f.Content == "") {
		return errors.New("name one of source and content")
	}
	if f.Source == "" {
		return nil
	}
	if f.Source != filepath.Base(f.Source) {
		return fmt.Errorf("source %q must be beside %s", f.Source, File)
	}
	_, err := os.Stat(filepath.Join(dir, f.Source))
	return err
}

func (r *Recipe) validatePaths() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := map[string]bool{}
	check := func(p string, mode string) {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			bad("path %q must be absolute and plain", p)
		}
		if seen[p] {
			bad("path %s is there twice", p)
		}
		seen[p] = true
		if mode != "" && !modeForm.MatchString(mode) {
			bad("path %s: mode %q must be octal digits, as 0755", p, mode)
		}
	}
	for _, p := range r.Programs {
		check(p.Path, "")
	}
	for _, t := range r.Tools {
		check(t.Path, "")
	}
	for _, f := range r.Files {
		check(f.Path, f.Mode)
	}
	for _, d := range r.Directories {
		check(d.Path, d.Mode)
	}
	for _, l := range r.Links {
		check(l.Path, "")
		if l.Target == "" {
			bad("link %s has no target", l.Path)
		}
	}
	return errs
}

// NeedsLock reports whether a lock must stand beside the recipe.
func (r *Recipe) NeedsLock() bool { return r.Base != "" || r.Debian != nil || len(r.Tools) > 0 }
