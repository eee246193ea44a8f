// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

// sbom looks at an image and writes its documents.
func sbom(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.SBOMParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := params.CheckOutput(protocol.SPDX, protocol.CycloneDX); err != nil {
		return nil, err
	}
	from, err := source.Read(ctx, params.Image)
	if err != nil {
		return nil, err
	}
	result := &protocol.SBOMResult{Files: map[string]protocol.File{}, Completeness: protocol.Full}
	l := layers{
		image: from, params: params, result: result, budget: source.Budget{Limits: params.Limits},
		cache: source.Cache{Dir: params.CacheDir, Adapter: Name, Parts: []string{version, schema, params.CacheScope}},
	}
	image := merged{files: map[string]placed{}}
	for i, layer := range from.Layers {
		a, err := l.analysis(ctx, layer)
		if err != nil {
			return nil, err
		}
		image.add(a, origin{Digest: layer.Digest, DiffID: layer.DiffID, Index: i})
		call.Progress(int64(i+1), int64(len(from.Layers)), fmt.Sprintf("layer %d of %d", i+1, len(from.Layers)))
	}
	b := bill{digest: params.Image.Digest, created: from.Created().Format(time.RFC3339), os: image.os(), packages: image.packages()}
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

// layers gives analyses, from the cache where that may be.
type layers struct {
	image  *source.Image
	params protocol.SBOMParams
	budget source.Budget
	cache  source.Cache
	result *protocol.SBOMResult
}

func (l *layers) analysis(ctx context.Context, layer source.ImageLayer) (*analysis, error) {
	var known analysis
	if l.params.MayReuse(layer.Digest) && l.cache.Get(layer, &known) {
		l.result.LayersReused++
		report.Note(l.result, nil, known.Warnings)
		return &known, nil
	}
	if strings.HasSuffix(layer.MediaType, "+encrypted") {
		report.Note(l.result, []string{"layer " + layer.Digest + " is encrypted"}, nil)
		return &analysis{}, nil
	}
	var a *analysis
	read, err := l.image.Layer(ctx, layer, &l.budget, func(archive io.Reader) (err error) {
		a, err = walk(ctx, archive, &l.budget)
		return err
	})
	l.result.BytesRead += read
	if err != nil {
		return nil, err
	}
	l.result.LayersAnalysed++
	report.Note(l.result, nil, a.Warnings)
	return a, l.cache.Put(layer, a)
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
