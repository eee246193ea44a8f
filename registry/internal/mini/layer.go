// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const (
	// maxPath is the longest name that is looked at, maxText the largest file of text that is read.
	maxPath = 4096
	maxText = 64 << 20
	// maxProgram is the largest program that is looked into: it is held in memory.
	maxProgram = 256 << 20
	// ratioFrom is how much of a layer comes before its ratio counts.
	ratioFrom = 64 << 20
	// maxWarnings is how many are kept.
	maxWarnings = protocol.MaxWarningsKept

	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// analysis is what is known of a layer. It is stored in the cache.
type analysis struct {
	Files map[string]found `json:"files"`
	// Removed are paths that the layer takes from those below; Opaque are directories whose former content is gone.
	Removed  []string `json:"removed,omitempty"`
	Opaque   []string `json:"opaque,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// found is a file that says something.
type found struct {
	Packages []pkg        `json:"packages,omitempty"`
	OS       *protocol.OS `json:"os,omitempty"`
}

// errZstd is a layer that the standard library cannot read.
var errZstd = errors.New("a layer is compressed by zstd")

// budget is what an image may cost altogether.
type budget struct {
	limits protocol.Limits
	bytes  int64
	files  int64
}

// counter counts what goes by.
type counter struct {
	io.Reader

	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded reads uncompressed bytes within the bounds.
type bounded struct {
	r          io.Reader
	budget     *budget
	compressed *counter
	own        int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.own += int64(n)
	b.budget.bytes += int64(n)
	limits := b.budget.limits
	switch {
	case limits.UncompressedBytes > 0 && b.budget.bytes > limits.UncompressedBytes:
		return 0, protocol.Errorf(protocol.TooLarge, "the image has more than %d bytes uncompressed", limits.UncompressedBytes)
	case limits.Ratio > 0 && b.own > ratioFrom && b.own > b.compressed.n*limits.Ratio:
		return 0, protocol.Errorf(protocol.RatioExceeded, "a layer has more than %d times its compressed bytes", limits.Ratio)
	}
	return n, err
}

// analyse reads a layer: its blob must have the digest, and its archive the diffID where that is known.
func analyse(ctx context.Context, s source, digest, diffID string, b *budget) (a *analysis, read int64, err error) {
	blob, archive := hashOf(digest), hashOf(diffID)
	if blob == nil {
		return nil, 0, protocol.Errorf(protocol.InvalidInput, "%q is no digest", digest)
	}
	body, err := s.open(ctx, "blobs", digest)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	compressed := &counter{Reader: io.TeeReader(body, blob)}
	defer func() { read = compressed.n }()
	plain, err := decompress(compressed)
	if err != nil {
		return nil, 0, err
	}
	var content io.Reader = &bounded{r: plain, budget: b, compressed: compressed}
	if archive != nil {
		content = io.TeeReader(content, archive)
	}
	a, err = walk(ctx, content, b)
	if err == nil {
		// What follows the archive counts for the sums, and for the bounds.
		_, err = io.Copy(io.Discard, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, compressed)
	}
	switch {
	case err != nil:
		return nil, 0, broken(err)
	case !blob.matches():
		return nil, 0, protocol.Errorf(protocol.InvalidInput, "a layer does not have the digest %s", digest)
	case archive != nil && !archive.matches():
		return nil, 0, protocol.Errorf(protocol.InvalidInput, "layer %s does not have the diffID %s of the config", digest, diffID)
	}
	return a, 0, nil
}

// broken is the error of a layer that cannot be read.
func broken(err error) error {
	if _, told := errors.AsType[*protocol.Error](err); told || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return protocol.Errorf(protocol.InvalidInput, "read layer: %v", err)
}

// decompress tells the form of a layer by its first bytes, whatever its media type says.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, broken(err)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, broken(err)
		}
		return z, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil, errZstd
	}
	return b, nil
}

// walk reads an archive. A name is a name only: nothing is written.
func walk(ctx context.Context, r io.Reader, b *budget) (*analysis, error) {
	a := &analysis{Files: map[string]found{}}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b.files++; b.limits.Files > 0 && b.files > b.limits.Files {
			return nil, protocol.Errorf(protocol.TooManyFiles, "the image has more than %d files", b.limits.Files)
		}
		name, valid := nameOf(header.Name)
		if !valid {
			a.warn("a path has more than 4096 bytes, or leads out of the image, and was passed over")
			continue
		}
		if a.hide(name) || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := a.file(name, header, archive, b.limits.FileBytes); err != nil {
			return nil, err
		}
	}
}

// nameOf makes a path relative to the root. One that leads out of the image is none.
func nameOf(name string) (string, bool) {
	if len(name) > maxPath {
		return "", false
	}
	name = path.Clean(strings.TrimLeft(name, "/"))
	return name, name != "." && fs.ValidPath(strings.ToValidUTF8(name, "?"))
}

// hide notes what a whiteout takes away; true: the entry is one.
func (a *analysis) hide(name string) bool {
	directory, base := path.Split(name)
	switch {
	case base == opaque:
		a.Opaque = append(a.Opaque, path.Clean(directory))
	case strings.HasPrefix(base, whiteout):
		a.Removed = append(a.Removed, path.Join(directory, strings.TrimPrefix(base, whiteout)))
	default:
		return false
	}
	return true
}

func (a *analysis) warn(text string) {
	if len(a.Warnings) < maxWarnings && !slices.Contains(a.Warnings, text) {
		a.Warnings = append(a.Warnings, text)
	}
}

// file looks into a file that may say something. What cannot be understood is a warning.
func (a *analysis) file(name string, header *tar.Header, content io.Reader, most int64) error {
	parse := parserOf(name)
	program := parse == nil && header.FileInfo().Mode()&0o111 != 0 && header.Size > 4
	if parse == nil && !program {
		return nil
	}
	limit := int64(maxText)
	if program {
		limit = maxProgram
	}
	if most > 0 {
		limit = min(limit, most)
	}
	if header.Size > limit {
		a.warn("a file is too large to be looked into")
		return nil
	}
	if program {
		return a.program(name, content)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	f, err := parse(text)
	if err != nil {
		a.warn(fmt.Sprintf("%s cannot be understood: %v", name, err))
		return nil
	}
	a.Files[name] = f
	return nil
}

// program reads the modules of a Go program.
func (a *analysis) program(name string, content io.Reader) error {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(content, magic); err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	if string(magic) != "\x7fELF" {
		return nil
	}
	rest, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(append(magic, rest...)))
	if err != nil {
		return nil //nolint:nilerr // a program of another language has no build information
	}
	a.Files[name] = found{Packages: modulesOf(info)}
	return nil
}
