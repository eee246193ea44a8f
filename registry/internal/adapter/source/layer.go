// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const (
	// maxPath is the longest name that is looked at.
	maxPath = 4096
	// ratioFrom is how much of a layer comes before its ratio counts.
	ratioFrom = 64 << 20
	// maxWindow is the most memory that a frame of Zstandard may ask for.
	maxWindow = 64 << 20

	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Budget is what an image may cost altogether. It is for one image, and for one goroutine.
type Budget struct {
	Limits     protocol.Limits
	compressed int64
	bytes      int64
	files      int64
}

// File counts an entry of an archive.
func (b *Budget) File() error {
	if b.files++; b.Limits.Files > 0 && b.files > b.Limits.Files {
		return protocol.Errorf(protocol.TooManyFiles, "the image has more than %d files", b.Limits.Files)
	}
	return nil
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
	budget     *Budget
	compressed *counter
	own        int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.own += int64(n)
	b.budget.bytes += int64(n)
	limits := b.budget.Limits
	switch {
	case limits.UncompressedBytes > 0 && b.budget.bytes > limits.UncompressedBytes:
		return 0, protocol.Errorf(protocol.TooLarge, "the image has more than %d bytes uncompressed", limits.UncompressedBytes)
	case limits.Ratio > 0 && b.own > ratioFrom && b.own > b.compressed.n*limits.Ratio:
		return 0, protocol.Errorf(protocol.RatioExceeded, "a layer has more than %d times its compressed bytes", limits.Ratio)
	}
	return n, err
}

// Layer gives the archive of a layer to walk, and tells how many compressed bytes were read. Without an error the blob had its digest,
// and the archive its diffID where that is known: only then may somebody keep what walk has found.
func (i *Image) Layer(ctx context.Context, l ImageLayer, b *Budget, walk func(archive io.Reader) error) (read int64, err error) {
	blob, archive := hashOf(l.Digest), hashOf(l.DiffID)
	if blob == nil {
		return 0, protocol.Errorf(protocol.InvalidInput, "%q is not a digest", l.Digest)
	}
	if b.compressed += l.Size; b.Limits.CompressedBytes > 0 && b.compressed > b.Limits.CompressedBytes {
		return 0, protocol.Errorf(protocol.TooLarge, "the image has more than %d bytes", b.Limits.CompressedBytes)
	}
	body, err := i.Source.Open(ctx, Blobs, l.Digest)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	compressed := &counter{Reader: io.TeeReader(body, blob)}
	plain, end, err := Decompress(compressed)
	if err != nil {
		return compressed.n, err
	}
	defer end()
	var content io.Reader = &bounded{r: plain, budget: b, compressed: compressed}
	if archive != nil {
		content = io.TeeReader(content, archive)
	}
	if err = walk(content); err == nil {
		// What follows the archive counts for the sums, and for the bounds.
		_, err = io.Copy(io.Discard, content)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, compressed)
	}
	switch {
	case err != nil:
		return compressed.n, broken(err)
	case !blob.matches():
		return compressed.n, protocol.Errorf(protocol.InvalidInput, "a layer does not have the digest %s", l.Digest)
	case archive != nil && !archive.matches():
		return compressed.n, protocol.Errorf(protocol.InvalidInput, "layer %s does not have the diffID %s of the config", l.Digest, l.DiffID)
	}
	return compressed.n, nil
}

// broken is the error of a layer that cannot be read.
func broken(err error) error {
	if _, told := errors.AsType[*protocol.Error](err); told || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return protocol.Errorf(protocol.InvalidInput, "read layer: %v", err)
}

// Decompress tells the form of a stream by its first bytes (gzip, zstd, or plain), whatever its media type says. The caller calls end.
func Decompress(r io.Reader) (plain io.Reader, end func(), err error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, nil, broken(err)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, broken(err)
		}
		return z, func() {}, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, broken(err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

// Remembered keeps the error of a reader apart from that of who writes what it gives.
type Remembered struct {
	R   io.Reader
	Err error
}

// Read reads, and remembers an error that is not the end.
func (r *Remembered) Read(p []byte) (int, error) {
	n, err := r.R.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.Err = err
	}
	return n, err
}

// Name makes a path of an archive relative to the root. One that leads out of the image, or is too long, is none.
func Name(name string) (string, bool) {
	if len(name) > maxPath {
		return "", false
	}
	name = path.Clean(strings.TrimLeft(name, "/"))
	return name, name != "." && fs.ValidPath(strings.ToValidUTF8(name, "?"))
}

// Whiteout tells what an entry takes from the layers below: a path, or the former content of a directory. Neither: it is an entry as others.
func Whiteout(name string) (removed, emptied string) {
	directory, base := path.Split(name)
	switch {
	case base == opaque:
		return "", path.Clean(directory)
	case strings.HasPrefix(base, whiteout):
		return path.Join(directory, strings.TrimPrefix(base, whiteout)), ""
	}
	return "", ""
}
