// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

func newTag(s string) (*name.Tag, error) {
	t, err := name.NewTag(s, name.WeakValidation)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// untar writes an image's files below dir. It works through os.Root, so that
// no name or link in the archive reaches outside.
func untar(r io.Reader, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	owners := os.Geteuid() == 0
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := inside(h.Name)
		if name == "" {
			continue
		}
		if err := writeEntry(root, name, h, tr, owners); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// inside turns an archive's name into one relative to the root.
func inside(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func writeEntry(root *os.Root, name string, h *tar.Header, r io.Reader, owners bool) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := writeFile(root, name, r); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(inside(h.Linkname), name)
	default:
		return nil // devices and pipes: containers get their own /dev
	}
	if owners {
		if err := root.Lchown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	// After the owner, since a change of owner clears the special bits.
	for bit, special := range map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if h.Mode&bit != 0 {
			mode |= special
		}
	}
	return root.Chmod(name, mode)
}

func writeFile(root *os.Root, name string, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
