// SPDX-License-Identifier: Apache-2.0

package trivy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/adapters/trivy/internal/testdb"
	"github.com/scanyard/scanyard/registry/adapters/trivy/internal/trivy"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/conform"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// TestMain is the adapter where a check of conform starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "adapter" {
		if err := trivy.Run(context.Background(), nil, trivy.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// session is the adapter while it runs, in this process.
type session struct {
	t       testing.TB
	dir     string
	in      io.Writer
	mutex   sync.Mutex
	next    int
	waiting map[string]chan protocol.Answer
}

func open(t testing.TB) *session {
	t.Helper()
	in, toAdapter := io.Pipe()
	fromAdapter, out := io.Pipe()
	s := &session{t: t, dir: t.TempDir(), in: toAdapter, waiting: map[string]chan protocol.Answer{}}
	var running sync.WaitGroup
	running.Go(func() {
		now := func() time.Time { return imagetest.Created }
		if err := trivy.Run(t.Context(), nil, trivy.Streams{In: in, Out: out, Err: io.Discard, Now: now}); err != nil {
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

// ask sends a request and waits for its answer. It may be called side by side.
func (s *session) ask(op protocol.Op, params, result any) error {
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

// sbom makes the SBOMs of an image from a layout. Their names begin with the digest.
func (s *session) sbom(spec imagetest.Spec) (protocol.SBOMResult, error) {
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
	var result protocol.SBOMResult
	err = s.ask(protocol.SBOM, params, &result)
	return result, err
}

func (s *session) path(f protocol.File) string { return filepath.Join(s.dir, f.Path) }

// install makes a database and has it taken from a file.
func (s *session) install(a *mini.Advisories) protocol.UpdateResult {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "database.tgz")
	if err := testdb.Make(file, a, testdb.Schema); err != nil {
		s.t.Fatal(err)
	}
	var result protocol.UpdateResult
	if err := s.ask(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: filepath.Join(s.dir, "databases"), Source: protocol.Source{File: file}}, &result); err != nil {
		s.t.Fatal(err)
	}
	return result
}

// match gives the findings and the keys of an SBOM.
func (s *session) match(sbom, format, database, name string) ([]protocol.Finding, []protocol.PackageKeys, error) {
	s.t.Helper()
	var result protocol.MatchResult
	if err := s.ask(protocol.Match, protocol.MatchParams{
		SBOM: protocol.Document{Path: sbom, Format: format, Producer: trivy.Name}, DatabaseDir: database, Out: name + ".findings", KeysOut: name + ".keys",
	}, &result); err != nil {
		return nil, nil, err
	}
	return linesOf[protocol.Finding](s.t, s.path(result.File)), linesOf[protocol.PackageKeys](s.t, s.path(*result.KeysFile)), nil
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

func advisories(t testing.TB) *mini.Advisories {
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

// modules is a layer with packages of Node.js as they are installed.
func modules(packages ...[2]string) imagetest.Layer {
	l := imagetest.Layer{Compression: imagetest.Zstd}
	for _, p := range packages {
		l.Files = append(l.Files, imagetest.File{
			Name: "app/node_modules/" + p[0] + "/package.json", Body: fmt.Sprintf(`{"name":%q,"version":%q,"license":"MIT"}`, p[0], p[1]),
		})
	}
	return l
}

func known() imagetest.Spec {
	return imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), modules([2]string{"lodash", "4.17.20"}, [2]string{"minimist", "1.2.5"})}, Created: imagetest.Created}
}

func TestConforms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "database.tgz")
	if err := testdb.Make(file, advisories(t), testdb.Schema); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	passed, err := conform.Run(t.Context(), conform.Options{Path: program, Args: []string{"adapter"}, Database: file, Out: &out, Patience: 10 * time.Minute})
	if err != nil || !passed || strings.Contains(out.String(), "# SKIP") {
		t.Errorf("error %v:\n%s", err, out.String())
	}
}

func TestPackagesOfAnImage(t *testing.T) {
	s := open(t)
	for name, test := range map[string]struct {
		layers  []imagetest.Layer
		os      protocol.OS
		missing []string
		want    []string
	}{
		"DebianWithNode": {known().Layers, protocol.OS{Family: "debian", Version: "12.1"}, nil, []string{
			"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12.1", "pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12.1",
			"pkg:deb/debian/zlib1g@1.2.13.dfsg-1?arch=amd64&distro=debian-12.1&epoch=1", "pkg:npm/lodash@4.17.20", "pkg:npm/minimist@1.2.5",
		}},
		"Alpine": {[]imagetest.Layer{imagetest.Alpine318()}, protocol.OS{Family: "alpine", Version: "3.18.2"}, nil, []string{
			"pkg:apk/alpine/libcrypto3@3.1.1-r1?arch=x86_64&distro=3.18.2", "pkg:apk/alpine/musl@1.2.4-r0?arch=x86_64&distro=3.18.2",
		}},
		"Removed": {append(known().Layers, imagetest.Remove("app/node_modules/lodash", "var/lib/dpkg/status")), protocol.OS{Family: "debian", Version: "12.1"}, nil, []string{
			"pkg:npm/minimist@1.2.5",
		}},
		"Emptied":                 {append(known().Layers, imagetest.Layer{Files: []imagetest.File{{Name: "app/.wh..wh..opq"}, {Name: "var/lib/dpkg/.wh..wh..opq"}}}), protocol.OS{Family: "debian", Version: "12.1"}, nil, nil},
		"Jar":                     {[]imagetest.Layer{{Files: []imagetest.File{{Name: "app/a.jar", Body: "x"}, {Name: "app/b.WAR", Body: "x"}}}}, protocol.OS{}, []string{"java-db"}, nil},
		"LockFilesAreNotLookedAt": {[]imagetest.Layer{imagetest.Node()}, protocol.OS{}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := s.sbom(imagetest.Spec{Layers: test.layers, Created: imagetest.Created})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			content, err := os.ReadFile(s.path(result.Files[protocol.SPDX]))
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(string(content), `"referenceLocator":"`) {
				if purl, _, _ := strings.Cut(part, `"`); strings.HasPrefix(purl, "pkg:") {
					got = append(got, purl)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if result.OS != test.os || result.Packages != len(test.want) || (result.Completeness == protocol.Full) != (test.missing == nil) {
				t.Errorf("got %+v", result)
			}
			if diff := cmp.Diff(test.missing, result.Missing); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDocumentsAreCanonical(t *testing.T) {
	var texts []string
	for range 2 {
		s := open(t)
		result, err := s.sbom(known())
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{protocol.SPDX, protocol.CycloneDX} {
			content, err := os.ReadFile(s.path(result.Files[format]))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(content))
		}
	}
	if texts[0] != texts[2] || texts[1] != texts[3] {
		t.Error("two processes make different documents of one image")
	}
	var document struct {
		Namespace string `json:"documentNamespace"`
		Creation  struct {
			Created string `json:"created"`
		} `json:"creationInfo"`
		Packages []struct {
			ID string `json:"SPDXID"`
		} `json:"packages"`
	}
	if err := json.Unmarshal([]byte(texts[0]), &document); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range document.Packages {
		ids = append(ids, p.ID)
	}
	if !slices.IsSorted(ids) || document.Creation.Created != "2025-09-01T00:00:00Z" ||
		!strings.HasPrefix(document.Namespace, "https://scanyard.io/spdx/sha256:") || !strings.HasSuffix(document.Namespace, "/trivy-"+trivy.EngineVersion) {
		t.Errorf("got %+v", document)
	}
}

func TestFindingsOfAKnownDatabase(t *testing.T) {
	s := open(t)
	made, err := s.sbom(known())
	if err != nil {
		t.Fatal(err)
	}
	database := s.install(advisories(t))
	findings, keys, err := s.match(s.path(made.Files[protocol.SPDX]), protocol.SPDX, database.Dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %v %s", f.Severity, f.VulnerabilityID, f.Package.Name, f.Class, f.Target, f.FixedVersions, f.Status))
	}
	if diff := cmp.Diff([]string{
		"CRITICAL CVE-2021-44906 minimist lang-pkgs app/node_modules/minimist/package.json [0.2.4 1.2.6] fixed",
		"CRITICAL CVE-2023-45853 zlib1g os-pkgs os [] will_not_fix",
		"HIGH CVE-2021-23337 lodash lang-pkgs app/node_modules/lodash/package.json [4.17.21] fixed",
		"HIGH CVE-2024-2961 libc6 os-pkgs os [2.36-9+deb12u6] fixed",
		"LOW CVE-2005-2541 tar os-pkgs os [] affected",
	}, got); diff != "" {
		t.Error(diff)
	}
	whole := map[string]protocol.Finding{}
	for _, f := range findings {
		whole[f.VulnerabilityID] = f
	}
	zlib := whole["CVE-2023-45853"]
	if zlib.Layer == nil || zlib.Layer.Index != 0 || zlib.Package.SourceName != "zlib" || zlib.SeveritySource != "nvd" || zlib.Title == "" ||
		zlib.PrimaryURL == "" || len(zlib.References) != 1 || zlib.PublishedAt == "" || zlib.Package.Type != "deb" {
		t.Errorf("got %+v", zlib)
	}
	if lodash := whole["CVE-2021-23337"]; lodash.Layer == nil || lodash.Layer.Index != 1 || lodash.Package.Type != "npm" || len(lodash.CVSS) != 1 ||
		lodash.Score != lodash.CVSS[0].Score || len(lodash.Aliases) == 0 {
		t.Errorf("got %+v", lodash)
	}
	if diff := cmp.Diff([]protocol.PackageKeys{
		{PURL: "pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12.1", Keys: []string{"debian|glibc", "debian|libc6", "os|glibc", "os|libc6"}},
		{PURL: "pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12.1", Keys: []string{"debian|tar", "os|tar"}},
		{PURL: "pkg:deb/debian/zlib1g@1.2.13.dfsg-1?arch=amd64&distro=debian-12.1&epoch=1", Keys: []string{"debian|zlib", "debian|zlib1g", "os|zlib", "os|zlib1g"}},
		{PURL: "pkg:npm/lodash@4.17.20", Keys: []string{"npm|lodash"}},
		{PURL: "pkg:npm/minimist@1.2.5", Keys: []string{"npm|minimist"}},
	}, keys); diff != "" {
		t.Error(diff)
	}
	again, _, err := s.match(s.path(made.Files[protocol.CycloneDX]), protocol.CycloneDX, database.Dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(findings, again); diff != "" {
		t.Errorf("the CycloneDX document has other findings: %s", diff)
	}
}

func TestManyMatchesAtOnce(t *testing.T) {
	s := open(t)
	made, err := s.sbom(known())
	if err != nil {
		t.Fatal(err)
	}
	all := advisories(t)
	databases := []string{s.install(all).Dir, s.install(&mini.Advisories{BuiltAt: all.BuiltAt, Advisories: all.Advisories[:1]}).Dir}
	want := make([][]protocol.Finding, len(databases))
	for i, dir := range databases {
		if want[i], _, err = s.match(s.path(made.Files[protocol.SPDX]), protocol.SPDX, dir, fmt.Sprintf("one%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			// Most are of one database, as in a worker; some are of another one.
			i := 0
			if n%8 == 0 {
				i = 1
			}
			got, _, err := s.match(s.path(made.Files[protocol.SPDX]), protocol.SPDX, databases[i], fmt.Sprintf("many%d", n))
			if err != nil || !cmp.Equal(got, want[i]) {
				t.Errorf("match %d: %v, %s", n, err, cmp.Diff(want[i], got))
			}
		})
	}
	group.Wait()
}

func TestDatabaseOfOtherSchemaIsRefused(t *testing.T) {
	s := open(t)
	file := filepath.Join(t.TempDir(), "database.tgz")
	if err := testdb.Make(file, advisories(t), testdb.Schema+1); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "databases")
	err := s.ask(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: dir, Source: protocol.Source{File: file}}, &protocol.UpdateResult{})
	if protocol.CodeOf(err) != protocol.DatabaseSchema {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// compare gives the hashes that differ between two databases.
func (s *session) compare(from, to string) (protocol.DiffResult, []uint64) {
	s.t.Helper()
	var result protocol.DiffResult
	if err := s.ask(protocol.DatabaseDiff, protocol.DiffParams{FromDir: from, ToDir: to, Out: "changed", IndexOut: "index"}, &result); err != nil {
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

func TestDiffNamesWhatHasChanged(t *testing.T) {
	s := open(t)
	all := advisories(t)
	changed := &mini.Advisories{BuiltAt: all.BuiltAt, Advisories: slices.Clone(all.Advisories)}
	var of mini.Advisory
	for i, a := range changed.Advisories {
		if a.Ecosystem == "npm" && a.Package == "lodash" {
			changed.Advisories[i].Ranges = []mini.Range{{Fixed: "9.9.9"}}
			of = a
		}
	}
	from, to := s.install(all), s.install(changed)
	result, hashes := s.compare(from.Dir, to.Dir)
	if !result.Comparable || result.Changed != 1 || !slices.Contains(hashes, protocol.KeyHash("npm|lodash")) {
		t.Errorf("got %+v %v", result, hashes)
	}
	for i := range changed.Advisories {
		if changed.Advisories[i].ID == of.ID {
			changed.Advisories[i] = of
			changed.Advisories[i].Title = "another title"
		}
	}
	if result, hashes = s.compare(from.Dir, s.install(changed).Dir); result.Changed != 1 || hashes[0] != protocol.KeyHash(protocol.Key("vuln", of.ID)) {
		t.Errorf("got %+v %v", result, hashes)
	}
	changed.Advisories = append(changed.Advisories, mini.Advisory{ID: "CVE-2099-1", Ecosystem: "debian", Release: "99", Package: "a", Severity: "LOW"})
	if result, _ = s.compare(from.Dir, s.install(changed).Dir); result.Comparable {
		t.Error("another source of advisories concerns all packages")
	}
}
