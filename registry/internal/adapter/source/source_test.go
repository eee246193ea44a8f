// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
)

// layout writes an image of one layer, and reads its documents.
func layout(t *testing.T, l imagetest.Layer) *source.Image {
	t.Helper()
	image, err := imagetest.Build(imagetest.Spec{Layers: []imagetest.Layer{l}, Created: imagetest.Created})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := image.Layout(dir); err != nil {
		t.Fatal(err)
	}
	read, err := source.Read(t.Context(), protocol.Image{Layout: dir, Digest: image.Digest})
	if err != nil {
		t.Fatal(err)
	}
	if !read.Created().Equal(imagetest.Created) {
		t.Errorf("created: %s", read.Created())
	}
	return read
}

func frame(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLayerFormats(t *testing.T) {
	archive := bytes.Repeat([]byte("archive "), 10_000)
	for name, layer := range map[string]imagetest.Layer{
		"Plain": {Archive: archive}, "Gzip": {Archive: archive, Compression: imagetest.Gzip},
		"Zstd": {Archive: archive, Blob: frame(t, archive), Compression: imagetest.Zstd},
		// The media type says otherwise.
		"Mislabelled": {Archive: archive, Blob: frame(t, archive), Compression: imagetest.Gzip},
	} {
		t.Run(name, func(t *testing.T) {
			image := layout(t, layer)
			var got []byte
			read, err := image.Layer(t.Context(), image.Layers[0], &source.Budget{}, func(r io.Reader) (err error) {
				got, err = io.ReadAll(r)
				return err
			})
			if err != nil || !bytes.Equal(got, archive) || read != image.Layers[0].Size {
				t.Errorf("%d bytes read, %d of the archive, error %v", read, len(got), err)
			}
		})
	}
}

func TestCorruptLayerIsRefused(t *testing.T) {
	archive := bytes.Repeat([]byte("archive "), 1000)
	zeros := make([]byte, 100<<20)
	limits := protocol.Limits{Ratio: 200, UncompressedBytes: 200 << 20}
	for name, test := range map[string]struct {
		layer  imagetest.Layer
		limits protocol.Limits
		want   protocol.Code
	}{
		"OtherDiffID":   {imagetest.Layer{Archive: archive, DiffID: imagetest.Digest(nil)}, limits, protocol.InvalidInput},
		"CutZstd":       {imagetest.Layer{Archive: archive, Blob: frame(t, archive)[:20]}, limits, protocol.InvalidInput},
		"BombOfZstd":    {imagetest.Layer{Archive: archive, Blob: frame(t, zeros)}, limits, protocol.RatioExceeded},
		"TooMuch":       {imagetest.Layer{Archive: archive}, protocol.Limits{UncompressedBytes: 100}, protocol.TooLarge},
		"TooCompressed": {imagetest.Layer{Archive: archive}, protocol.Limits{CompressedBytes: 100}, protocol.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			image := layout(t, test.layer)
			_, err := image.Layer(t.Context(), image.Layers[0], &source.Budget{Limits: test.limits}, func(r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				return err
			})
			if protocol.CodeOf(err) != test.want {
				t.Errorf("want %s, got %v", test.want, err)
			}
		})
	}
}

func TestNamesStayInDirectory(t *testing.T) {
	for name, want := range map[string]string{
		"/etc/passwd": "etc/passwd", "./a/../b": "b", "../etc/shadow": "", "a/../../b": "", "": "", ".": "", "/": "",
		strings.Repeat("d/", 2048) + "f": "", "app/\xff": "app/\xff",
	} {
		if got, valid := source.Name(name); valid != (want != "") || valid && got != want {
			t.Errorf("%q: got %q, %v", name, got, valid)
		}
	}
	if removed, emptied := source.Whiteout("a/.wh.b"); removed != "a/b" || emptied != "" {
		t.Error(removed, emptied)
	}
	if removed, emptied := source.Whiteout("a/.wh..wh..opq"); removed != "" || emptied != "a" {
		t.Error(removed, emptied)
	}
}

func TestCacheReturnsCompleteLayers(t *testing.T) {
	layer := source.ImageLayer{Descriptor: source.Descriptor{Digest: "sha256:1"}, DiffID: "sha256:2"}
	cache := source.Cache{Dir: t.TempDir(), Adapter: "test", Parts: []string{"1"}}
	if err := cache.Put(layer, []string{"found"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	if !cache.Get(layer, &got) || len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	other := layer
	other.DiffID = "sha256:3"
	if cache.Get(other, &got) || (source.Cache{Dir: cache.Dir, Adapter: "test", Parts: []string{"2"}}).Get(layer, &got) {
		t.Error("another layer, or another version, must not be given")
	}
	files, err := filepath.Glob(filepath.Join(cache.Dir, "test", "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"Cut": content[:len(content)-3], "Changed": bytes.ReplaceAll(content, []byte("found"), []byte("fumed")), "Empty": nil} {
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if cache.Get(layer, &got) {
			t.Errorf("%s: a damaged file was taken", name)
		}
	}
	layer.DiffID = ""
	if err := cache.Put(layer, got); err != nil || cache.Get(layer, &got) {
		t.Error("a layer without a diffID is not kept")
	}
}

func TestDatabaseIsCompleteOrAbsent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v1")
	boom := errors.New("boom")
	if err := source.Install(dir, func(string) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, content := range []string{"one", "two"} {
		fill := func(aside string) error { return os.WriteFile(filepath.Join(aside, "file"), []byte(content), 0o600) }
		if err := source.Install(dir, fill); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := source.Drop(dir, "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error("a directory without the file of a database must be left alone")
	}
	if err := source.Drop(dir, "file"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory is there")
	}
	if err := source.HasSpace(t.TempDir(), 1<<60); protocol.CodeOf(err) != protocol.DiskFull {
		t.Errorf("got %v", err)
	}
}

func TestDatabaseFileIsVerified(t *testing.T) {
	file := filepath.Join(t.TempDir(), "database")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := source.Database(t.Context(), protocol.Source{File: file}, 100)
	if err != nil || a.Version != imagetest.Digest([]byte("content")) {
		t.Fatal(a, err)
	}
	var got []byte
	if err := a.Read(func(r io.Reader) (err error) {
		got, err = io.ReadAll(r)
		return err
	}); err != nil || string(got) != "content" {
		t.Error(string(got), err)
	}
	if a, err = source.Database(t.Context(), protocol.Source{File: file}, 100); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Read(func(io.Reader) error { return nil }); protocol.CodeOf(err) != protocol.DatabaseCorrupt {
		t.Errorf("a file that changes while it is read: %v", err)
	}
	if _, err := source.Database(t.Context(), protocol.Source{File: file}, 3); protocol.CodeOf(err) != protocol.TooLarge {
		t.Errorf("got %v", err)
	}
}
