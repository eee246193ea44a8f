// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanyard/scanyard/scanners/internal/image"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/sbom"
)

// refName is the annotation by which tools find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// bundle is a set ready to be stored: what a name points at, and the documents about it.
type bundle struct {
	// top is the index, or the only image.
	top       remote.Taggable
	topDesc   v1.Descriptor
	index     v1.ImageIndex // nil if there is one image only
	image     v1.Image
	documents []v1.Image
}

func newBundle(set *image.Set) (*bundle, error) {
	b := &bundle{}
	// Annotations of an index are a copy of the images': some registries show only those.
	idx := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, im := range set.Images {
		d, err := partial.Descriptor(im.Image)
		if err != nil {
			return nil, fmt.Errorf("describe image for %s: %w", im.Platform, err)
		}
		d.Platform = &v1.Platform{OS: im.Platform.OS(), Architecture: im.Platform.Arch()}
		idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: im.Image, Descriptor: v1.Descriptor{Platform: d.Platform}})
		doc, err := newArtifact(im.SBOM, sbom.MediaType, *d, map[string]string{
			"org.opencontainers.image.title":   set.Recipe.Name + "-" + im.Platform.Dashed() + ".cdx.json",
			"org.opencontainers.image.created": set.Labels["org.opencontainers.image.created"],
		})
		if err != nil {
			return nil, fmt.Errorf("SBOM for %s: %w", im.Platform, err)
		}
		b.documents = append(b.documents, doc)
		b.topDesc, b.image = *d, im.Image
	}
	if len(set.Images) == 1 {
		b.top = b.image
		return b, nil
	}
	annotated, ok := mutate.Annotations(idx, set.Labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotations make something else than an index")
	}
	b.index, b.image, b.top = annotated, nil, annotated
	d, err := partial.Descriptor(annotated)
	if err != nil {
		return nil, fmt.Errorf("describe index: %w", err)
	}
	b.topDesc = *d
	return b, nil
}

// WriteLayout stores a set as the OCI layout dir/<recipe's name>, in place of one that is there, and returns the
// digest that its name points at. The image's full name goes into the layout.
func WriteLayout(dir, fullName string, set *image.Set) (v1.Hash, error) {
	h, err := writeLayout(dir, fullName, set)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("recipe %s: write OCI layout: %w", set.Recipe.Name, err)
	}
	return h, nil
}

func writeLayout(dir, fullName string, set *image.Set) (h v1.Hash, err error) {
	b, err := newBundle(set)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // images are for others to read
		return v1.Hash{}, err
	}
	// A reader of the folder never sees half a layout: hidden first, then renamed.
	tmp, err := os.MkdirTemp(dir, "."+set.Recipe.Name+"-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // as above
		return v1.Hash{}, err
	}
	l, err := layout.Write(tmp, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	annotations := map[string]string{refName: fullName}
	if b.index != nil {
		err = l.AppendIndex(b.index, layout.WithAnnotations(annotations))
	} else {
		err = l.AppendImage(b.image, layout.WithAnnotations(annotations), layout.WithPlatform(*b.topDesc.Platform))
	}
	if err != nil {
		return v1.Hash{}, err
	}
	for _, d := range b.documents {
		if err := l.AppendImage(d); err != nil {
			return v1.Hash{}, fmt.Errorf("SBOM: %w", err)
		}
	}
	if err := os.Mkdir(filepath.Join(tmp, "sbom"), 0o755); err != nil { //nolint:gosec // as above
		return v1.Hash{}, err
	}
	for _, im := range set.Images {
		if err := l.WriteFile(filepath.Join("sbom", im.Platform.Dashed()+".cdx.json"), im.SBOM, 0o644); err != nil {
			return v1.Hash{}, fmt.Errorf("SBOM: %w", err)
		}
	}
	final := filepath.Join(dir, set.Recipe.Name)
	if err := os.RemoveAll(final); err != nil {
		return v1.Hash{}, err
	}
	return b.topDesc.Digest, os.Rename(tmp, final)
}

// Client talks to registries.
type Client struct {
	// Insecure allows plain HTTP. Registries on this machine may use it anyway.
	Insecure bool
	// Keychain has the credentials.
	Keychain authn.Keychain
}

func (c *Client) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(c.Keychain), remote.WithUserAgent("scanyard-images")}
}

func (c *Client) names() []name.Option {
	if c.Insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// Push sends a set to a registry under its full name, with the SBOMs, and returns the digest that the name
// points at. What a registry has already is not sent again.
func (c *Client) Push(ctx context.Context, fullName string, set *image.Set) (v1.Hash, error) {
	h, err := c.push(ctx, fullName, set)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("recipe %s: push %s: %w", set.Recipe.Name, fullName, err)
	}
	return h, nil
}

func (c *Client) push(ctx context.Context, fullName string, set *image.Set) (v1.Hash, error) {
	tag, err := name.NewTag(fullName, c.names()...)
	if err != nil {
		return v1.Hash{}, err
	}
	b, err := newBundle(set)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.Push(tag, b.top, c.options(ctx)...); err != nil {
		return v1.Hash{}, err
	}
	for _, d := range b.documents {
		h, err := d.Digest()
		if err != nil {
			return v1.Hash{}, err
		}
		if err := remote.Push(tag.Digest(h.String()), d, c.options(ctx)...); err != nil {
			return v1.Hash{}, fmt.Errorf("SBOM: %w", err)
		}
	}
	return b.topDesc.Digest, nil
}

// Resolve looks up the digest that a name points at today.
func (c *Client) Resolve(ctx context.Context, image string) (*recipe.BaseLock, error) {
	ref, err := name.ParseReference(image, c.names()...)
	if err != nil {
		return nil, err
	}
	d, err := remote.Head(ref, c.options(ctx)...)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", image, err)
	}
	return &recipe.BaseLock{Image: image, Digest: d.Digest.String()}, nil
}

// Pull returns the image of a platform by the digest in a lock.
func (c *Client) Pull(ctx context.Context, base recipe.BaseLock, p recipe.Platform) (v1.Image, error) {
	ref, err := name.ParseReference(base.Image, c.names()...)
	if err != nil {
		return nil, err
	}
	want := v1.Platform{OS: p.OS(), Architecture: p.Arch()}
	d, err := remote.Get(ref.Context().Digest(base.Digest), append(c.options(ctx), remote.WithPlatform(want))...)
	if err != nil {
		return nil, err
	}
	im, err := d.Image()
	if err != nil {
		return nil, fmt.Errorf("for %s: %w", p, err)
	}
	cf, err := im.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("for %s: %w", p, err)
	}
	if cf.OS != want.OS || cf.Architecture != want.Architecture {
		return nil, fmt.Errorf("is for %s/%s only, not for %s; name the platforms that the vendor has in the recipe", cf.OS, cf.Architecture, p)
	}
	return im, nil
}
