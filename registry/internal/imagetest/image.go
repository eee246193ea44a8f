// SPDX-License-Identifier: Apache-2.0

package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// The media types of images.
const (
	TypeManifest = "application/vnd.oci.image.manifest.v1+json"
	TypeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Compression is the form of a layer's blob.
type Compression string

// The compressions. Zstd is a frame of blocks that are stored as they are.
const (
	None Compression = ""
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// File is an entry of a layer's archive.
type File struct {
	Name string
	Body string
	// Type is that of package tar; 0: a regular file.
	Type byte
	// Link is where a link leads.
	Link string
	Mode int64
}

// Layer is a layer of an image to be made.
type Layer struct {
	Files       []File
	Compression Compression
	// Archive is taken instead of one of the files.
	Archive []byte
	// Blob is taken instead of the compressed archive, DiffID instead of that of the archive.
	Blob   []byte
	DiffID string
	// Command is the line of the history.
	Command string
}

// Spec is an image to be made.
type Spec struct {
	Layers   []Layer
	Platform string
	Created  time.Time
}

// Image is an image with all that it is made of.
type Image struct {
	Digest   string
	Manifest []byte
	Config   string
	Layers   []manifest.Layer
	// Blobs are config and layers by digest.
	Blobs map[string][]byte
}

// Digest is that of a content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Build makes an image.
func Build(spec Spec) (Image, error) {
	image := Image{Blobs: map[string][]byte{}}
	diffIDs, history, layers := []string{}, []map[string]any{}, []map[string]any{}
	for _, l := range spec.Layers {
		archive, blob, err := l.build()
		if err != nil {
			return Image{}, err
		}
		diffID := l.DiffID
		if diffID == "" {
			diffID = Digest(archive)
		}
		mediaType := typeLayer
		if l.Compression != None {
			mediaType += "+" + string(l.Compression)
		}
		digest := Digest(blob)
		image.Blobs[digest] = blob
		image.Layers = append(image.Layers, manifest.Layer{
			Digest: digest, DiffID: diffID, MediaType: mediaType, Bytes: int64(len(blob)), Command: l.Command,
		})
		diffIDs, history = append(diffIDs, diffID), append(history, map[string]any{"created_by": l.Command})
		layers = append(layers, map[string]any{"mediaType": mediaType, "digest": digest, "size": len(blob)})
	}
	system, architecture, _ := strings.Cut(spec.Platform, "/")
	if spec.Platform == "" {
		system, architecture = "linux", "amd64"
	}
	config := map[string]any{"os": system, "architecture": architecture, "rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs}, "history": history}
	if !spec.Created.IsZero() {
		config["created"] = spec.Created.UTC().Format(time.RFC3339)
	}
	content, err := json.Marshal(config)
	if err != nil {
		return Image{}, fmt.Errorf("make config: %w", err)
	}
	image.Config = Digest(content)
	image.Blobs[image.Config] = content
	image.Manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": TypeManifest, "layers": layers,
		"config": map[string]any{"mediaType": TypeConfig, "digest": image.Config, "size": len(content)},
	})
	if err != nil {
		return Image{}, fmt.Errorf("make manifest: %w", err)
	}
	image.Digest = Digest(image.Manifest)
	return image, nil
}

func (l Layer) build() (archive, blob []byte, err error) {
	archive = l.Archive
	if archive == nil {
		if archive, err = pack(l.Files); err != nil {
			return nil, nil, err
		}
	}
	if l.Blob != nil {
		return archive, l.Blob, nil
	}
	blob, err = compress(archive, l.Compression)
	return archive, blob, err
}

// pack makes an archive. Names are written as they are, whatever they are.
func pack(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Typeflag: f.Type, Linkname: f.Link, Mode: f.Mode, Format: tar.FormatGNU}
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Body))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("make archive: %w", err)
		}
		if h.Size == 0 {
			continue
		}
		if _, err := io.WriteString(w, f.Body); err != nil {
			return nil, fmt.Errorf("make archive: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make archive: %w", err)
	}
	return b.Bytes(), nil
}

func compress(archive []byte, c Compression) ([]byte, error) {
	switch c {
	case Gzip:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(archive); err != nil {
			return nil, fmt.Errorf("compress layer: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("compress layer: %w", err)
		}
		return b.Bytes(), nil
	case Zstd:
		return frame(archive), nil
	default:
		return archive, nil
	}
}

// frame is a frame of Zstandard (RFC 8878) with raw blocks.
func frame(content []byte) []byte {
	const magic, descriptor, most = 0xFD2FB528, 0xA0, 128 << 10 // one segment, and its size in four bytes
	out := binary.LittleEndian.AppendUint32(nil, magic)
	out = append(out, descriptor)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(content)))
	for {
		block := content[:min(len(content), most)]
		content = content[len(block):]
		header := uint32(len(block)) << 3
		if len(content) == 0 {
			header |= 1
		}
		out = append(out, byte(header), byte(header>>8), byte(header>>16))
		out = append(out, block...)
		if len(content) == 0 {
			return out
		}
	}
}

// Layout writes the image as an OCI layout.
func (i Image) Layout(dir string) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	const directory, permissions = 0o700, 0o600
	if err := os.MkdirAll(blobs, directory); err != nil {
		return fmt.Errorf("make layout: %w", err)
	}
	all := map[string][]byte{i.Digest: i.Manifest}
	maps.Copy(all, i.Blobs)
	for digest, content := range all {
		if err := os.WriteFile(filepath.Join(blobs, strings.TrimPrefix(digest, "sha256:")), content, permissions); err != nil {
			return fmt.Errorf("make layout: %w", err)
		}
	}
	index := fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`, TypeManifest, i.Digest, len(i.Manifest))
	for name, text := range map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": index} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), permissions); err != nil {
			return fmt.Errorf("make layout: %w", err)
		}
	}
	return nil
}

// Sizes are those of config and layers by digest, as the manifest tells them.
func (i Image) Sizes() map[string]int64 {
	sizes := map[string]int64{}
	for digest, content := range i.Blobs {
		sizes[digest] = int64(len(content))
	}
	return sizes
}

// Images are images of any repository: a source of a proxy.
type Images []Image

// Manifest gives the manifest of a digest.
func (list Images) Manifest(_ context.Context, _, digest string) (manifest.Document, bool, error) {
	for _, i := range list {
		if i.Digest == digest {
			return manifest.Document{ContentType: TypeManifest, Body: i.Manifest}, true, nil
		}
	}
	return manifest.Document{}, false, nil
}

// Blob gives a blob of any image.
func (list Images) Blob(_ context.Context, _, digest string) (io.ReadCloser, int64, error) {
	for _, i := range list {
		if content, found := i.Blobs[digest]; found {
			return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
		}
	}
	return nil, 0, fmt.Errorf("there is no blob %s", digest)
}
