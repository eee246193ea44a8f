// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// Descriptor names a part of an image.
type Descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// Manifest is what is read of a manifest.
type Manifest struct {
	MediaType string       `json:"mediaType"`
	Config    Descriptor   `json:"config"`
	Layers    []Descriptor `json:"layers"`
}

// Config is what is read of an image's config.
type Config struct {
	Created string `json:"created"`
	RootFS  struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []struct {
		CreatedBy  string `json:"created_by"`
		EmptyLayer bool   `json:"empty_layer"`
	} `json:"history"`
}

// Image is an image without its layers' content.
type Image struct {
	Source   Source
	Manifest Manifest
	Config   Config
	Layers   []ImageLayer
}

// ImageLayer is a layer with the diffID of the config; "" where the config names none.
type ImageLayer struct {
	Descriptor

	DiffID string
	Index  int
}

// Read reads the documents of an image.
func Read(ctx context.Context, i protocol.Image) (*Image, error) {
	s, err := Of(i)
	if err != nil {
		return nil, err
	}
	image := &Image{Source: s}
	if err := Document(ctx, s, Manifests, i.Digest, &image.Manifest); err != nil {
		return nil, err
	}
	if image.Manifest.Config.Digest == "" {
		return nil, protocol.Errorf(protocol.NotAnImage, "the manifest has no config")
	}
	if err := Document(ctx, s, Blobs, image.Manifest.Config.Digest, &image.Config); err != nil {
		return nil, err
	}
	diffIDs := image.Config.RootFS.DiffIDs
	if len(diffIDs) > 0 && len(diffIDs) != len(image.Manifest.Layers) {
		return nil, protocol.Errorf(protocol.InvalidInput, "the config has %d layers, and the manifest %d", len(diffIDs), len(image.Manifest.Layers))
	}
	for index, d := range image.Manifest.Layers {
		layer := ImageLayer{Descriptor: d, Index: index}
		if len(diffIDs) > 0 {
			layer.DiffID = diffIDs[index]
		}
		image.Layers = append(image.Layers, layer)
	}
	return image, nil
}

// Created is the date that documents bear: that of the image, so that equal images have equal documents; 1970 where there is none.
func (i *Image) Created() time.Time {
	date, err := time.Parse(time.RFC3339Nano, i.Config.Created)
	if err != nil {
		date = time.Unix(0, 0)
	}
	return date.UTC().Truncate(time.Second)
}
