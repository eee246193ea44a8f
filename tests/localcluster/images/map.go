// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"
)

// RootHost means that a container sees a private copy-on-write view of the
// machine's own files: programs run as installed, and nothing that the
// container writes reaches them.
const RootHost = "host"

// Entry lets image names that match Image stand for programs on this machine.
type Entry struct {
	// Image is an image name in which * stands for any characters. A name
	// without a tag matches every tag.
	Image string `json:"image"`
	// Root is what the container sees as its file system: "host" (the default)
	// or a directory.
	Root string `json:"root,omitempty"`
	// Entrypoint and Cmd are the image's defaults, which a pod may override.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	// User is the image's user as "uid" or "uid:gid". The default is 1001:1001,
	// since scanner images do not run as root.
	User string `json:"user,omitempty"`
	// WorkingDir is the image's working directory; the default is /.
	WorkingDir string `json:"workingDir,omitempty"`
	// Env are variables of the image.
	Env map[string]string `json:"env,omitempty"`
	// Binaries puts files of this machine at paths of the container. A value
	// may be relative to the mapping file.
	Binaries map[string]string `json:"binaries,omitempty"`
}

// Map is a mapping file. The first entry that matches wins.
type Map struct {
	Images []Entry `json:"images"`
}

// LoadMap reads and checks a mapping file.
func LoadMap(file string) (*Map, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read images map: %w", err)
	}
	m, err := ParseMap(b, filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("read images map %s: %w", file, err)
	}
	return m, nil
}

// ParseMap reads a mapping file's content: a list of entries, or an object
// with the list under "images". Relative paths start at dir.
func ParseMap(b []byte, dir string) (*Map, error) {
	var m Map
	if err := yaml.UnmarshalStrict(b, &m); err != nil {
		// A bare list is the shorter form. If it is not one either, the first
		// error speaks of the documented form.
		if listErr := yaml.UnmarshalStrict(b, &m.Images); listErr != nil {
			return nil, errors.Join(err, listErr)
		}
	}
	for i := range m.Images {
		if err := m.Images[i].complete(dir); err != nil {
			return nil, fmt.Errorf("entry %d (%s): %w", i+1, m.Images[i].Image, err)
		}
	}
	return &m, nil
}

func (e *Entry) complete(dir string) error {
	if e.Image == "" {
		return errors.New("image is missing")
	}
	if _, err := path.Match(e.Image, ""); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if e.Root == "" {
		e.Root = RootHost
	}
	if e.User == "" {
		e.User = "1001:1001"
	}
	abs := func(p string) string {
		if filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	if e.Root != RootHost {
		e.Root = abs(e.Root)
		if st, err := os.Stat(e.Root); err != nil || !st.IsDir() {
			return fmt.Errorf("root %s is not a directory", e.Root)
		}
	}
	for target, source := range e.Binaries {
		if !filepath.IsAbs(target) {
			return fmt.Errorf("binaries: %s is not an absolute path", target)
		}
		source = abs(source)
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("binaries: %s: %w", target, err)
		}
		e.Binaries[target] = source
	}
	return nil
}

// Find returns the first entry that the image name matches, or nil.
func (m *Map) Find(image string) *Entry {
	if m == nil {
		return nil
	}
	full := canonical(image)
	for i := range m.Images {
		if matches(m.Images[i].Image, full) {
			return &m.Images[i]
		}
	}
	return nil
}

// canonical adds registry, "library/" and tag where they are implied, so that
// "nmap", "nmap:latest" and "docker.io/library/nmap" are one name.
func canonical(image string) string {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return image
	}
	return strings.Replace(ref.Name(), "index.docker.io/", "docker.io/", 1)
}

// matches compares a pattern with a canonical name. A pattern may leave out
// what is implied, except that no tag means any tag or digest.
func matches(pattern, full string) bool {
	last := pattern[strings.LastIndex(pattern, "/")+1:]
	if !strings.ContainsAny(last, ":@") {
		return matches(pattern+":*", full) || matches(pattern+"@*", full)
	}
	for _, p := range []string{pattern, "docker.io/" + pattern, "docker.io/library/" + pattern} {
		if glob(p, full) {
			return true
		}
	}
	return false
}

// glob matches * with any characters, slashes included.
func glob(pattern, s string) bool {
	first, rest, found := strings.Cut(pattern, "*")
	if !found {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for i := 0; i <= len(s); i++ {
		if glob(rest, s[i:]) {
			return true
		}
	}
	return false
}
