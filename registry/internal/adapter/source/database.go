// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const directory = 0o700

// Artifact is the one layer of a database's artifact, or a file that has what such a layer has.
type Artifact struct {
	// Version is the digest of the manifest, or of the file.
	Version string
	open    func() (io.ReadCloser, error)
	sum     *verified
	size    int64
}

// Database finds the layer of a source whose media type is known. A layer of more than most bytes is refused.
func Database(ctx context.Context, s protocol.Source, most int64, mediaTypes ...string) (*Artifact, error) {
	if s.File != "" {
		return fileOf(s.File, most)
	}
	name, digest, pinned := strings.Cut(s.Reference, "@")
	if !pinned || s.URL == "" {
		return nil, protocol.Errorf(protocol.InvalidRequest, "a source needs url and reference NAME@DIGEST, or a file")
	}
	from := newRemote(s.URL, name, s.Token)
	var m Manifest
	if err := Document(ctx, from, Manifests, digest, &m); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.Layers, func(d Descriptor) bool { return slices.Contains(mediaTypes, d.MediaType) })
	if i < 0 {
		return nil, protocol.Errorf(protocol.DatabaseSchema, "the artifact has no layer of the type %s", strings.Join(mediaTypes, " or "))
	}
	layer := m.Layers[i]
	sum := hashOf(layer.Digest)
	switch {
	case sum == nil:
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "%q is not a digest", layer.Digest)
	case layer.Size > most:
		return nil, protocol.Errorf(protocol.TooLarge, "the database has more than %d bytes", most)
	}
	return &Artifact{
		Version: digest, sum: sum, size: layer.Size,
		open: func() (io.ReadCloser, error) { return from.Open(ctx, Blobs, layer.Digest) },
	}, nil
}

func fileOf(name string, most int64) (*Artifact, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, protocol.Errorf(protocol.NotFound, "read database: %v", err)
	}
	defer f.Close() //nolint:errcheck // what was only read
	sum := sha256.New()
	size, err := io.Copy(sum, io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, protocol.Errorf(protocol.NotFound, "read database: %v", err)
	case size > most:
		return nil, protocol.Errorf(protocol.TooLarge, "the database has more than %d bytes", most)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return &Artifact{Version: digest, sum: hashOf(digest), size: size, open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}

// Read gives the content to read, and afterwards checks its sum: what read has made of the content counts only without an error.
func (a *Artifact) Read(read func(content io.Reader) error) (err error) {
	body, err := a.open()
	if err != nil {
		return err
	}
	defer body.Close()
	whole := &counter{Reader: io.TeeReader(io.LimitReader(body, a.size), a.sum)}
	readErr := read(whole)
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return protocol.Errorf(protocol.Unavailable, "read database: %v", err)
	}
	switch {
	case whole.n < a.size:
		return protocol.Errorf(protocol.Unavailable, "the database ends after %d of %d bytes", whole.n, a.size)
	case !a.sum.matches():
		return protocol.Errorf(protocol.DatabaseCorrupt, "the database does not have the digest %s:%s", a.sum.algorithm, a.sum.want)
	}
	return readErr
}

// HasSpace tells whether a directory's disk has bytes free; 0 asks for nothing.
func HasSpace(dir string, needed int64) error {
	var stat syscall.Statfs_t
	if needed <= 0 {
		return nil
	}
	if err := syscall.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("look at disk: %w", err)
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < needed {
		return protocol.Errorf(protocol.DiskFull, "%d bytes are free, and %d are needed", free, needed)
	}
	return nil
}

// Install makes the directory of a version: fill writes into a directory aside, which is then moved to its place.
func Install(dir string, fill func(aside string) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), directory); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	if err := fill(aside); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	if err := os.Rename(aside, dir); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

// Drop removes the directory of a version: one that has a file that every database has. Another one is left alone.
func Drop(dir, has string) error {
	switch _, err := os.Stat(filepath.Join(dir, has)); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("drop database: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("drop database: %w", err)
	}
	return nil
}
