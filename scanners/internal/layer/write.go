// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// Empty reports that nothing would be written.
func (t *Tree) Empty() bool { return len(t.entries) == 0 }

// Layer writes the tree as a compressed layer to a new file below dir, which must stay as long as the layer
// is used.
func (t *Tree) Layer(dir string, date time.Time) (v1.Layer, error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.gz")
	if err != nil {
		return nil, fmt.Errorf("make a layer file: %w", err)
	}
	// Not the standard library's: this one's version is in go.mod, so that a new Go release does not change the
	// digest of an image without Go programs.
	z := gzip.NewWriter(f)
	err = t.WriteTar(z, date)
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	l, err := tarball.LayerFromFile(f.Name(), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read layer back: %w", err)
	}
	return l, nil
}

// WriteTar writes the entries sorted by name, but hard links after all else, so that what they name is there.
func (t *Tree) WriteTar(w io.Writer, date time.Time) error {
	tw := tar.NewWriter(w)
	names := slices.Sorted(maps.Keys(t.entries))
	for _, links := range []bool{false, true} {
		for _, n := range names {
			e := t.entries[n]
			if (e.kind == tar.TypeLink) != links || e.implicit && t.overlay {
				continue
			}
			if err := t.writeEntry(tw, n, e, date); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
	}
	return tw.Close()
}

func (t *Tree) writeEntry(tw *tar.Writer, name string, e *entry, date time.Time) error {
	h := &tar.Header{
		Typeflag: e.kind, Name: name, Linkname: e.target, Mode: e.mode, Uid: e.uid, Gid: e.gid, Size: e.size,
		ModTime: date.UTC().Truncate(time.Second),
	}
	if e.kind == tar.TypeDir {
		h.Name += "/"
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if e.kind != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(tw, io.NewSectionReader(t.spool, e.offset, e.size))
	return err
}
