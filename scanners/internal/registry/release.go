// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The media types of a Helm chart in a registry: https://helm.sh/docs/topics/registries/.
const (
	chartConfig  = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartContent = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

// Item is something that a name in a registry is to point at, with the documents about it.
type Item struct {
	// Name is the full name, with the tag.
	Name      string
	Digest    v1.Hash
	top       remote.Taggable
	documents []v1.Image
}

// OpenLayout reads what WriteLayout has stored in a folder.
func OpenLayout(dir string) (*Item, error) {
	i, err := openLayout(dir)
	if err != nil {
		return nil, fmt.Errorf("read OCI layout %s: %w", dir, err)
	}
	return i, nil
}

func openLayout(dir string) (*Item, error) {
	idx, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	i := &Item{}
	for _, d := range m.Manifests {
		if full := d.Annotations[refName]; full != "" {
			i.Name, i.Digest = full, d.Digest
			if i.top, err = named(idx, d); err != nil {
				return nil, err
			}
			continue
		}
		document, err := idx.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		i.documents = append(i.documents, document)
	}
	if i.top == nil {
		return nil, errors.New("no image in it has a name")
	}
	return i, nil
}

// named is what a name in a layout points at: the images of several platforms, or one image.
func named(idx v1.ImageIndex, d v1.Descriptor) (remote.Taggable, error) {
	if d.MediaType.IsIndex() {
		return idx.ImageIndex(d.Digest)
	}
	return idx.Image(d.Digest)
}

// NewChart makes the OCI artifact of a packed chart. Metadata is its Chart.yaml as JSON.
func NewChart(fullName string, metadata, packed []byte, annotations map[string]string) (*Item, error) {
	a, err := newManifest(static.NewLayer(packed, chartContent), metadata, v1.Manifest{Config: v1.Descriptor{MediaType: chartConfig}, Annotations: annotations})
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", fullName, err)
	}
	h, err := a.Digest()
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", fullName, err)
	}
	return &Item{Name: fullName, Digest: h, top: a}, nil
}

// May asks whether images and charts can be pushed under a name, without pushing anything.
func (c *Client) May(ctx context.Context, fullName string) error {
	tag, err := name.NewTag(fullName, c.names()...)
	if err != nil {
		return fmt.Errorf("%s is not a name of an image: %w", fullName, err)
	}
	if err := remote.CheckPushPermission(tag, c.Keychain, withContext{ctx, remote.DefaultTransport}); err != nil {
		return fmt.Errorf("registry %s does not let push %s: %w", tag.RegistryStr(), tag.RepositoryStr(), err)
	}
	return nil
}

// withContext gives requests a context: CheckPushPermission takes none.
type withContext struct {
	ctx  context.Context //nolint:containedctx // it is the context of the one call
	next http.RoundTripper
}

// RoundTrip sends a request.
func (t withContext) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(r.WithContext(t.ctx))
}

// ErrTaken says that a name points at something else already.
var ErrTaken = errors.New("is in the registry already, and is something else; a release is never pushed over another")

// Free says whether an item is still to be pushed: true if its name points at nothing, false if it points at the item. Anything else is
// ErrTaken.
func (c *Client) Free(ctx context.Context, i *Item) (bool, error) {
	tag, err := name.NewTag(i.Name, c.names()...)
	if err != nil {
		return false, fmt.Errorf("%s is not a name of an image: %w", i.Name, err)
	}
	d, err := remote.Head(tag, c.options(ctx)...)
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look up %s: %w", i.Name, err)
	case d.Digest != i.Digest:
		return false, fmt.Errorf("%s %w: %s there, %s here", i.Name, ErrTaken, d.Digest, i.Digest)
	}
	return false, nil
}

// Send pushes an item. Documents go first, and the name last: who finds the name finds all of it.
func (c *Client) Send(ctx context.Context, i *Item) error {
	tag, err := name.NewTag(i.Name, c.names()...)
	if err != nil {
		return fmt.Errorf("push %s: %w", i.Name, err)
	}
	for _, d := range i.documents {
		h, err := d.Digest()
		if err != nil {
			return fmt.Errorf("push %s: %w", i.Name, err)
		}
		if err := remote.Push(tag.Digest(h.String()), d, c.options(ctx)...); err != nil {
			return fmt.Errorf("push a document about %s: %w", i.Name, err)
		}
	}
	if err := remote.Push(tag, i.top, c.options(ctx)...); err != nil {
		return fmt.Errorf("push %s: %w", i.Name, err)
	}
	return nil
}

// Sign attaches a signature to an item where cosign looks for it: under the tag sha256-….sig beside it.
func (c *Client) Sign(ctx context.Context, i *Item, payload []byte, payloadType, annotation, signature string) error {
	tag, err := name.NewTag(i.Name, c.names()...)
	if err != nil {
		return fmt.Errorf("sign %s: %w", i.Name, err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer: static.NewLayer(payload, types.MediaType(payloadType)), Annotations: map[string]string{annotation: signature},
	})
	if err != nil {
		return fmt.Errorf("sign %s: %w", i.Name, err)
	}
	beside := tag.Context().Tag(strings.ReplaceAll(i.Digest.String(), ":", "-") + ".sig")
	if err := remote.Push(beside, img, c.options(ctx)...); err != nil {
		return fmt.Errorf("push the signature of %s: %w", i.Name, err)
	}
	return nil
}

// Repository is the name without the tag.
func (i *Item) Repository() string { return i.Name[:strings.LastIndex(i.Name, ":")] }
