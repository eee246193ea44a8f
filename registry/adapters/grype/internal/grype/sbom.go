// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/anchore/syft/syft"
	"github.com/anchore/syft/syft/cataloging"
	syftsbom "github.com/anchore/syft/syft/sbom"
	syftsource "github.com/anchore/syft/syft/source"
	"github.com/anchore/syft/syft/source/stereoscopesource"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

// sbom looks at an image and writes its documents.
func sbom(ctx context.Context, call serve.Call) (_ any, err error) {
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
	from, err := source.Read(ctx, params.Image)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(call.Workdir(), ".image-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := &looking{
		image: from, params: params, budget: source.Budget{Limits: params.Limits}, dir: dir,
		result: &protocol.SBOMResult{Files: map[string]protocol.File{}, Completeness: protocol.Full},
	}
	listed, err := l.list(ctx, func(done, total int) {
		call.Progress(int64(done), int64(total), fmt.Sprintf("layer %d of %d", done, total))
	})
	if err != nil {
		return nil, err
	}
	l.result.Packages = listed.Artifacts.Packages.PackageCount()
	if l.result.Packages > protocol.MaxPackages {
		return nil, protocol.Errorf(protocol.TooLarge, "the image has more than %d packages", protocol.MaxPackages)
	}
	if system := listed.Artifacts.LinuxDistribution; system != nil {
		l.result.OS = protocol.OS{Family: system.ID, Version: system.VersionID}
	}
	d := documents{digest: params.Image.Digest, created: from.Created(), sbom: *listed}
	for _, format := range params.Formats {
		text, err := d.make(format)
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

// list has Syft look at the image.
func (l *looking) list(ctx context.Context, progress func(done, total int)) (_ *syftsbom.SBOM, err error) {
	image, err := l.unpack(ctx, progress)
	if err != nil {
		return nil, err
	}
	from := stereoscopesource.New(image, stereoscopesource.ImageConfig{Reference: l.params.Image.Digest, Alias: syftsource.Alias{Name: l.params.Image.Digest}})
	defer func() { err = errors.Join(err, from.Close()) }()
	relationships := cataloging.DefaultRelationshipsConfig().WithPackageFileOwnership(false)
	options := syft.DefaultCreateSBOMConfig().WithTool(cataloger, SyftVersion).WithoutFiles().WithRelationshipsConfig(relationships).WithParallelism(atOnce)
	listed, err := syft.CreateSBOM(ctx, from, options)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return listed, nil
}

// atOnce is how many of Syft's catalogers run at once.
const atOnce = 2
