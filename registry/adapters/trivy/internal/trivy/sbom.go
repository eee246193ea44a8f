// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aquasecurity/trivy/pkg/fanal/applier"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/aquasecurity/trivy/pkg/scan/langpkg"
	"github.com/aquasecurity/trivy/pkg/scan/ospkg"
	"github.com/aquasecurity/trivy/pkg/types"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

// looking is one image being looked at.
type looking struct {
	*analysers

	image  *source.Image
	params protocol.SBOMParams
	budget source.Budget
	cache  source.Cache
	result *protocol.SBOMResult
	dir    string
}

// sbom looks at an image and writes its documents.
func (e *engine) sbom(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.SBOMParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := params.CheckOutput(formats...); err != nil {
		return nil, err
	}
	for _, format := range params.Formats {
		if _, err := call.Path(params.Out[format]); err != nil {
			return nil, err
		}
	}
	image, err := source.Read(ctx, params.Image)
	if err != nil {
		return nil, err
	}
	a, err := e.analysers()
	if err != nil {
		return nil, err
	}
	l := &looking{
		analysers: a, image: image, params: params, budget: source.Budget{Limits: params.Limits}, dir: call.Workdir(),
		cache: source.Cache{
			Dir: params.CacheDir, Adapter: Name,
			Parts: []string{Version, EngineVersion, a.versions, strings.Join(slices.Sorted(slices.Values(params.Scope)), ","), params.CacheScope},
		},
		result: &protocol.SBOMResult{Files: map[string]protocol.File{}, Completeness: protocol.Full},
	}
	blobs := make([]ftypes.BlobInfo, 0, len(image.Layers))
	for i, layer := range image.Layers {
		found, err := l.layer(ctx, layer)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, found.Blob)
		call.Progress(int64(i+1), int64(len(image.Layers)), fmt.Sprintf("layer %d of %d", i+1, len(image.Layers)))
	}
	report, err := reportOf(ctx, params.Image.Digest, image, blobs)
	if err != nil {
		return nil, err
	}
	for _, r := range report.Results {
		l.result.Packages += len(r.Packages)
	}
	if l.result.Packages > protocol.MaxPackages {
		return nil, protocol.Errorf(protocol.TooLarge, "the image has more than %d packages", protocol.MaxPackages)
	}
	if report.Metadata.OS != nil {
		l.result.OS = protocol.OS{Family: string(report.Metadata.OS.Family), Version: report.Metadata.OS.Name}
	}
	d := documents{digest: params.Image.Digest, created: image.Created(), report: report}
	for _, format := range params.Formats {
		text, err := d.make(ctx, format)
		if err != nil {
			return nil, err
		}
		file, err := call.WriteFile(params.Out[format], func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
		if err != nil {
			return nil, err
		}
		l.result.Files[format] = file
	}
	return l.result, nil
}

// layer gives the analysis of a layer, from the cache where that may be.
func (l *looking) layer(ctx context.Context, layer source.ImageLayer) (*analysis, error) {
	found := &analysis{}
	if l.params.MayReuse(layer.Digest) && l.cache.Get(layer, found) {
		l.result.LayersReused++
		l.note(found)
		return found, nil
	}
	if strings.HasSuffix(layer.MediaType, "+encrypted") {
		l.note(&analysis{Missing: []string{"layer " + layer.Digest + " is encrypted"}})
		return &analysis{Blob: ftypes.BlobInfo{SchemaVersion: ftypes.BlobJSONSchemaVersion, Digest: layer.Digest, DiffID: layer.DiffID}}, nil
	}
	read, err := l.image.Layer(ctx, layer, &l.budget, func(archive io.Reader) (err error) {
		found, err = l.analyse(ctx, archive, layer, &l.budget, l.dir)
		return err
	})
	l.result.BytesRead += read
	if err != nil {
		return nil, err
	}
	l.result.LayersAnalysed++
	l.note(found)
	return found, l.cache.Put(layer, found)
}

// note takes over what a layer lacks.
func (l *looking) note(a *analysis) {
	for _, what := range a.Missing {
		l.result.Completeness = protocol.Partial
		if !slices.Contains(l.result.Missing, what) {
			l.result.Missing = append(l.result.Missing, what)
		}
	}
	for _, text := range a.Warnings {
		if len(l.result.Warnings) < protocol.MaxWarningsKept && !slices.Contains(l.result.Warnings, text) {
			l.result.Warnings = append(l.result.Warnings, text)
		}
	}
}

// listing asks Trivy's scanners for packages, and for no vulnerabilities.
var listing = types.ScanOptions{PkgTypes: types.PkgTypes, Scanners: types.Scanners{types.SBOMScanner}}

// reportOf merges the layers as Trivy does.
func reportOf(ctx context.Context, digest string, image *source.Image, blobs []ftypes.BlobInfo) (types.Report, error) {
	detail := applier.ApplyLayers(blobs)
	system := detail.OS
	switch {
	case system.Detected():
	case detail.Repository != nil:
		system = ftypes.OS{Family: detail.Repository.Family, Name: detail.Repository.Release}
	case len(detail.Packages) > 0:
		system = ftypes.OS{Family: "none"}
	}
	target := types.ScanTarget{Name: digest, OS: system, Packages: detail.Packages, Applications: used(detail.Applications)}
	report := types.Report{
		SchemaVersion: 2, ArtifactName: digest, ArtifactType: ftypes.TypeContainerImage,
		Metadata: types.Metadata{ImageID: image.Manifest.Config.Digest, DiffIDs: image.Config.RootFS.DiffIDs},
	}
	if system.Detected() {
		if system.Extended {
			// The detector of Ubuntu reads it from the release.
			system.Name += "-ESM"
		}
		report.Metadata.OS = &system
		result, _, err := ospkg.NewScanner().Scan(ctx, target, listing)
		if err != nil {
			return types.Report{}, fmt.Errorf("list packages: %w", err)
		}
		if result.Target != "" {
			report.Results = append(report.Results, result)
		}
	}
	results, err := langpkg.NewScanner().Scan(ctx, target, listing)
	if err != nil {
		return types.Report{}, fmt.Errorf("list packages: %w", err)
	}
	report.Results = append(report.Results, results...)
	for _, r := range report.Results {
		for i, p := range r.Packages {
			if p.ID == "" {
				// The first document would be given the name, and the second one would show it.
				r.Packages[i].ID = p.Name + "@" + p.Version
			}
		}
	}
	return report, nil
}

// used leaves out what is for development only, as Trivy does.
func used(applications []ftypes.Application) []ftypes.Application {
	for i, a := range applications {
		applications[i].Packages = slices.DeleteFunc(a.Packages, func(p ftypes.Package) bool { return p.Dev })
	}
	return applications
}
