// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ErrNotFound says that neither the mapping nor the folder knows an image.
var ErrNotFound = errors.New("image not found")

// Image is a file system with the defaults of the programs in it.
type Image struct {
	// ID names the content: a digest, or the mapping entry.
	ID string
	// Root is the directory with the files; "/" means the machine's own.
	Root       string
	Entrypoint []string
	Cmd        []string
	// Env are "NAME=value" pairs.
	Env        []string
	WorkingDir string
	User       string
	// Binaries maps container paths to files of this machine.
	Binaries map[string]string
}

// Store finds images. It is safe for concurrent use.
type Store struct {
	mapping *Map
	folder  string
	unpack  string

	mu   sync.Mutex
	done map[string]*Image // by digest of the configuration
}

// NewStore looks in a mapping (may be nil) and a folder (may be empty), and
// unpacks archives below unpack.
func NewStore(mapping *Map, folder, unpack string) *Store {
	return &Store{mapping: mapping, folder: folder, unpack: unpack, done: map[string]*Image{}}
}

// Get returns the image, unpacking it if this is its first use. The folder is
// read anew each time, so that an archive put there later is found.
func (s *Store) Get(image string) (*Image, error) {
	if e := s.mapping.Find(image); e != nil {
		return fromEntry(e), nil
	}
	im, err := s.find(canonical(image))
	if err != nil {
		return nil, err
	}
	if im == nil {
		where := "no images map and no images folder were given"
		switch {
		case s.folder != "" && s.mapping != nil:
			where = fmt.Sprintf("it is neither in the images map nor in %s", s.folder)
		case s.folder != "":
			where = "it is not in " + s.folder
		case s.mapping != nil:
			where = "it is not in the images map"
		}
		return nil, fmt.Errorf("%w: %s: %s", ErrNotFound, image, where)
	}
	return s.unpacked(im)
}

func fromEntry(e *Entry) *Image {
	im := &Image{ID: "local/" + e.Image, Root: e.Root, Entrypoint: e.Entrypoint, Cmd: e.Cmd, WorkingDir: e.WorkingDir, User: e.User, Binaries: e.Binaries}
	if e.Root == RootHost {
		im.Root = "/"
	}
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		im.Env = append(im.Env, k+"="+e.Env[k])
	}
	return im
}

// find looks for a canonical name in the folder. No image and no error means
// that it is not there.
func (s *Store) find(full string) (v1.Image, error) {
	if s.folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return nil, fmt.Errorf("read images folder: %w", err)
	}
	for _, e := range entries {
		p := filepath.Join(s.folder, e.Name())
		var im v1.Image
		switch {
		case e.IsDir():
			im, err = fromLayout(p, full)
		case strings.HasSuffix(p, ".tar"):
			im, err = fromArchive(p, full)
		}
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", p, err)
		}
		if im != nil {
			return im, nil
		}
	}
	return nil, nil
}

// fromLayout looks into an OCI layout; a directory that is none is passed over.
func fromLayout(dir, full string) (v1.Image, error) {
	if _, err := os.Stat(filepath.Join(dir, "index.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	idx, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		for _, key := range []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"} {
			if n := d.Annotations[key]; n != "" && canonical(n) == full {
				return fromDescriptor(idx, &d)
			}
		}
	}
	return nil, nil
}

// fromDescriptor reads an image, which may be one for several platforms: then it is
// the one for this machine.
func fromDescriptor(idx v1.ImageIndex, d *v1.Descriptor) (v1.Image, error) {
	if !d.MediaType.IsIndex() {
		return idx.Image(d.Digest)
	}
	inner, err := idx.ImageIndex(d.Digest)
	if err != nil {
		return nil, err
	}
	m, err := inner.IndexManifest()
	if err != nil {
		return nil, err
	}
	here := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	var others []string
	for _, d := range m.Manifests {
		if d.Platform == nil {
			continue
		}
		if d.Platform.Satisfies(here) {
			return inner.Image(d.Digest)
		}
		others = append(others, d.Platform.String())
	}
	return nil, fmt.Errorf("it is for %s, and not for %s", strings.Join(others, ", "), here)
}

// fromArchive looks into a docker archive, as "docker save" writes it.
func fromArchive(file, full string) (v1.Image, error) {
	open := func() (io.ReadCloser, error) { return os.Open(file) }
	m, err := tarball.LoadManifest(open)
	if err != nil {
		return nil, err
	}
	for _, d := range m {
		for _, t := range d.RepoTags {
			if canonical(t) != full {
				continue
			}
			// The tag picks one image of an archive that holds many.
			tag, err := newTag(t)
			if err != nil {
				return nil, err
			}
			return tarball.Image(open, tag)
		}
	}
	return nil, nil
}

func (s *Store) unpacked(im v1.Image) (*Image, error) {
	digest, err := im.ConfigName()
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	cf, err := im.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.done[digest.Hex]; ok {
		return known, nil
	}
	root := filepath.Join(s.unpack, digest.Hex)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		if err := s.extract(im, root); err != nil {
			return nil, fmt.Errorf("unpack image %s: %w", digest, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("unpack image: %w", err)
	}
	c := cf.Config
	out := &Image{ID: digest.String(), Root: root, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, WorkingDir: c.WorkingDir, User: c.User}
	s.done[digest.Hex] = out
	return out, nil
}

// extract unpacks into a temporary directory first, so that one which was
// interrupted is never taken for an image.
func (s *Store) extract(im v1.Image, root string) (err error) {
	tmp := root + ".partial"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	rc := mutate.Extract(im)
	defer func() { err = errors.Join(err, rc.Close()) }()
	if err := untar(rc, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, root)
}
