// SPDX-License-Identifier: Apache-2.0

// Package resultimport is how the command line hands a result that was made elsewhere to the container that stores it.
//
// A result is one gzip stream, cut into parts. Each part is a ConfigMap, and is mounted at [PartDir]; the first one also has
// the [Manifest]. The container puts the parts together and holds the result against the manifest.
package resultimport

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

const (
	// TypePrefix begins the name of a ScanType that imports; the result type follows.
	TypePrefix = "import-"
	// ManifestKey is the key of the manifest in the first ConfigMap.
	ManifestKey = "manifest.json"
	// PartKey is the key of the part in each ConfigMap.
	PartKey = "part.gz"
	// LabelImport is on the ConfigMaps of a result; its value is the same for all parts of one result.
	LabelImport = "scanyard.io/import"

	// MaxPart is the size of a part. A ConfigMap holds a MiB with all that is in it.
	MaxPart = 1_000_000
	// MaxParts bounds what the API server has to keep for one result.
	MaxParts = 8
	// MaxSize bounds a result as it was written, which is what its parser has to read.
	MaxSize = 512 << 20

	mountDir = "/import"
)

// Manifest says what the parts become.
type Manifest struct {
	// Size and SHA256 are those of the result as it was written.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Parts  int    `json:"parts"`
}

// PartDir is where a part is mounted.
func PartDir(part int) string { return path.Join(mountDir, strconv.Itoa(part)) }

// Types are the result types that can be imported, of the names of all ScanTypes.
func Types(scanTypes []string) []string {
	var out []string
	for _, name := range scanTypes {
		if resultType, ok := strings.CutPrefix(name, TypePrefix); ok {
			out = append(out, resultType)
		}
	}
	return out
}

// ErrTooLarge says that a result is larger than what can be imported.
var ErrTooLarge = fmt.Errorf("a result may have %d MiB, and %d MB when compressed", MaxSize>>20, MaxPart*MaxParts/1_000_000)

// Split makes parts of a result.
func Split(result io.Reader) (Manifest, [][]byte, error) { return split(result, MaxSize) }

func split(result io.Reader, most int64) (Manifest, [][]byte, error) {
	var compressed bytes.Buffer
	zip, sum := gzip.NewWriter(&bounded{to: &compressed, left: MaxPart * MaxParts}), sha256.New()
	size, err := io.Copy(io.MultiWriter(zip, sum), io.LimitReader(result, most+1))
	if err == nil {
		err = zip.Close()
	}
	switch {
	case err != nil:
		return Manifest{}, nil, err
	case size > most:
		return Manifest{}, nil, ErrTooLarge
	case size == 0:
		return Manifest{}, nil, errors.New("it is empty")
	}
	var parts [][]byte
	for compressed.Len() > 0 {
		parts = append(parts, compressed.Next(MaxPart))
	}
	return Manifest{Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Parts: len(parts)}, parts, nil
}

// Join writes the result of its parts.
func (m Manifest) Join(to io.Writer, parts io.Reader) error {
	if m.Size < 0 || m.Size > MaxSize {
		return ErrTooLarge
	}
	zip, err := gzip.NewReader(parts)
	if err != nil {
		return fmt.Errorf("read the parts: %w", err)
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(zip, m.Size+1))
	if err != nil {
		return fmt.Errorf("read the parts: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); size != m.Size || got != m.SHA256 {
		return fmt.Errorf("the parts are not those of the manifest: they have SHA-256 %s, and not %s", got, m.SHA256)
	}
	return nil
}

// bounded refuses to write more than what is left.
type bounded struct {
	to   io.Writer
	left int
}

// Write writes all of p, or nothing.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, ErrTooLarge
	}
	return b.to.Write(p)
}
