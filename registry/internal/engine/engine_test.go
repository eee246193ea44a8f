// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// TestMain is the launcher and the adapter, where an engine starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case sandbox.Subcommand:
			err = sandbox.Main(os.Args[2:], os.Environ())
		case "adapter-mini":
			err = mini.Run(context.Background(), os.Args[2:], mini.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now})
		case "adapter-liar":
			lie()
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lie is an adapter that tells of a document which is not there.
func lie() {
	lines := protocol.NewReader(os.Stdin)
	for {
		line, err := lines.Line()
		if err != nil {
			return
		}
		r, err := protocol.ReadRequest(line)
		if err != nil {
			continue
		}
		result := `{"name":"liar","version":"1","protocols":[1],"engine":{"name":"liar","version":"1"}}`
		if r.Op == protocol.SBOM {
			result = `{"files":{"spdx-json":{"path":"../../../../../../etc/passwd","sha256":"00","bytes":5}},"packages":1}`
		}
		fmt.Printf(`{"v":1,"id":%q,"type":"result","result":%s}`+"\n", r.ID, result)
	}
}

// client is a Registry of images.
type client struct {
	imagetest.Images

	// refused is the error of all blobs, unreadable are those that the credentials may not read.
	refused    error
	unreadable []string
	tags       map[string]string
	documents  map[string][]byte
	blobs      map[string][]byte
}

func (c *client) Manifest(ctx context.Context, repository, digest string) (manifest.Document, bool, error) {
	if body, found := c.documents[digest]; found {
		return manifest.Document{ContentType: imagetest.TypeManifest, Body: body}, true, nil
	}
	return c.Images.Manifest(ctx, repository, digest)
}

func (c *client) Blob(ctx context.Context, repository, digest string) (io.ReadCloser, int64, error) {
	if c.refused != nil {
		return nil, 0, c.refused
	}
	if content, found := c.blobs[digest]; found {
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
	return c.Images.Blob(ctx, repository, digest)
}

func (c *client) HasBlob(_ context.Context, _, digest string) (bool, error) {
	return !slices.Contains(c.unreadable, digest), nil
}

func (c *client) Tag(_ context.Context, _, tag string, _ distribution.Pointer) (distribution.Pointer, bool, error) {
	digest, found := c.tags[tag]
	return distribution.Pointer{Digest: digest}, found, nil
}

// push stores advisories as an artifact under a tag.
func (c *client) push(t *testing.T, tag string, a *mini.Advisories, mediaType string) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	empty := []byte("{}")
	body := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":%q,"size":2},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		imagetest.TypeManifest, imagetest.Digest(empty), mediaType, imagetest.Digest(text), len(text))
	digest := imagetest.Digest([]byte(body))
	if c.tags == nil {
		c.tags, c.documents, c.blobs = map[string]string{}, map[string][]byte{}, map[string][]byte{}
	}
	c.tags[tag], c.documents[digest], c.blobs[imagetest.Digest(text)], c.blobs[imagetest.Digest(empty)] = digest, []byte(body), text, empty
	return digest
}

