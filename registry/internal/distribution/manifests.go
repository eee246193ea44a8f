// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// accepted are the four types of documents that a tag may point to.
var accepted = []string{
	"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
}

var digestPattern = regexp.MustCompile(`\A(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})\z`)

// Pointer is what a tag points to.
type Pointer struct {
	Digest, MediaType, ETag string
	// Document is there where the registry had to be asked for it.
	Document *manifest.Document
}

// NoHead tells whether the registry has refused HEAD, or answered without a digest: tags are asked for by GET then.
func (c *Client) NoHead() bool { return c.noHead.Load() }

// Tag asks where a tag points to; false: there is no such tag. What is known of the tag spares a document where HEAD is refused.
func (c *Client) Tag(ctx context.Context, repository, tag string, known Pointer) (Pointer, bool, error) {
	if !c.noHead.Load() {
		a, err := c.manifest(ctx, http.MethodHead, repository, tag, "")
		switch {
		case err != nil:
			return Pointer{}, false, err
		case a.status == http.StatusNotFound:
			return Pointer{}, false, nil
		case a.status == http.StatusOK && digestPattern.MatchString(a.header.Get("Docker-Content-Digest")):
			return pointer(a, a.header.Get("Docker-Content-Digest")), true, nil
		case a.status != http.StatusOK && a.status != http.StatusMethodNotAllowed && a.status != http.StatusNotImplemented:
			return Pointer{}, false, refused(a)
		}
		c.noHead.Store(true)
	}
	etag := known.ETag
	if known.Digest == "" {
		etag = ""
	}
	a, err := c.manifest(ctx, http.MethodGet, repository, tag, etag)
	switch {
	case err != nil:
		return Pointer{}, false, err
	case a.status == http.StatusNotModified && etag != "":
		return known, true, nil
	case a.status == http.StatusNotFound:
		return Pointer{}, false, nil
	case a.status != http.StatusOK:
		return Pointer{}, false, refused(a)
	}
	sum := sha256.Sum256(a.body)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if said := a.header.Get("Docker-Content-Digest"); len(a.body) > manifest.MaxDocument && digestPattern.MatchString(said) {
		// A document that was cut has no digest of its own; nobody takes more from it than that it is too large.
		digest = said
	}
	p := pointer(a, digest)
	p.Document = &manifest.Document{ContentType: a.header.Get("Content-Type"), Body: a.body}
	return p, true, nil
}

func pointer(a answer, digest string) Pointer {
	mediaType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return Pointer{Digest: digest, MediaType: strings.ToLower(strings.TrimSpace(mediaType)), ETag: a.header.Get("ETag")}
}

func (c *Client) manifest(ctx context.Context, method, repository, reference, etag string) (answer, error) {
	header := http.Header{"Accept": {strings.Join(accepted, ", ")}}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	return c.send(ctx, request{
		method: method, url: c.at(repository + "/manifests/" + reference), repository: repository, header: header, limit: manifest.MaxDocument + 1,
		manifest: method == http.MethodGet,
	})
}

// Manifest gives the document of a digest, cut where it is too large; false: there is none. manifest.Images verifies the digest.
func (c *Client) Manifest(ctx context.Context, repository, digest string) (manifest.Document, bool, error) {
	return document(c.manifest(ctx, http.MethodGet, repository, digest, ""))
}

// Config gives the config of an image, as Manifest gives a document.
func (c *Client) Config(ctx context.Context, repository, digest string) (manifest.Document, bool, error) {
	return document(c.send(ctx, request{
		method: http.MethodGet, url: c.at(repository + "/blobs/" + digest), repository: repository, limit: manifest.MaxDocument + 1,
	}))
}

func document(a answer, err error) (manifest.Document, bool, error) {
	switch {
	case err != nil:
		return manifest.Document{}, false, err
	case a.status == http.StatusNotFound:
		return manifest.Document{}, false, nil
	case a.status != http.StatusOK:
		return manifest.Document{}, false, refused(a)
	}
	return manifest.Document{ContentType: a.header.Get("Content-Type"), Body: a.body}, true, nil
}
