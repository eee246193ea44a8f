// SPDX-License-Identifier: Apache-2.0

// Package registrytest is the far end of tests: the registry of go-containerregistry in this process, behind a layer that counts
// requests, pages lists by Link, and lets a test answer in its place.
package registrytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is a registry of a test.
type Registry struct {
	*httptest.Server

	// Before may answer a request in the registry's place: then it gives true. It is set before the first request.
	Before  func(w http.ResponseWriter, r *http.Request) bool
	inner   http.Handler
	t       testing.TB
	mutex   sync.Mutex
	counted map[string]int
}

// New starts a registry with plain HTTP.
func New(t testing.TB) *Registry {
	t.Helper()
	return start(t, (*httptest.Server).Start)
}

// NewTLS starts a registry with TLS. Its certificate is for 127.0.0.1 and *.example.com.
func NewTLS(t testing.TB) *Registry {
	t.Helper()
	return start(t, (*httptest.Server).StartTLS)
}

func start(t testing.TB, begin func(*httptest.Server)) *Registry {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	r := &Registry{inner: registry.New(registry.Logger(quiet)), t: t, counted: map[string]int{}}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.answer))
	r.Config.ErrorLog = quiet
	begin(r.Server)
	t.Cleanup(r.Close)
	return r
}

// Port is that of the server.
func (r *Registry) Port() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	return u.Port()
}

// Count gives how many requests of a kind came since the last Forget: a method with ping, catalog, tags, manifests, blobs or other, such
// as "HEAD manifests".
func (r *Registry) Count(kind string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.counted[kind]
}

// Total gives how many requests came since the last Forget.
func (r *Registry) Total() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	total := 0
	for _, n := range r.counted {
		total += n
	}
	return total
}

// Forget begins to count anew.
func (r *Registry) Forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.counted)
}

func kindOf(r *http.Request) string {
	path := strings.Split(r.URL.Path, "/")
	kind := "other"
	switch {
	case r.URL.Path == "/v2/":
		kind = "ping"
	case strings.HasSuffix(r.URL.Path, "/_catalog"):
		kind = "catalog"
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		kind = "tags"
	case len(path) > 2 && (path[len(path)-2] == "manifests" || path[len(path)-2] == "blobs"):
		kind = path[len(path)-2]
	}
	return r.Method + " " + kind
}

func (r *Registry) answer(w http.ResponseWriter, request *http.Request) {
	kind := kindOf(request)
	r.mutex.Lock()
	r.counted[kind]++
	r.mutex.Unlock()
	switch {
	case r.Before != nil && r.Before(w, request):
	case kind == "GET tags", kind == "GET catalog":
		r.list(w, request)
	default:
		r.inner.ServeHTTP(w, request)
	}
}

// list answers a page, with a Link where there are more.
func (r *Registry) list(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	n, err := strconv.Atoi(query.Get("n"))
	if err != nil {
		r.inner.ServeHTTP(w, request)
		return
	}
	// The one more tells whether this is the last page.
	query.Set("n", strconv.Itoa(n+1))
	asked := request.Clone(request.Context())
	asked.URL.RawQuery = query.Encode()
	recorder := httptest.NewRecorder()
	r.inner.ServeHTTP(recorder, asked)
	var page struct {
		Name         string   `json:"name,omitempty"`
		Tags         []string `json:"tags,omitempty"`
		Repositories []string `json:"repositories,omitempty"`
	}
	if recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &page) != nil {
		w.WriteHeader(recorder.Code)
		r.write(w, recorder.Body.Bytes())
		return
	}
	for _, names := range []*[]string{&page.Tags, &page.Repositories} {
		if len(*names) > n {
			*names = (*names)[:n]
			last := url.Values{"last": {(*names)[n-1]}, "n": {strconv.Itoa(n)}}
			w.Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, request.URL.Path, last.Encode()))
		}
	}
	text, err := json.Marshal(page)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.write(w, text)
}

func (r *Registry) write(w io.Writer, text []byte) {
	if _, err := w.Write(text); err != nil {
		r.t.Log("the client did not wait for the answer:", err)
	}
}

// put asks the inner registry without a network.
func (r *Registry) put(method, path, contentType string, body []byte) {
	r.t.Helper()
	request := httptest.NewRequestWithContext(r.t.Context(), method, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	r.inner.ServeHTTP(recorder, request)
	if recorder.Code >= http.StatusMultipleChoices {
		r.t.Fatalf("%s %s: %d %s", method, path, recorder.Code, recorder.Body)
	}
}

// Digest is that of a document.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Manifest stores a document under a tag or a digest, and gives its digest.
func (r *Registry) Manifest(repository, reference, contentType string, body []byte) string {
	r.t.Helper()
	r.put(http.MethodPut, "/v2/"+repository+"/manifests/"+reference, contentType, body)
	return Digest(body)
}

// Blob stores a blob, and gives its digest.
func (r *Registry) Blob(repository string, content []byte) string {
	r.t.Helper()
	digest := Digest(content)
	r.put(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest, "application/octet-stream", content)
	return digest
}

// Remove takes a tag away.
func (r *Registry) Remove(repository, tag string) {
	r.t.Helper()
	r.put(http.MethodDelete, "/v2/"+repository+"/manifests/"+tag, "", nil)
}

// Image is what an image of a test is made of.
type Image struct {
	Platform string
	Created  time.Time
	// Name makes images differ.
	Name string
}

// The media types of what Push and Index store.
const (
	TypeManifest = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex    = "application/vnd.oci.image.index.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Push stores an image under a tag, with a config and a layer that nobody can fetch, and gives its digest.
func (r *Registry) Push(repository, tag string, image Image) string {
	r.t.Helper()
	system, architecture, _ := strings.Cut(image.Platform, "/")
	config := map[string]any{"os": system, "architecture": architecture, "config": map[string]any{"Labels": map[string]string{"name": image.Name}}}
	if !image.Created.IsZero() {
		config["created"] = image.Created.UTC().Format(time.RFC3339)
	}
	content := r.marshal(config)
	digest := r.Blob(repository, content)
	return r.Manifest(repository, tag, TypeManifest, r.marshal(map[string]any{
		"schemaVersion": 2, "mediaType": TypeManifest,
		"config": map[string]any{"mediaType": typeConfig, "digest": digest, "size": len(content)},
		"layers": []any{map[string]any{"mediaType": typeLayer, "digest": Digest([]byte(image.Name)), "size": 1}},
	}))
}

// Index stores an index of images under a tag, and gives its digest.
func (r *Registry) Index(repository, tag string, images ...Image) string {
	r.t.Helper()
	entries := make([]any, 0, len(images))
	for i, image := range images {
		system, architecture, _ := strings.Cut(image.Platform, "/")
		entries = append(entries, map[string]any{
			"mediaType": TypeManifest, "digest": r.Push(repository, fmt.Sprintf("part-of-%s-%d", tag, i), image), "size": 1,
			"platform": map[string]any{"os": system, "architecture": architecture},
		})
		r.Remove(repository, fmt.Sprintf("part-of-%s-%d", tag, i))
	}
	return r.Manifest(repository, tag, TypeIndex, r.marshal(map[string]any{"schemaVersion": 2, "mediaType": TypeIndex, "manifests": entries}))
}

func (r *Registry) marshal(value any) []byte {
	r.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}
