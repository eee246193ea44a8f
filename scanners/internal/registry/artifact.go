// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const emptyConfig = types.MediaType("application/vnd.oci.empty.v1+json")

// artifact is a manifest with one layer and a configuration of its own.
type artifact struct {
	layer            v1.Layer
	config, manifest []byte
}

// newArtifact makes the artifact of a document about an image, in the form that OCI 1.1 gives to such things: an image manifest with an
// empty configuration, the document as its only layer, and the image as its subject.
func newArtifact(document []byte, mediaType string, subject v1.Descriptor, annotations map[string]string) (v1.Image, error) {
	config := []byte("{}")
	// A subject is only a pointer: the platform and annotations belong to the index.
	s := v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	return newManifest(static.NewLayer(document, types.MediaType(mediaType)), config, v1.Manifest{
		ArtifactType: mediaType, Config: v1.Descriptor{MediaType: emptyConfig, Data: config}, Subject: &s, Annotations: annotations,
	})
}

// newManifest completes a manifest with one layer.
func newManifest(l v1.Layer, config []byte, m v1.Manifest) (v1.Image, error) {
	ld, err := partial.Descriptor(l)
	if err != nil {
		return nil, fmt.Errorf("describe document: %w", err)
	}
	m.Config.Digest, m.Config.Size, err = v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("describe configuration: %w", err)
	}
	m.SchemaVersion, m.MediaType, m.Layers = 2, types.OCIManifestSchema1, []v1.Descriptor{*ld}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return partial.CompressedToImage(&artifact{l, config, text})
}

// MediaType is the media type of the manifest.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest is the manifest as it was made.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile is the configuration as it was given.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// LayerByDigest returns the document.
func (a *artifact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	d, err := a.layer.Digest()
	if err != nil {
		return nil, err
	}
	if d != h {
		return nil, fmt.Errorf("the artifact has no layer %s", h)
	}
	return a.layer, nil
}
