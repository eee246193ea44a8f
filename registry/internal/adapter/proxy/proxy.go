// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

const (
	headerTimeout = 10 * time.Second
	chunk         = 64 << 10
	maxHeader     = 16 << 10
)

// Source is where documents and blobs come from.
type Source interface {
	// Manifest gives a document; false: there is none.
	Manifest(ctx context.Context, repository, digest string) (manifest.Document, bool, error)
	// Blob gives a blob and its size, -1 where that is not known.
	Blob(ctx context.Context, repository, digest string) (io.ReadCloser, int64, error)
}

// AnySize is the size of a blob whose descriptor is not known: its digest alone says what it is. It has at most 4 MiB.
const AnySize = -1

// Content is what a grant allows.
type Content struct {
	Source     Source
	Repository string
	// Manifests are digests of documents, Blobs those of blobs with their sizes.
	Manifests []string
	Blobs     map[string]int64
	// MaxBytes bounds what is read of blobs altogether; 0: no bound.
	MaxBytes int64
}

// Server is the registry of a worker's adapters.
type Server struct {
	server   *http.Server
	listener net.Listener
	close    func() error
	mutex    sync.Mutex
	grants   map[string]*Grant
}

// Listen opens a port on loopback.
func Listen(ctx context.Context) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for adapters: %w", err)
	}
	s := &Server{listener: listener, grants: map[string]*Grant{}}
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	s.close = sync.OnceValue(func() error {
		err := s.server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		if err != nil {
			return fmt.Errorf("close the adapters' registry: %w", err)
		}
		return nil
	})
	return s, nil
}

// Port is the one that adapters connect to.
func (s *Server) Port() uint16 {
	if address, ok := s.listener.Addr().(*net.TCPAddr); ok {
		return uint16(address.Port)
	}
	return 0
}

// URL is where adapters find the registry.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends all connections. A second one does nothing.
func (s *Server) Close() error { return s.close() }

// Grant lets the bearer of its token read one content.
type Grant struct {
	Token   string
	content Content
	server  *Server
	ctx     context.Context //nolint:containedctx // the grant's requests come by HTTP and end with the one that it was given for
	end     context.CancelFunc
	mutex   sync.Mutex
	bytes   int64
	failed  error
}

// Grant allows a content until the context ends or the grant is closed.
func (s *Server) Grant(ctx context.Context, content Content) *Grant {
	g := &Grant{Token: rand.Text(), content: content, server: s}
	g.ctx, g.end = context.WithCancel(ctx)
	s.mutex.Lock()
	s.grants[g.Token] = g
	s.mutex.Unlock()
	return g
}

// Reference is the name of the repository at the proxy. It says nothing of the repository.
func (g *Grant) Reference() string { return "image" }

// Close takes the grant back.
func (g *Grant) Close() {
	g.server.mutex.Lock()
	delete(g.server.grants, g.Token)
	g.server.mutex.Unlock()
	g.end()
}

// Bytes is how much of blobs was fetched.
func (g *Grant) Bytes() int64 {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.bytes
}

// Err is why something could not be had; nil: all that was asked for was there.
func (g *Grant) Err() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.failed
}

func (g *Grant) fail(err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.failed == nil && g.ctx.Err() == nil {
		g.failed = err
	}
}

// count adds bytes, and tells whether they keep within the bound.
func (g *Grant) count(n int) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.bytes += int64(n)
	return g.content.MaxBytes == 0 || g.bytes <= g.content.MaxBytes
}

