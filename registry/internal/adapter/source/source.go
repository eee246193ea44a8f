// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// maxDocument is the most that a manifest or a config may have.
const maxDocument = 4 << 20

// The kinds of what a registry has.
const (
	Manifests = "manifests"
	Blobs     = "blobs"
)

// Source is where an image lies. The caller closes what Open gives, and has to check its sum.
type Source interface {
	Open(ctx context.Context, kind, digest string) (io.ReadCloser, error)
}

// Of gives the source of an image: the worker's proxy, or an OCI layout.
func Of(i protocol.Image) (Source, error) {
	switch {
	case i.Layout != "":
		return layout(i.Layout), nil
	case i.URL != "" && i.Reference != "":
		return newRemote(i.URL, i.Reference, i.Token), nil
	}
	return nil, protocol.Errorf(protocol.InvalidRequest, "an image needs url and reference, or a layout")
}

// layout is an OCI layout in a directory.
type layout string

// Open gives a file of the layout.
func (l layout) Open(_ context.Context, _, digest string) (io.ReadCloser, error) {
	algorithm, sum, _ := strings.Cut(digest, ":")
	if hashOf(digest) == nil || strings.ContainsAny(sum, "/.") {
		return nil, protocol.Errorf(protocol.InvalidInput, "%q is not a digest", digest)
	}
	f, err := os.Open(filepath.Join(string(l), "blobs", algorithm, sum))
	if errors.Is(err, os.ErrNotExist) {
		return nil, protocol.Errorf(protocol.NotFound, "the layout has no %s", digest)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return f, nil
}

// remote is the worker's proxy.
type remote struct {
	base, token string
	client      *http.Client
}

func newRemote(url, name, token string) *remote {
	return &remote{base: url + "/v2/" + name + "/", token: token, client: &http.Client{}}
}

// codes are those of answers of a registry that have one of their own.
var codes = map[int]protocol.Code{
	http.StatusUnauthorized: protocol.Unauthorized, http.StatusForbidden: protocol.Unauthorized, http.StatusNotFound: protocol.NotFound,
	http.StatusTooManyRequests: protocol.RateLimited,
}

// Open asks the proxy.
func (r *remote) Open(ctx context.Context, kind, digest string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+kind+"/"+digest, http.NoBody)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidRequest, "url: %v", err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, protocol.Errorf(protocol.Unavailable, "%v", err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close() // the answer is not read
		code, known := codes[response.StatusCode]
		if !known {
			code = protocol.Unavailable
		}
		return nil, protocol.Errorf(code, "%s %s: status %d", kind, digest, response.StatusCode)
	}
	return response.Body, nil
}

// verified is a stream with its sum.
type verified struct {
	hash.Hash

	algorithm, want string
}

func hashOf(digest string) *verified {
	algorithm, want, _ := strings.Cut(digest, ":")
	switch algorithm {
	case "sha256":
		return &verified{sha256.New(), algorithm, want}
	case "sha512":
		return &verified{sha512.New(), algorithm, want}
	}
	return nil
}

func (v *verified) matches() bool { return hex.EncodeToString(v.Sum(nil)) == v.want }

// Document reads a manifest or a config.
func Document(ctx context.Context, s Source, kind, digest string, into any) error {
	sum := hashOf(digest)
	if sum == nil {
		return protocol.Errorf(protocol.InvalidInput, "%q is not a digest", digest)
	}
	body, err := s.Open(ctx, kind, digest)
	if err != nil {
		return err
	}
	defer body.Close()
	content, err := io.ReadAll(io.TeeReader(io.LimitReader(body, maxDocument+1), sum))
	switch {
	case err != nil:
		return protocol.Errorf(protocol.Unavailable, "read %s: %v", kind, err)
	case len(content) > maxDocument:
		return protocol.Errorf(protocol.TooLarge, "a document has more than 4 MiB")
	case !sum.matches():
		return protocol.Errorf(protocol.InvalidInput, "a document does not have the digest %s", digest)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return protocol.Errorf(protocol.InvalidInput, "a document cannot be read: %v", err)
	}
	return nil
}
