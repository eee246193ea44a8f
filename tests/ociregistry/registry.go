// SPDX-License-Identifier: Apache-2.0

// Package ociregistry is a container registry in this process, and small images for it: npm packages in one layer, made in
// milliseconds and reproducible.
package ociregistry

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry speaks the OCI Distribution API on loopback, without TLS.
type Registry struct {
	// Host is host and port.
	Host   string
	server *httptest.Server
}

// Start starts a registry that is empty.
func Start() *Registry {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	return &Registry{Host: strings.TrimPrefix(server.URL, "http://"), server: server}
}

// Close ends the registry.
func (r *Registry) Close() { r.server.Close() }

// NPM is an image for a platform os/architecture with the packages of a package-lock.json.
func NPM(platform string, packages map[string]string) (v1.Image, error) {
	var lock strings.Builder
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		fmt.Fprintf(&lock, `,"node_modules/%s":{"version":%q}`, name, packages[name])
	}
	text := `{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app"}` + lock.String() + `}}`
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Name: "app/package-lock.json", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "COPY package-lock.json /app/"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, _ = strings.Cut(platform, "/")
	return mutate.ConfigFile(image, config)
}

// Database is an artifact with files of advisories, as the adapter mini reads it.
func Database(file string, edit func([]byte) []byte) (v1.Image, error) {
	advisories, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if edit != nil {
		advisories = edit(advisories)
	}
	return mutate.AppendLayers(empty.Image, static.NewLayer(advisories, "mini.db.layer.v1+json"))
}

// Push stores an image: its blobs, then its manifest.
func (r *Registry) Push(ctx context.Context, repository, tag string, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		blob, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		digest, err := layer.Digest()
		if err == nil {
			err = r.Blob(ctx, repository, digest, blob)
		}
		if err != nil {
			return err
		}
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err == nil {
		err = r.Blob(ctx, repository, digest, config)
	}
	if err != nil {
		return err
	}
	kind, err := image.MediaType()
	if err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	return r.Manifest(ctx, repository, tag, string(kind), manifest)
}

// Blob stores a blob.
func (r *Registry) Blob(ctx context.Context, repository string, digest v1.Hash, content []byte) error {
	return r.send(ctx, http.MethodPost, repository+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", content)
}

// Manifest stores whatever is given as a manifest.
func (r *Registry) Manifest(ctx context.Context, repository, tag, contentType string, content []byte) error {
	return r.send(ctx, http.MethodPut, repository+"/manifests/"+tag, contentType, content)
}

func (r *Registry) send(ctx context.Context, method, path, contentType string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, r.server.URL+"/v2/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}
