// SPDX-License-Identifier: Apache-2.0

package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

// source has documents and blobs by digest, which need not be true.
type source map[string][]byte

var errBoom = errors.New("boom")

func (s source) Manifest(_ context.Context, _, digest string) (manifest.Document, bool, error) {
	body, found := s[digest]
	if string(body) == "boom" {
		return manifest.Document{}, false, errBoom
	}
	return manifest.Document{ContentType: registrytest.TypeManifest, Body: body}, found, nil
}

func (s source) Blob(_ context.Context, repository, digest string) (io.ReadCloser, int64, error) {
	body := s[digest]
	if string(body) == "boom" || repository != "shop/app" {
		return nil, 0, errBoom
	}
	return io.NopCloser(bytes.NewReader(body)), -1, nil
}

func serve(t *testing.T) *proxy.Server {
	t.Helper()
	s, err := proxy.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask gives status and body; a body that breaks off is told by broken.
func ask(t *testing.T, s *proxy.Server, method, path, token string) (status int, body string, broken bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err != nil
}

func TestGrantShowsOneImage(t *testing.T) {
	good, other := []byte(`{"a":1}`), []byte("another image")
	layer := bytes.Repeat([]byte("layer "), 50_000)
	d, o, l := registrytest.Digest(good), registrytest.Digest(other), registrytest.Digest(layer)
	s := serve(t)
	g := s.Grant(t.Context(), proxy.Content{
		Source: source{d: good, o: other, l: layer}, Repository: "shop/app", Manifests: []string{d}, Blobs: map[string]int64{l: int64(len(layer))},
	})
	for name, test := range map[string]struct {
		method, path, token string
		status              int
		body                string
	}{
		"NoToken":       {"GET", "/v2/", "", 401, ""},
		"ForeignToken":  {"GET", "/v2/", "AAAA", 401, ""},
		"Ping":          {"GET", "/v2/", g.Token, 200, ""},
		"Manifest":      {"GET", "/v2/image/manifests/" + d, g.Token, 200, string(good)},
		"HeadManifest":  {"HEAD", "/v2/image/manifests/" + d, g.Token, 200, ""},
		"Layer":         {"GET", "/v2/image/blobs/" + l, g.Token, 200, string(layer)},
		"HeadLayer":     {"HEAD", "/v2/image/blobs/" + l, g.Token, 200, ""},
		"OtherManifest": {"GET", "/v2/image/manifests/" + o, g.Token, 404, ""},
		"OtherBlob":     {"GET", "/v2/image/blobs/" + o, g.Token, 404, ""},
		"ByTag":         {"GET", "/v2/image/manifests/latest", g.Token, 404, ""},
		"OtherName":     {"GET", "/v2/shop/app/manifests/" + d, g.Token, 404, ""},
		"Catalogue":     {"GET", "/v2/_catalog", g.Token, 404, ""},
		"Write":         {"PUT", "/v2/image/manifests/" + d, g.Token, 405, ""},
		"Upload":        {"POST", "/v2/image/blobs/uploads/", g.Token, 405, ""},
		"Delete":        {"DELETE", "/v2/image/manifests/" + d, g.Token, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, broken := ask(t, s, test.method, test.path, test.token)
			if status != test.status || broken || status == 200 && body != test.body {
				t.Errorf("want %d, got %d with %d bytes", test.status, status, len(body))
			}
		})
	}
	if g.Err() != nil || g.Bytes() != int64(len(layer)) {
		t.Errorf("want no failure and the layer's bytes, got %v and %d", g.Err(), g.Bytes())
	}
	g.Close()
	if status, _, _ := ask(t, s, "GET", "/v2/", g.Token); status != 401 {
		t.Errorf("a grant that was taken back lets nobody in, got %d", status)
	}
}

func TestContentThatLiesNeverEnds(t *testing.T) {
	layer := strings.Repeat("x", 300_000)
	digest := registrytest.Digest([]byte(layer))
	for name, test := range map[string]struct {
		sent string
		most int64
		want protocol.Code
	}{
		"OtherBytes": {strings.Repeat("x", 299_999) + "y", 0, protocol.InvalidInput},
		"Short":      {layer[:200_000], 0, protocol.InvalidInput},
		"Long":       {layer + "x", 0, protocol.InvalidInput},
		"OverBound":  {layer, 100_000, protocol.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			g := s.Grant(t.Context(), proxy.Content{
				Source: source{digest: []byte(test.sent)}, Repository: "shop/app", Blobs: map[string]int64{digest: 300_000}, MaxBytes: test.most,
			})
			_, body, broken := ask(t, s, "GET", "/v2/image/blobs/"+digest, g.Token)
			if !broken || len(body) >= 300_000 || protocol.CodeOf(g.Err()) != test.want {
				t.Errorf("want an answer that breaks off and %s, got %d bytes, broken %v, %v", test.want, len(body), broken, g.Err())
			}
		})
	}
}

func TestGrantRemembersFailures(t *testing.T) {
	for name, test := range map[string]struct {
		path, body string
		is         error
		code       protocol.Code
	}{
		"Manifest": {"manifests", "boom", errBoom, ""},
		"Blob":     {"blobs", "boom", errBoom, ""},
		"Lie":      {"manifests", "{}", nil, protocol.InvalidInput},
		"Gone":     {"manifests", "", nil, protocol.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			digest := registrytest.Digest([]byte("the real one"))
			content := source{}
			if test.body != "" {
				content[digest] = []byte(test.body)
			}
			s := serve(t)
			g := s.Grant(t.Context(), proxy.Content{
				Source: content, Repository: "shop/app", Manifests: []string{digest}, Blobs: map[string]int64{digest: 4},
			})
			status, _, _ := ask(t, s, "GET", "/v2/image/"+test.path+"/"+digest, g.Token)
			if status < 400 || test.is != nil && !errors.Is(g.Err(), test.is) || protocol.CodeOf(g.Err()) != test.code {
				t.Errorf("got %d, %v", status, g.Err())
			}
		})
	}
}
