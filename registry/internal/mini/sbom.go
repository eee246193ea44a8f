// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// imageManifest and imageConfig are what is read of an image's documents.
type imageManifest struct {
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

type imageConfig struct {
	Created string `json:"created"`
	RootFS  struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// sbom looks at an image and writes its documents.
func sbom(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.SBOMParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := checkOutput(params); err != nil {
		return nil, err
	}
	s, err := sourceOf(params.Image)
	if err != nil {
		return nil, err
	}
	var m imageManifest
	if err := document(ctx, s, "manifests", params.Image.Digest, &m); err != nil {
		return nil, err
	}
	if m.Config.Digest == "" {
		return nil, protocol.Errorf(protocol.NotAnImage, "the manifest has no config")
	}
	var c imageConfig
	if err := document(ctx, s, "blobs", m.Config.Digest, &c); err != nil {
		return nil, err
	}
	if len(c.RootFS.DiffIDs) > 0 && len(c.RootFS.DiffIDs) != len(m.Layers) {
		return nil, protocol.Errorf(protocol.InvalidInput, "the config has %d layers, and the manifest %d", len(c.RootFS.DiffIDs), len(m.Layers))
	}
	result := &protocol.SBOMResult{Files: map[string]protocol.File{}, Completeness: protocol.Full}
	l := layers{source: s, params: params, call: call, budget: budget{limits: params.Limits}, result: result}
	image := merged{files: map[string]placed{}}
	for i, d := range m.Layers {
		diffID := ""
		if len(c.RootFS.DiffIDs) > 0 {
			diffID = c.RootFS.DiffIDs[i]
		}
		a, err := l.analysis(ctx, d, diffID)
		if err != nil {
			return nil, err
		}
		image.add(a, origin{Digest: d.Digest, DiffID: diffID, Index: i})
		call.Progress(int64(i+1), int64(len(m.Layers)), fmt.Sprintf("layer %d of %d", i+1, len(m.Layers)))
	}
	b := bill{digest: params.Image.Digest, created: createdOf(c.Created), os: image.os(), packages: image.packages()}
	if len(b.packages) > protocol.MaxPackages {
		return nil, protocol.Errorf(protocol.TooLarge, "the image has more than %d packages", protocol.MaxPackages)
	}
	result.Packages, result.OS = len(b.packages), b.os
	for _, format := range params.Formats {
		write := b.spdx
		if format == protocol.CycloneDX {
			write = b.cyclonedx
		}
		file, err := call.WriteFile(params.Out[format], func(w io.Writer) error { return encode(w, write()) })
		if err != nil {
			return nil, err
		}
		result.Files[format] = file
	}
	return result, nil
}

func checkOutput(p protocol.SBOMParams) error {
	if len(p.Formats) == 0 {
		return protocol.Errorf(protocol.InvalidRequest, "formats must name one at least")
	}
	for _, format := range p.Formats {
		if format != protocol.SPDX && format != protocol.CycloneDX {
			return protocol.Errorf(protocol.Unsupported, "there is no format %q", format)
		}
		if p.Out[format] == "" {
			return protocol.Errorf(protocol.InvalidRequest, "out must name a file for %s", format)
		}
	}
	return nil
}

// createdOf is the date that documents bear: that of the image, so that equal images have equal documents.
func createdOf(text string) string {
	date, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		date = time.Unix(0, 0)
	}
	return date.UTC().Format(time.RFC3339)
}

// layers gives analyses, from the cache where that may be.
type layers struct {
	source source
	params protocol.SBOMParams
	call   serve.Call
	budget budget
	result *protocol.SBOMResult
	bytes  int64
}

func (l *layers) analysis(ctx context.Context, d descriptor, diffID string) (*analysis, error) {
	key := cacheKey(l.params.CacheScope, d.Digest, diffID)
	cached := slices.ContainsFunc(l.params.Layers, func(known protocol.Layer) bool { return known.Digest == d.Digest && known.Cached })
	if cached {
		if a := readCache(l.params.CacheDir, key); a != nil {
			l.result.LayersReused++
			l.note(a)
			return a, nil
		}
	}
	if strings.HasSuffix(d.MediaType, "+encrypted") {
		l.miss("layer " + d.Digest + " is encrypted")
		return &analysis{}, nil
	}
	if l.bytes += d.Size; l.params.Limits.CompressedBytes > 0 && l.bytes > l.params.Limits.CompressedBytes {
		return nil, protocol.Errorf(protocol.TooLarge, "the image has more than %d bytes", l.params.Limits.CompressedBytes)
	}
	a, read, err := analyse(ctx, l.source, d.Digest, diffID, &l.budget)
	l.result.BytesRead += read
	if errors.Is(err, errZstd) {
		l.miss("layer " + d.Digest + " is compressed by zstd")
		return &analysis{}, nil
	}
	if err != nil {
		return nil, err
	}
	l.result.LayersAnalysed++
	l.note(a)
	if diffID != "" {
		if err := writeCache(l.params.CacheDir, key, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (l *layers) miss(what string) {
	l.result.Completeness = protocol.Partial
	l.result.Missing = append(l.result.Missing, what)
}

func (l *layers) note(a *analysis) {
	for _, text := range a.Warnings {
		if len(l.result.Warnings) < maxWarnings {
			l.result.Warnings = append(l.result.Warnings, text)
		}
	}
}

// origin is the layer that brought a file.
type origin struct {
	Digest, DiffID string
	Index          int
}

// placed is a file of the image.
type placed struct {
	found

	from origin
}

// merged is what the layers make together.
type merged struct{ files map[string]placed }

// add lays a layer over those below.
func (m *merged) add(a *analysis, from origin) {
	for _, directory := range a.Opaque {
		m.remove(directory, false)
	}
	for _, name := range a.Removed {
		m.remove(name, true)
	}
	for name, f := range a.Files {
		m.files[name] = placed{found: f, from: from}
	}
}

// remove takes away what lies below a path, and the path itself.
func (m *merged) remove(name string, itself bool) {
	for file := range m.files {
		if file == name && itself || name == "." || strings.HasPrefix(file, name+"/") {
			delete(m.files, file)
		}
	}
}

func (m *merged) os() protocol.OS {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		if f, found := m.files[name]; found && f.OS != nil {
			return *f.OS
		}
	}
	return protocol.OS{}
}

// item is a package of the image at its place.
type item struct {
	pkg

	Path string
	From origin
}

// packages gives those of all files in order, each once at a place.
func (m *merged) packages() []item {
	var list []item
	for name, f := range m.files {
		for _, p := range f.Packages {
			list = append(list, item{pkg: p, Path: name, From: f.from})
		}
	}
	slices.SortFunc(list, func(a, b item) int {
		if c := comparePackages(a.pkg, b.pkg); c != 0 {
			return c
		}
		return strings.Compare(a.Path, b.Path)
	})
	return slices.CompactFunc(list, func(a, b item) bool { return a.pkg == b.pkg && a.Path == b.Path })
}

// class is that of the findings of a package, target what they are found in.
func (i item) class() (class, target string) {
	switch i.Type {
	case typeDeb, typeApk:
		return protocol.ClassOS, protocol.TargetOS
	case typeGo:
		return protocol.ClassBinary, i.Path
	}
	return protocol.ClassLang, path.Clean(i.Path)
}