func (s *Server) find(r *http.Request) *Grant {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, token, _ = r.BasicAuth()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	g := s.grants[token]
	if g == nil || subtle.ConstantTimeCompare([]byte(g.Token), []byte(token)) != 1 {
		return nil
	}
	return g
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED")
		return
	}
	g := s.find(r)
	if g == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="scanyard"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	path, isRegistry := strings.CutPrefix(r.URL.Path, "/v2/")
	if isRegistry && path == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)() //nolint:contextcheck // a request ends with its own context or with the grant
	if digest, found := strings.CutPrefix(path, g.Reference()+"/manifests/"); found {
		g.manifest(ctx, w, r, digest)
		return
	}
	if digest, found := strings.CutPrefix(path, g.Reference()+"/blobs/"); found {
		g.blob(ctx, w, r, digest)
		return
	}
	refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q}]}`, code)
}

func (g *Grant) manifest(ctx context.Context, w http.ResponseWriter, r *http.Request, digest string) {
	if !slices.Contains(g.content.Manifests, digest) {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		return
	}
	document, found, err := g.content.Source.Manifest(ctx, g.content.Repository, digest)
	switch {
	case err != nil:
		g.fail(err)
		refuse(w, http.StatusBadGateway, "UNKNOWN")
		return
	case !found:
		g.fail(protocol.Errorf(protocol.NotFound, "the registry has no manifest %s", digest))
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		return
	}
	sum := hashOf(digest)
	if sum == nil || !sum.matches(document.Body) {
		g.fail(protocol.Errorf(protocol.InvalidInput, "the manifest does not have the digest %s", digest))
		refuse(w, http.StatusBadGateway, "DIGEST_INVALID")
		return
	}
	w.Header().Set("Content-Type", document.ContentType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(document.Body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(document.Body) // an adapter that does not wait has no need of it
	}
}

func (g *Grant) blob(ctx context.Context, w http.ResponseWriter, r *http.Request, digest string) {
	size, allowed := g.content.Blobs[digest]
	if !allowed {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
		return
	}
	if size == AnySize {
		g.small(ctx, w, r, digest)
		return
	}
	head := func() {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.WriteHeader(http.StatusOK)
	}
	if r.Method == http.MethodHead {
		head()
		return
	}
	body, said, err := g.content.Source.Blob(ctx, g.content.Repository, digest)
	if err != nil {
		g.fail(err)
		refuse(w, http.StatusBadGateway, "BLOB_UNKNOWN")
		return
	}
	defer body.Close()
	if said >= 0 && said != size {
		g.fail(protocol.Errorf(protocol.InvalidInput, "blob %s has %d bytes and not the %d of its descriptor", digest, said, size))
		refuse(w, http.StatusBadGateway, "SIZE_INVALID")
		return
	}
	head()
	if err := g.copy(w, body, digest, size); err != nil {
		g.fail(err)
	}
}

// small hands on a blob whose size is not known: a config.
func (g *Grant) small(ctx context.Context, w http.ResponseWriter, r *http.Request, digest string) {
	body, _, err := g.content.Source.Blob(ctx, g.content.Repository, digest)
	if err != nil {
		g.fail(err)
		refuse(w, http.StatusBadGateway, "BLOB_UNKNOWN")
		return
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, manifest.MaxDocument+1))
	sum := hashOf(digest)
	if err == nil && (sum == nil || len(content) > manifest.MaxDocument || !sum.matches(content)) {
		err = protocol.Errorf(protocol.InvalidInput, "blob %s has other content, or more than 4 MiB", digest)
	}
	if err != nil {
		g.fail(err)
		refuse(w, http.StatusBadGateway, "BLOB_UNKNOWN")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // an adapter that does not wait has no need of it
	}
}

// copy hands a blob on. The last bytes follow only where the whole has its digest: an answer that ends early is none.
func (g *Grant) copy(w io.Writer, body io.Reader, digest string, size int64) error {
	sum := hashOf(digest)
	if sum == nil {
		return protocol.Errorf(protocol.InvalidInput, "the digest %s is of no kind that is known", digest)
	}
	last, buffer, total := []byte{}, make([]byte, chunk), int64(0)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			total += int64(n)
			if total > size {
				return protocol.Errorf(protocol.InvalidInput, "blob %s has more than the %d bytes of its descriptor", digest, size)
			}
			if !g.count(n) {
				return protocol.Errorf(protocol.TooLarge, "the image has more than %d bytes", g.content.MaxBytes)
			}
			if _, err := w.Write(last); err != nil {
				return nil //nolint:nilerr // an adapter that does not take what it has asked for is not a failure of the content
			}
			last = append(last[:0], buffer[:n]...)
			_, _ = sum.Write(last) // a hash takes all
		}
		switch {
		case errors.Is(err, io.EOF) && !sum.done():
			return protocol.Errorf(protocol.InvalidInput, "blob %s has other content", digest)
		case errors.Is(err, io.EOF):
			_, _ = w.Write(last) // an adapter that does not wait has no need of it
			return nil
		case err != nil:
			return fmt.Errorf("read blob: %w", err)
		}
	}
}

// verifier compares what is written with a digest.
type verifier struct {
	hash.Hash

	want string
}

func hashOf(digest string) *verifier {
	algorithm, want, _ := strings.Cut(digest, ":")
	switch algorithm {
	case "sha256":
		return &verifier{Hash: sha256.New(), want: want}
	case "sha512":
		return &verifier{Hash: sha512.New(), want: want}
	}
	return nil
}

func (v *verifier) done() bool { return hex.EncodeToString(v.Sum(nil)) == v.want }

func (v *verifier) matches(content []byte) bool {
	_, _ = v.Write(content) // a hash takes all
	return v.done()
}
