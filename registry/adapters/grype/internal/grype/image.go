// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/anchore/stereoscope/pkg/file"
	"github.com/anchore/stereoscope/pkg/image"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

// archive is a layer that was read: a file of this process's, under the layer's diffID.
type archive struct {
	path string
	id   v1.Hash
	size int64
}

// Digest and DiffID are those of the image's layer: findings name it.
func (a archive) Digest() (v1.Hash, error) { return a.id, nil }

// DiffID is that of the layer in the image's config.
func (a archive) DiffID() (v1.Hash, error) { return a.id, nil }

// Compressed gives the archive as it is.
func (a archive) Compressed() (io.ReadCloser, error) { return a.Uncompressed() }

// Uncompressed gives the archive.
func (a archive) Uncompressed() (io.ReadCloser, error) { return os.Open(a.path) }

// Size is that of the archive in bytes.
func (a archive) Size() (int64, error) { return a.size, nil }

// MediaType is that of a plain archive.
func (a archive) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// looking is one image being looked at.
type looking struct {
	image  *source.Image
	params protocol.SBOMParams
	budget source.Budget
	result *protocol.SBOMResult
	// dir is for files that end with the request.
	dir string
}

// unpack reads the layers, and gives the image as Syft's libraries know it. The caller calls Cleanup of the image.
func (l *looking) unpack(ctx context.Context, progress func(done, total int)) (*image.Image, error) {
	layers := make([]v1.Layer, 0, len(l.image.Layers))
	for i, layer := range l.image.Layers {
		read, err := l.layer(ctx, layer)
		if err != nil {
			return nil, err
		}
		layers = append(layers, read)
		progress(i+1, len(l.image.Layers))
	}
	if len(layers) == 0 {
		// An image without layers has an empty root.
		nothing, err := l.write(ctx, source.ImageLayer{Descriptor: source.Descriptor{Digest: emptyLayer}}, func(func(io.Reader) error) error { return nil })
		if err != nil {
			return nil, err
		}
		layers = append(layers, nothing)
	}
	whole, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, fmt.Errorf("put layers together: %w", err)
	}
	system, architecture, _ := strings.Cut(l.params.Platform, "/")
	architecture, _, _ = strings.Cut(architecture, "/")
	if whole, err = mutate.ConfigFile(whole, configOf(whole, system, architecture)); err != nil {
		return nil, fmt.Errorf("put layers together: %w", err)
	}
	temporary := file.NewTempDirGenerator("image")
	opened := image.New(whole, temporary, l.dir, image.WithManifestDigest(l.params.Image.Digest))
	if err := opened.Read(ctx); err != nil {
		err = errors.Join(explain(ctx, err), opened.Cleanup())
		return nil, err
	}
	return opened, nil
}

// emptyLayer is the sum of nothing.
const emptyLayer = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func configOf(whole v1.Image, system, architecture string) *v1.ConfigFile {
	config, err := whole.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = system, architecture
	return config
}

// layer reads a layer into a file.
func (l *looking) layer(ctx context.Context, layer source.ImageLayer) (archive, error) {
	return l.write(ctx, layer, func(read func(io.Reader) error) error {
		if strings.HasSuffix(layer.MediaType, "+encrypted") {
			report.Note(l.result, []string{"layer " + layer.Digest + " is encrypted"}, nil)
			return nil
		}
		n, err := l.image.Layer(ctx, layer, &l.budget, read)
		l.result.BytesRead += n
		if err == nil {
			l.result.LayersAnalysed++
		}
		return err
	})
}

// write makes the file of a layer, under the name that Syft's libraries would give it: they need no second one.
func (l *looking) write(ctx context.Context, layer source.ImageLayer, fill func(read func(io.Reader) error) error) (a archive, err error) {
	id := layer.DiffID
	if id == "" {
		id = layer.Digest
	}
	if a.id, err = v1.NewHash(id); err != nil {
		return a, protocol.Errorf(protocol.InvalidInput, "%q is not a digest", id)
	}
	a.path = filepath.Join(l.dir, fmt.Sprintf("%d-%s", layer.Index, id))
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions)
	if err != nil {
		return a, fmt.Errorf("keep layer: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := tar.NewWriter(f)
	if err := fill(func(r io.Reader) error { return l.copy(ctx, out, r) }); err != nil {
		return a, err
	}
	if err := out.Close(); err != nil {
		return a, local(err)
	}
	info, err := f.Stat()
	if err != nil {
		return a, fmt.Errorf("keep layer: %w", err)
	}
	a.size = info.Size()
	return a, nil
}

// copied are the kinds of entries that are looked at. Devices and pipes are none.
var copied = map[byte]bool{tar.TypeReg: true, tar.TypeDir: true, tar.TypeSymlink: true, tar.TypeLink: true}

// copy takes over the entries of an archive that may be looked at.
func (l *looking) copy(ctx context.Context, out *tar.Writer, r io.Reader) error {
	reader := tar.NewReader(r)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.budget.File(); err != nil {
			return err
		}
		name, valid := source.Name(header.Name)
		if !valid {
			l.warn("a path has more than 4096 bytes, or leads out of the image, and was passed over")
			continue
		}
		if !copied[header.Typeflag] || len(header.Linkname) > maxLink {
			continue
		}
		kept := &tar.Header{Name: name, Linkname: header.Linkname, Typeflag: header.Typeflag, Mode: header.Mode & 0o7777, Size: header.Size}
		if kept.Typeflag != tar.TypeReg {
			kept.Size = 0
		}
		if most := l.budget.Limits.FileBytes; most > 0 && kept.Size > most || isSparse(header) {
			// The file hides one of its name in a layer below.
			l.warn("a file is too large to be looked into")
			kept.Size = 0
		}
		if err := out.WriteHeader(kept); err != nil {
			return local(err)
		}
		if kept.Size == 0 {
			continue
		}
		from := &source.Remembered{R: reader}
		if _, err := io.Copy(out, from); from.Err != nil {
			return from.Err
		} else if err != nil {
			return local(err)
		}
	}
}

// isSparse tells a file with holes: it may be larger than its archive, by any factor.
func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

func (l *looking) warn(text string) { report.Note(l.result, nil, []string{text}) }

const (
	permissions = 0o600
	// maxLink is the longest target of a link that is taken over, in bytes.
	maxLink = 4096
)

// explain tells an image that cannot be looked at from a request that is over, and from a disk that is full.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isFull(err):
		return local(err)
	}
	return protocol.Errorf(protocol.InvalidInput, "look at image: %v", err)
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// local is an error of this machine and not of the image.
func local(err error) error {
	if isFull(err) {
		return protocol.Errorf(protocol.DiskFull, "%v", err)
	}
	return protocol.Errorf(protocol.Internal, "%v", err)
}
