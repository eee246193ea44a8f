// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	xio "github.com/aquasecurity/trivy/pkg/x/io"
)

// inMemory is the largest file that is held in memory; a larger one is written aside, under a name of ours.
const inMemory = 1 << 20

// tarInfo is what is told of a file.
type tarInfo = fs.FileInfo

var errTooLarge = errors.New("a file is too large to be looked into")

// content is that of a file of a layer. It is read when the first analyser asks for it, and then for all of them.
type content struct {
	r          io.Reader
	size, most int64
	dir        string
	read       bool
	// broken is why the layer could not be read.
	broken error
	text   []byte
	aside  string
}

// open gives the content to an analyser, which closes what it gets. The walk calls open, and no analyser does.
func (c *content) open() (xio.ReadSeekCloserAt, error) {
	if c.most > 0 && c.size > c.most {
		return nil, errTooLarge
	}
	if !c.read {
		c.read = true
		if err := c.load(); err != nil {
			return nil, err
		}
	}
	switch {
	case c.broken != nil:
		return nil, c.broken
	case c.aside == "":
		return xio.NopCloser(bytes.NewReader(c.text)), nil
	}
	f, err := os.Open(c.aside)
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	return f, nil
}

func (c *content) load() error {
	if c.size <= inMemory {
		c.text, c.broken = io.ReadAll(c.r)
		return c.broken
	}
	f, err := os.CreateTemp(c.dir, ".file-*")
	if err != nil {
		return fmt.Errorf("keep file: %w", err)
	}
	c.aside = f.Name()
	from := &remembered{r: c.r}
	_, err = io.Copy(f, from)
	c.broken = from.err
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep file: %w", err)
	}
	return nil
}

// close removes what was written aside. An analyser that has it open reads on.
func (c *content) close() error {
	if c.aside == "" {
		return nil
	}
	if err := os.Remove(c.aside); err != nil {
		return fmt.Errorf("remove file: %w", err)
	}
	return nil
}

// remembered keeps the error of the reader apart from that of the writer.
type remembered struct {
	r   io.Reader
	err error
}

func (r *remembered) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err //nolint:wrapcheck // the end of a file is told as it is
}
