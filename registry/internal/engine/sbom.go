// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// Client is that of a Registry, with its credentials.
type Client interface {
	proxy.Source
	// HasBlob asks whether a repository has a blob that the credentials may read.
	HasBlob(ctx context.Context, repository, digest string) (bool, error)
	// Tag asks where a tag points to; false: there is no such tag.
	Tag(ctx context.Context, repository, tag string, known distribution.Pointer) (distribution.Pointer, bool, error)
}

// SBOMRequest is an image to be looked at.
type SBOMRequest struct {
	Adapter    string
	Client     Client
	Repository string
	// Digest is that of the manifest, Config that of the config.
	Digest, Config string
	Platform       string
	Layers         []manifest.Layer
	// Scope is who may share analyses of layers: requests with equal texts do.
	Scope string
	// Formats beside SPDX.
	Formats []string
	// Limits of zero are those of the protocol.
	Limits   protocol.Limits
	Deadline time.Time
}

// SBOMResult is what an adapter has found in an image. Release removes the documents.
type SBOMResult struct {
	Documents                    map[string]Document
	Packages                     int
	OS                           protocol.OS
	Engine                       protocol.Engine
	Completeness                 string
	Missing, Warnings            []string
	LayersAnalysed, LayersReused int
	BytesFetched                 int64
	PeakBytes                    int64
	Release                      func() error
}

// fileOf names the document of a format.
var fileOf = map[string]string{protocol.SPDX: "sbom.spdx.json", protocol.CycloneDX: "sbom.cdx.json"}

// maxConfig is the most that a config may have.
const maxConfig = manifest.MaxDocument

// SBOM has an adapter look at an image.
func (e *Engine) SBOM(ctx context.Context, r SBOMRequest) (result *SBOMResult, err error) {
	run, err := e.find(r.Adapter)
	if err != nil {
		return nil, err
	}
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	params, err := e.sbomParams(ctx, r)
	if err != nil {
		return nil, err
	}
	session, err := run.starter.Take()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, session.End())
		}
	}()
	grant := e.proxy.Grant(ctx, content(r, params.Limits))
	defer grant.Close()
	params.Image = protocol.Image{URL: e.proxy.URL(), Reference: grant.Reference(), Token: grant.Token, Digest: r.Digest}
	var said protocol.SBOMResult
	if err := session.Do(ctx, protocol.SBOM, session.Workdir, params, &said, nil); err != nil {
		return nil, because(grant, err)
	}
	documents := map[string]Document{}
	for _, format := range params.Formats {
		document, err := verify(filepath.Join(session.Dir, session.Workdir), said.Files[format])
		if err != nil {
			return nil, err
		}
		documents[format] = document
	}
	return &SBOMResult{
		Documents: documents, Packages: said.Packages, OS: said.OS, Engine: run.description.Engine, Completeness: said.Completeness, Missing: said.Missing,
		Warnings: kept(said.Warnings), LayersAnalysed: said.LayersAnalysed, LayersReused: said.LayersReused, BytesFetched: grant.Bytes(),
		PeakBytes: session.Peak(), Release: session.End,
	}, nil
}

// sbomParams asks which layers may come from the cache.
func (e *Engine) sbomParams(ctx context.Context, r SBOMRequest) (protocol.SBOMParams, error) {
	params := protocol.SBOMParams{
		Platform: r.Platform, Formats: []string{protocol.SPDX}, Out: map[string]string{}, CacheDir: e.path(layersDir), CacheScope: r.Scope,
		Scope: []string{"os", "lang"}, Limits: r.Limits,
	}
	if params.Limits == (protocol.Limits{}) {
		params.Limits = protocol.DefaultLimits()
	}
	for _, format := range r.Formats {
		if !slices.Contains(params.Formats, format) {
			params.Formats = append(params.Formats, format)
		}
	}
	for _, format := range params.Formats {
		if fileOf[format] == "" {
			return params, protocol.Errorf(protocol.Unsupported, "there is no format %q", format)
		}
		params.Out[format] = fileOf[format]
	}
	for _, l := range r.Layers {
		has, err := r.Client.HasBlob(ctx, r.Repository, l.Digest)
		if err != nil {
			return params, fmt.Errorf("ask for layer: %w", err)
		}
		params.Layers = append(params.Layers, protocol.Layer{Digest: l.Digest, DiffID: l.DiffID, Bytes: l.Bytes, Cached: has})
	}
	return params, nil
}

// content is what an adapter may read: the documents and layers of one image.
func content(r SBOMRequest, limits protocol.Limits) proxy.Content {
	c := proxy.Content{
		Source: r.Client, Repository: r.Repository, Manifests: []string{r.Digest}, Blobs: map[string]int64{}, MaxBytes: limits.CompressedBytes + maxConfig,
	}
	for _, l := range r.Layers {
		c.Blobs[l.Digest] = l.Bytes
	}
	c.Blobs[r.Config] = proxy.AnySize
	return c
}

// because prefers the reason that the registry gave: the adapter saw only that something was not there.
func because(grant *proxy.Grant, err error) error {
	if adapter.IsCrash(err) || protocol.CodeOf(err) == protocol.Timeout || protocol.CodeOf(err) == protocol.Cancelled {
		return err
	}
	if refused := grant.Err(); refused != nil {
		return refused
	}
	return err
}

func kept(warnings []string) []string { return warnings[:min(len(warnings), protocol.MaxWarningsKept)] }

// maxDocument is the most that an SBOM may have, and more than findings and keys have.
const maxDocument = 256 << 20

// verify checks what an adapter says of a file. What is wrong is a fault of the adapter.
func verify(dir string, f protocol.File) (Document, error) {
	wrong := func(format string, arguments ...any) error {
		return &adapter.CrashError{Reason: adapter.ProtocolError, Message: "a document " + fmt.Sprintf(format, arguments...)}
	}
	if !filepath.IsLocal(f.Path) {
		return Document{}, wrong("lies at %.200q, which is not below workdir", f.Path)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Document{}, fmt.Errorf("open workdir: %w", err)
	}
	defer root.Close() //nolint:errcheck // what was only read
	file, err := root.Open(f.Path)
	if err != nil {
		return Document{}, wrong("cannot be read: %v", err)
	}
	defer file.Close() //nolint:errcheck // what was only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return Document{}, wrong("is not a file: %v", err)
	}
	if info.Size() != f.Bytes || f.Bytes > maxDocument {
		return Document{}, wrong("has %d bytes, of %d that were told and %d that it may have", info.Size(), f.Bytes, int64(maxDocument))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Document{}, wrong("cannot be read: %v", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return Document{}, wrong("has the sum %s, and not %.64q", got, f.SHA256)
	}
	return Document{Path: filepath.Join(dir, f.Path), SHA256: f.SHA256, Bytes: f.Bytes}, nil
}
