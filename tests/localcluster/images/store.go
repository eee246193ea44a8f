// SPDX-License-Identifier: Apache-2.0

package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ErrNotFound says that neither the mapping nor the folder knows an image.
var ErrNotFound = errors.New("image not found")

// Image is a file system with the defaults of the programs in it.
type Image struct {
	// ID names the content as runtimes do: repository and digest, "docker.io/library/nginx@sha256:…".
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
		return fromEntry(e, image)
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
	return s.unpacked(im, image)
}

// idOf is what runtimes tell of an image: its repository and the digest of its content.
func idOf(image, digest string) string {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return image + "@" + digest
	}
	if d, ok := ref.(name.Digest); ok {
		digest = d.DigestStr() // a pod that names a digest runs it
	}
	return strings.Replace(ref.Context().Name(), "index.docker.io/", "docker.io/", 1) + "@" + digest
}

// digestOf makes a digest of what an entry maps: the same for the same entry and the same files, another where a program
// was built anew.
func digestOf(e *Entry) (string, error) {
	sum := sha256.New()
	encoded, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", e.Image, err)
	}
	sum.Write(encoded)
	files := []string{}
	if e.Root != "" && e.Root != RootHost {
		files = append(files, e.Root)
	}
	for _, at := range slices.Sorted(maps.Keys(e.Binaries)) {
		files = append(files, e.Binaries[at])
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the container says so when it starts
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", e.Image, err)
		}
		fmt.Fprintf(sum, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

func fromEntry(e *Entry, image string) (*Image, error) {
	digest, err := digestOf(e)
	if err != nil {
		return nil, err
	}
	im := &Image{ID: idOf(image, digest), Root: e.Root, Entrypoint: e.Entrypoint, Cmd: e.Cmd, WorkingDir: e.WorkingDir, User: e.User, Binaries: e.Binaries}
	if e.Root == RootHost {
		im.Root = "/"
	}
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		im.Env = append(im.Env, k+"="+e.Env[k])
	}
	return im, nil
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

func (s *Store) unpacked(im v1.Image, image string) (*Image, error) {
	manifest, err := im.Digest()
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
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
		return known.as(image, manifest), nil
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
	return out.as(image, manifest), nil
}

// as is the image under the name by which a pod asks for it.
func (im *Image) as(image string, manifest v1.Hash) *Image {
	named := *im
	named.ID = idOf(image, manifest.String())
	return &named
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
