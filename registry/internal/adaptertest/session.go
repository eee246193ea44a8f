// SPDX-License-Identifier: Apache-2.0

// Package adaptertest holds what the tests of adapters share: an adapter in the test's own process, images and databases for it, and the
// properties that every adapter must have.
package adaptertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// Adapter is what a test needs to know of one.
type Adapter struct {
	// Name is that of the adapter and of the engine.
	Name string
	// Run is the adapter, until the end of its input.
	Run func(ctx context.Context, in io.Reader, out io.Writer, now func() time.Time) error
	// Database makes the file that db-update takes, in the engine's own format.
	Database func(file string, advisories *mini.Advisories) error
}

// Session is an adapter while it runs, in this process.
type Session struct {
	// Layers are those of the image whose SBOM is matched, where findings are to tell them.
	Layers []manifest.Layer

	t       testing.TB
	adapter Adapter
	dir     string
	in      io.Writer
	mutex   sync.Mutex
	next    int
	waiting map[string]chan protocol.Answer
}

// Open starts an adapter. It ends with the test.
func Open(t testing.TB, a Adapter) *Session {
	t.Helper()
	in, toAdapter := io.Pipe()
	fromAdapter, out := io.Pipe()
	s := &Session{t: t, adapter: a, dir: t.TempDir(), in: toAdapter, waiting: map[string]chan protocol.Answer{}}
	var running sync.WaitGroup
	running.Go(func() {
		now := func() time.Time { return imagetest.Created }
		if err := a.Run(t.Context(), in, out, now); err != nil {
			t.Error(err)
		}
		_ = out.Close() // a pipe always closes
	})
	running.Go(func() {
		lines := protocol.NewReader(fromAdapter)
		for {
			line, err := lines.Line()
			if err != nil {
				return
			}
			answer, err := protocol.ReadAnswer(line)
			if err != nil {
				t.Error(err)
				return
			}
			s.mutex.Lock()
			answers := s.waiting[answer.ID]
			s.mutex.Unlock()
			if answer.Type != protocol.TypeProgress {
				answers <- answer
			}
		}
	})
	t.Cleanup(func() {
		_ = toAdapter.Close() // a pipe always closes
		running.Wait()
	})
	return s
}

// Ask sends a request and waits for its answer. It may be called side by side.
func (s *Session) Ask(op protocol.Op, params, result any) error {
	s.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answers := make(chan protocol.Answer, 1)
	s.mutex.Lock()
	s.next++
	id := strconv.Itoa(s.next)
	s.waiting[id] = answers
	line, err := protocol.Line(protocol.Request{V: protocol.Version, ID: id, Op: op, Workdir: s.dir, Params: text})
	if err == nil {
		_, err = s.in.Write(line)
	}
	s.mutex.Unlock()
	if err != nil {
		return err
	}
	answer := <-answers
	if answer.Error != nil {
		return answer.Error
	}
	return protocol.Decode(answer.Result, result)
}

// SBOM makes the SBOMs of an image from a layout. Their names begin with the digest.
func (s *Session) SBOM(spec imagetest.Spec, change ...func(*protocol.SBOMParams)) (protocol.SBOMResult, error) {
	s.t.Helper()
	image, err := imagetest.Build(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	layout := s.t.TempDir()
	if err := image.Layout(layout); err != nil {
		s.t.Fatal(err)
	}
	name := strings.TrimPrefix(image.Digest, "sha256:")[:12]
	params := protocol.SBOMParams{
		Image:   protocol.Image{Layout: layout, Digest: image.Digest},
		Formats: []string{protocol.SPDX, protocol.CycloneDX}, Out: map[string]string{protocol.SPDX: name + ".spdx.json", protocol.CycloneDX: name + ".cdx.json"},
		Limits: protocol.DefaultLimits(),
	}
	for _, one := range change {
		one(&params)
	}
	var result protocol.SBOMResult
	err = s.Ask(protocol.SBOM, params, &result)
	return result, err
}

// Path is where a document is.
func (s *Session) Path(f protocol.File) string { return filepath.Join(s.dir, f.Path) }

// Install makes a database and has it taken from a file.
func (s *Session) Install(a *mini.Advisories) protocol.UpdateResult {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "database.tgz")
	if err := s.adapter.Database(file, a); err != nil {
		s.t.Fatal(err)
	}
	var result protocol.UpdateResult
	wanted := protocol.UpdateParams{Dir: filepath.Join(s.dir, "databases"), Source: protocol.Source{File: file}}
	if err := s.Ask(protocol.DatabaseUpdate, wanted, &result); err != nil {
		s.t.Fatal(err)
	}
	return result
}

// Match gives the findings and the keys of an SBOM.
func (s *Session) Match(sbom, format, database, name string) ([]protocol.Finding, []protocol.PackageKeys, error) {
	s.t.Helper()
	var layers []protocol.Layer
	for _, l := range s.Layers {
		layers = append(layers, protocol.Layer{Digest: l.Digest, DiffID: l.DiffID})
	}
	var result protocol.MatchResult
	if err := s.Ask(protocol.Match, protocol.MatchParams{
		Image: protocol.MatchedImage{Layers: layers},
		SBOM:  protocol.Document{Path: sbom, Format: format, Producer: s.adapter.Name}, DatabaseDir: database, Out: name + ".findings", KeysOut: name + ".keys",
	}, &result); err != nil {
		return nil, nil, err
	}
	return linesOf[protocol.Finding](s.t, s.Path(result.File)), linesOf[protocol.PackageKeys](s.t, s.Path(*result.KeysFile)), nil
}

func linesOf[T any](t testing.TB, name string) (list []T) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var entry T
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry)
	}
	return list
}

// Advisories are those of the tests, for a test in adapters/NAME/internal/NAME.
func Advisories(t testing.TB) *mini.Advisories {
	t.Helper()
	files, err := filepath.Glob("../../../../testdata/advisories/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	a, err := mini.ReadAdvisories(files...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Modules is a layer with packages of Node.js as they are installed.
func Modules(packages ...[2]string) imagetest.Layer {
	l := imagetest.Layer{Compression: imagetest.Zstd}
	for _, p := range packages {
		l.Files = append(l.Files, imagetest.File{
			Name: "app/node_modules/" + p[0] + "/package.json", Body: fmt.Sprintf(`{"name":%q,"version":%q,"license":"MIT"}`, p[0], p[1]),
		})
	}
	return l
}

// Known is an image of Debian 12 below packages of Node.js, both with vulnerabilities that the advisories know.
func Known() imagetest.Spec {
	modules := Modules([2]string{"lodash", "4.17.20"}, [2]string{"minimist", "1.2.5"})
	return imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), modules}, Created: imagetest.Created}
}

// Compare gives the hashes that differ between two databases.
func (s *Session) Compare(from, to string) (protocol.DiffResult, []uint64) {
	s.t.Helper()
	var result protocol.DiffResult
	if err := s.Ask(protocol.DatabaseDiff, protocol.DiffParams{FromDir: from, ToDir: to, Out: "changed", IndexOut: "index"}, &result); err != nil {
		s.t.Fatal(err)
	}
	if !result.Comparable {
		return result, nil
	}
	content, err := os.ReadFile(filepath.Join(s.dir, "changed"))
	if err != nil {
		s.t.Fatal(err)
	}
	hashes, err := protocol.ReadHashes(bytes.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	return result, hashes
}
