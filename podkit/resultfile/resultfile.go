// SPDX-License-Identifier: Apache-2.0

// Package resultfile opens the file that a scanner has left. Its folder was shared with a scanner that may be hostile: links
// that lead out of the folder are not followed, since they could lead to a token or to the environment of the reader, and only
// a regular file is opened, since a pipe would never end.
package resultfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrMissing says that the scanner left no such file.
var ErrMissing = errors.New("there is no such file")

// File is the file of a scanner.
type File struct {
	// Size is its size in bytes.
	Size int64
	// Modified is when it was last written.
	Modified time.Time

	root *os.Root
	name string
}

// Find looks at the file with this absolute path. The error wraps ErrMissing if there is none.
func Find(path string) (*File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open the folder of the result: %w", err)
	}
	f := &File{root: root, name: filepath.Base(path)}
	info, err := root.Stat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: %w", path, ErrMissing)
	case err != nil:
		err = fmt.Errorf("look at %s: %w", path, err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = root.Close() // the error counts
		return nil, err
	}
	f.Size, f.Modified = info.Size(), info.ModTime()
	return f, nil
}

// Open returns the content; each call starts from the beginning.
func (f *File) Open() (io.ReadCloser, error) { return f.root.Open(f.name) }

// Close ends the use of the file.
func (f *File) Close() { _ = f.root.Close() } // it was only read
