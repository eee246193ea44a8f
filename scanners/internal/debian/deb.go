// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/scanyard/scanyard/scanners/internal/layer"
)

// The ar format of a package: a magic line, then members with a header of sixty bytes each. The libraries for it
// are older than this package's rules about sizes, so these few lines read it.
const (
	arMagic  = "!<arch>\n"
	arHeader = 60
)

// maxDictionary is more than any package of Debian needs to unpack (xz -9 has 64 MiB).
const maxDictionary = 128 << 20

// unpack puts the files of a package into a tree.
func unpack(r io.Reader, tree *layer.Tree) error {
	magic := make([]byte, len(arMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != arMagic {
		return errors.New("is not a Debian package")
	}
	found := false
	for i := 0; ; i++ {
		name, size, err := nextMember(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if i > 16 {
			return errors.New("has too many members")
		}
		body := &io.LimitedReader{R: r, N: size}
		switch {
		case i == 0:
			err = checkFormat(name, body)
		case !strings.HasPrefix(name, "data.tar"):
		case found:
			err = errors.New("has two sets of files")
		default:
			found = true
			err = unpackTar(name, body, tree)
		}
		if err != nil {
			return err
		}
		if err := skipRest(r, body, name, size); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("has no files: data.tar is missing")
	}
	return nil
}

// skipRest goes to the next member, which starts at an even offset.
func skipRest(r io.Reader, body *io.LimitedReader, name string, size int64) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if body.N > 0 {
		return fmt.Errorf("ends within %s: unexpected EOF", name)
	}
	if size%2 == 0 {
		return nil
	}
	_, err := io.CopyN(io.Discard, r, 1)
	if errors.Is(err, io.EOF) {
		return nil // the last member's filling may be missing
	}
	return err
}

func nextMember(r io.Reader) (string, int64, error) {
	h := make([]byte, arHeader)
	if _, err := io.ReadFull(r, h); err != nil {
		if errors.Is(err, io.EOF) {
			return "", 0, io.EOF
		}
		return "", 0, errors.New("ends within a header")
	}
	if !bytes.Equal(h[58:60], []byte("`\n")) {
		return "", 0, errors.New("has a broken header")
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
	if err != nil || size < 0 {
		return "", 0, errors.New("has a member of no size")
	}
	return strings.TrimSuffix(strings.TrimSpace(string(h[:16])), "/"), size, nil
}

func checkFormat(name string, r io.Reader) error {
	v, err := io.ReadAll(io.LimitReader(r, 16))
	if err != nil {
		return err
	}
	if name != "debian-binary" || !strings.HasPrefix(string(v), "2.") {
		return fmt.Errorf("has format %q, not 2", strings.TrimSpace(string(v)))
	}
	return nil
}

func unpackTar(name string, r io.Reader, tree *layer.Tree) error {
	plain, done, err := decompress(name, r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer done()
	tr := tar.NewReader(plain)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return checkEnd(name, plain)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Name == "./" || h.Name == "." || h.Name == "/" {
			continue
		}
		if err := tree.Add(h, tr); err != nil {
			return err
		}
	}
}

// checkEnd reads what comes after the last entry, so that the compression's checksums are looked at.
func checkEnd(name string, r io.Reader) error {
	const most = 1 << 20 // tar fills up its last block
	n, err := io.Copy(io.Discard, io.LimitReader(r, most))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n == most {
		return fmt.Errorf("%s: goes on after its end", name)
	}
	return nil
}

// decompress picks by the name's ending, as dpkg does.
func decompress(name string, r io.Reader) (io.Reader, func(), error) {
	nothing := func() {}
	r = bufio.NewReaderSize(r, 256<<10) // xz takes single bytes
	switch {
	case strings.HasSuffix(name, ".xz"):
		x, err := xz.NewReader(r)
		return x, nothing, err
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxDictionary), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nothing, err
		}
		return z, z.Close, nil
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(r)
		return z, nothing, err
	case strings.HasSuffix(name, ".tar") || !strings.Contains(name, "."):
		return r, nothing, nil
	default:
		return nil, nothing, errors.New("is compressed in a way that is not known")
	}
}