func open(t *testing.T, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{
		CacheDir: t.TempDir(), Launcher: self, Sandbox: sandbox.Prefer, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Adapters: []engine.Adapter{{Name: "mini", Path: self, Args: []string{"adapter-mini"}}},
	}
	if change != nil {
		change(&o)
	}
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func known(t *testing.T) imagetest.Image {
	t.Helper()
	image, err := imagetest.Known()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func request(image imagetest.Image, c *client) engine.SBOMRequest {
	return engine.SBOMRequest{
		Adapter: "mini", Client: c, Repository: "shop/app", Digest: image.Digest, Config: image.Config, Platform: "linux/amd64", Layers: image.Layers,
		Scope: "host/registry.example.com", Formats: []string{protocol.CycloneDX},
	}
}

// look makes an SBOM, and has its documents removed at the end of the test.
func look(t *testing.T, e *engine.Engine, r engine.SBOMRequest) *engine.SBOMResult {
	t.Helper()
	result, err := e.SBOM(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := result.Release(); err != nil {
			t.Error(err)
		}
	})
	return result
}

func advisories(t *testing.T) *mini.Advisories {
	t.Helper()
	files, err := filepath.Glob("../../testdata/advisories/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mini.ReadAdvisories(files...)
	if err != nil || len(all.Advisories) == 0 {
		t.Fatal(err)
	}
	return all
}

func TestFromAnImageToItsFindings(t *testing.T) {
	e := open(t, nil)
	image := known(t)
	c := &client{Images: imagetest.Images{image}}
	sbom := look(t, e, request(image, c))
	if sbom.Packages != 5 || sbom.OS.Family != "debian" || len(sbom.Documents) != 2 || sbom.BytesFetched == 0 || sbom.Engine.Name != "mini" {
		t.Errorf("got %+v", sbom)
	}
	ask := engine.MatchRequest{
		Adapter: "mini", SBOM: sbom.Documents[protocol.SPDX].Path, Format: protocol.SPDX, Producer: "mini", OS: sbom.OS, Digest: image.Digest,
		Platform: "linux/amd64", Layers: image.Layers,
	}
	if _, err := e.Match(t.Context(), ask); protocol.CodeOf(err) != protocol.DatabaseMissing {
		t.Errorf("want DatabaseMissing, got %v", err)
	}
	version := c.push(t, "1", advisories(t), mini.MediaType)
	database, err := e.UpdateDatabase(t.Context(), engine.DatabaseRequest{Adapter: "mini", Client: c, Repository: "db", Reference: "1"})
	if err != nil || !database.Changed || database.Database.Version != version || database.Diff != nil {
		t.Fatalf("got %+v, %v", database, err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			m, err := e.Match(t.Context(), ask)
			if err != nil || m.Findings != 5 || m.BySeverity[protocol.Critical] != 2 || m.Keys.Bytes == 0 || m.Database.Version != version {
				t.Errorf("got %+v, %v", m, err)
				return
			}
			if err := m.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestKnownLayersAreNotDownloaded(t *testing.T) {
	e := open(t, nil)
	image := known(t)
	c := &client{Images: imagetest.Images{image}}
	first := look(t, e, request(image, c))
	again := look(t, e, request(image, c))
	if again.LayersReused != 2 || again.BytesFetched >= first.BytesFetched || again.Documents[protocol.SPDX].SHA256 != first.Documents[protocol.SPDX].SHA256 {
		t.Errorf("want the same document from the cache, got %+v", again)
	}
	other := request(image, c)
	other.Scope = "namespace/web"
	if r := look(t, e, other); r.LayersReused != 0 {
		t.Errorf("who may not share must not: %+v", r)
	}
	c.unreadable = []string{image.Layers[0].Digest}
	if r := look(t, e, request(image, c)); r.LayersReused != 1 {
		t.Errorf("what these credentials may not read must not come from the cache: %+v", r)
	}
}

func TestRegistryErrorIsReported(t *testing.T) {
	e := open(t, nil)
	image := known(t)
	refused := &distribution.Error{Reason: distribution.Unauthorized, Status: 401}
	if _, err := e.SBOM(t.Context(), request(image, &client{Images: imagetest.Images{image}, refused: refused})); !errors.Is(err, refused) {
		t.Errorf("want the registry's own error, got %v", err)
	}
	if _, err := e.SBOM(t.Context(), request(image, &client{})); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("want NotFound, got %v", err)
	}
	late := request(image, &client{Images: imagetest.Images{image}})
	late.Deadline = time.Now().Add(-time.Second)
	if _, err := e.SBOM(t.Context(), late); protocol.CodeOf(err) != protocol.Timeout {
		t.Errorf("want Timeout, got %v", err)
	}
	small := request(image, &client{Images: imagetest.Images{image}})
	small.Limits = protocol.Limits{CompressedBytes: 10}
	if _, err := e.SBOM(t.Context(), small); protocol.CodeOf(err) != protocol.TooLarge {
		t.Errorf("want TooLarge, got %v", err)
	}
	small.Adapter = "none"
	if _, err := e.SBOM(t.Context(), small); protocol.CodeOf(err) != protocol.Unsupported {
		t.Errorf("want Unsupported, got %v", err)
	}
}

func TestDocumentsOfAnAdapterAreChecked(t *testing.T) {
	e := open(t, func(o *engine.Options) {
		o.Adapters = append(o.Adapters, engine.Adapter{Name: "liar", Path: o.Launcher, Args: []string{"adapter-liar"}})
	})
	image := known(t)
	r := request(image, &client{Images: imagetest.Images{image}})
	r.Adapter = "liar"
	if _, err := e.SBOM(t.Context(), r); !adapter.IsCrash(err) || !strings.Contains(err.Error(), "below workdir") {
		t.Errorf("got %v", err)
	}
}

func TestDatabasesReplaceEachOther(t *testing.T) {
	dir := t.TempDir()
	at := func(o *engine.Options) { o.CacheDir = dir }
	e := open(t, at)
	c := &client{}
	update := func(e *engine.Engine, change func(*engine.DatabaseRequest)) (*engine.DatabaseResult, error) {
		q := engine.DatabaseRequest{Adapter: "mini", Client: c, Repository: "db", Reference: "1"}
		if change != nil {
			change(&q)
		}
		return e.UpdateDatabase(t.Context(), q)
	}
	if _, err := update(e, nil); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("want NotFound, got %v", err)
	}
	one := advisories(t)
	c.push(t, "1", one, mini.MediaType)
	first, err := update(e, nil)
	if err != nil || !first.Changed {
		t.Fatal(first, err)
	}
	if again, err := update(e, nil); err != nil || again.Changed {
		t.Errorf("nothing has changed: %+v, %v", again, err)
	}
	two := advisories(t)
	two.BuiltAt = two.BuiltAt.Add(time.Hour)
	two.Advisories = append(two.Advisories, mini.Advisory{ID: "CVE-2099-1", Ecosystem: "npm", Package: "new", Severity: protocol.Low})
	c.push(t, "1", two, mini.MediaType)
	second, err := update(e, nil)
	if err != nil || !second.Changed || second.Diff == nil || second.Diff.Changed != 2 || second.Diff.From != first.Database.Version {
		t.Fatalf("want two keys, npm|new and its vulnerability: %+v, %v", second, err)
	}
	hashes, err := os.ReadFile(second.Diff.Hashes)
	if err != nil || len(hashes) != 16 {
		t.Errorf("want two hashes, got %d bytes, %v", len(hashes), err)
	}
	c.push(t, "1", one, mini.MediaType)
	if _, err := update(e, nil); protocol.CodeOf(err) != protocol.DatabaseRollback {
		t.Errorf("want Rollback, got %v", err)
	}
	for name, broken := range map[string]struct {
		advisories *mini.Advisories
		mediaType  string
		want       protocol.Code
	}{
		"Schema": {&mini.Advisories{Schema: "9"}, mini.MediaType, protocol.DatabaseSchema}, "MediaType": {two, "text/plain", protocol.DatabaseSchema},
	} {
		c.push(t, "1", broken.advisories, broken.mediaType)
		if _, err := update(e, nil); protocol.CodeOf(err) != broken.want {
			t.Errorf("%s: want %s, got %v", name, broken.want, err)
		}
	}
	if now, has := e.Database("mini"); !has || now.Version != second.Database.Version {
		t.Errorf("what could not be had must leave the old one: %+v", now)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, at)
	if now, has := next.Database("mini"); !has || now.Version != second.Database.Version {
		t.Errorf("the next worker goes on with it: %+v", now)
	}
	c.push(t, "1", one, mini.MediaType)
	if older, err := update(next, func(q *engine.DatabaseRequest) { q.AllowOlder = true }); err != nil || !older.Changed {
		t.Errorf("who asks for an older one gets it: %+v, %v", older, err)
	}
}

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	dir := t.TempDir()
	e := open(t, func(o *engine.Options) { o.CacheDir, o.CacheBytes = dir, 250 })
	for i, name := range []string{"old", "middle", "new"} {
		path := filepath.Join(dir, "layers", name)
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2025, 9, 1+i, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Evict(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "layers"))
	if err != nil || len(left) != 2 || left[0].Name() != "middle" {
		t.Errorf("want the old one gone, got %v, %v", left, err)
	}
}

func TestFilesOfDeadWorkersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "work", "mini", "sbom", "7", "r1", "document")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, func(o *engine.Options) { o.CacheDir = dir })
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}
