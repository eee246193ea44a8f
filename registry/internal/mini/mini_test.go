// SPDX-License-Identifier: Apache-2.0

package mini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// ask runs the adapter for one request.
func ask(t testing.TB, op protocol.Op, workdir string, params, result any) error {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	line, err := protocol.Line(protocol.Request{V: 1, ID: "1", Op: op, Workdir: workdir, Params: text})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	now := func() time.Time { return imagetest.Created }
	if err := mini.Run(t.Context(), nil, mini.Streams{In: bytes.NewReader(line), Out: &out, Err: io.Discard, Now: now}); err != nil {
		t.Fatal(err)
	}
	lines := protocol.NewReader(&out)
	for {
		line, err := lines.Line()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := protocol.ReadAnswer(line)
		switch {
		case err != nil:
			t.Fatal(err)
		case answer.Type == protocol.TypeError:
			return answer.Error
		case answer.Type == protocol.TypeResult:
			return protocol.Decode(answer.Result, result)
		}
	}
}

// look makes the SBOM of an image from a proxy, and gives the directory of its documents.
func look(t testing.TB, spec imagetest.Spec, change func(*protocol.SBOMParams)) (protocol.SBOMResult, string, error) {
	t.Helper()
	image, err := imagetest.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	server, err := proxy.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	grant := server.Grant(t.Context(), proxy.Content{Source: imagetest.Images{image}, Manifests: []string{image.Digest}, Blobs: image.Sizes()})
	params := protocol.SBOMParams{
		Image:   protocol.Image{URL: server.URL(), Reference: grant.Reference(), Token: grant.Token, Digest: image.Digest},
		Formats: []string{protocol.SPDX, protocol.CycloneDX}, Out: map[string]string{protocol.SPDX: "a.spdx.json", protocol.CycloneDX: "a.cdx.json"},
		Limits: protocol.DefaultLimits(),
	}
	for _, l := range image.Layers {
		params.Layers = append(params.Layers, protocol.Layer{Digest: l.Digest, DiffID: l.DiffID, Cached: true})
	}
	if change != nil {
		change(&params)
	}
	var result protocol.SBOMResult
	dir := t.TempDir()
	err = ask(t, protocol.SBOM, dir, params, &result)
	return result, dir, err
}

// purls are those of the packages of a document.
func purls(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for part := range strings.SplitSeq(string(text), `"referenceLocator": "`) {
		purl, _, _ := strings.Cut(part, `"`)
		if strings.HasPrefix(purl, "pkg:") {
			list = append(list, purl)
		}
	}
	slices.Sort(list)
	return list
}

func TestPackagesOfAnImage(t *testing.T) {
	debian := []string{
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12", "pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12",
		"pkg:deb/debian/zlib1g@1:1.2.13.dfsg-1?arch=amd64&distro=debian-12",
	}
	node := []string{"pkg:npm/lodash@4.17.20", "pkg:npm/minimist@1.2.5"}
	for name, test := range map[string]struct {
		layers []imagetest.Layer
		os     protocol.OS
		want   []string
	}{
		"DebianWithNode": {[]imagetest.Layer{imagetest.Debian12(), imagetest.Node()}, protocol.OS{Family: "debian", Version: "12"}, append(slices.Clone(debian), node...)},
		"Alpine": {[]imagetest.Layer{imagetest.Alpine318()}, protocol.OS{Family: "alpine", Version: "3.18.2"}, []string{
			"pkg:apk/alpine/libcrypto3@3.1.1-r1?arch=x86_64&distro=alpine-3.18.2", "pkg:apk/alpine/musl@1.2.4-r0?arch=x86_64&distro=alpine-3.18.2",
		}},
		"Removed":          {[]imagetest.Layer{imagetest.Debian12(), imagetest.Node(), imagetest.Remove("app")}, protocol.OS{Family: "debian", Version: "12"}, debian},
		"RemovedBefore":    {[]imagetest.Layer{imagetest.Remove("app/package-lock.json"), imagetest.Node()}, protocol.OS{}, node},
		"OpaqueDirectory":  {[]imagetest.Layer{imagetest.Node(), {Files: []imagetest.File{{Name: "app/.wh..wh..opq"}}}}, protocol.OS{}, nil},
		"NamesAreNoPrefix": {[]imagetest.Layer{imagetest.Node(), imagetest.Remove("ap", "app/package-lock")}, protocol.OS{}, node},
		"Replaced":         {[]imagetest.Layer{imagetest.Node(), {Files: []imagetest.File{{Name: "app/package-lock.json", Body: `{"dependencies":{"a":{"version":"1.0.0","dependencies":{"b":{"version":"2.0.0"}}}}}`}}}}, protocol.OS{}, []string{"pkg:npm/a@1.0.0", "pkg:npm/b@2.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			result, dir, err := look(t, imagetest.Spec{Layers: test.layers, Created: imagetest.Created}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, purls(t, filepath.Join(dir, "a.spdx.json"))); diff != "" {
				t.Error(diff)
			}
			if result.OS != test.os || result.Packages != len(test.want) || result.Completeness != protocol.Full {
				t.Errorf("got %+v", result)
			}
		})
	}
}

func TestHostileImages(t *testing.T) {
	list, err := imagetest.Hostiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		t.Run(h.Name, func(t *testing.T) {
			result, dir, err := look(t, h.Spec, nil)
			e, _ := err.(*protocol.Error) //nolint:errorlint // ask gives it as it is
			if h.Readable != (err == nil) || e != nil && e.Retryable {
				t.Fatalf("readable %v, got %v", h.Readable, err)
			}
			if h.Application && len(purls(t, filepath.Join(dir, "a.spdx.json"))) != 2 {
				t.Errorf("want the packages of the application, got %+v", result)
			}
			if err == nil && result.Completeness != protocol.Full {
				t.Errorf("all layers can be read: %+v", result)
			}
		})
	}
}

func TestBoundsOfAnImage(t *testing.T) {
	for name, test := range map[string]struct {
		limits protocol.Limits
		want   protocol.Code
	}{
		"Uncompressed": {protocol.Limits{UncompressedBytes: 1000}, protocol.TooLarge},
		"Compressed":   {protocol.Limits{CompressedBytes: 10}, protocol.TooLarge},
		"Files":        {protocol.Limits{Files: 1}, protocol.TooManyFiles},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12()}}, func(p *protocol.SBOMParams) { p.Limits = test.limits })
			if protocol.CodeOf(err) != test.want {
				t.Errorf("want %s, got %v", test.want, err)
			}
		})
	}
}

func TestEqualImagesHaveEqualDocuments(t *testing.T) {
	spec := imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), imagetest.Node()}, Created: imagetest.Created}
	first, _, err := look(t, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	for range 2 {
		again, _, err := look(t, spec, func(p *protocol.SBOMParams) { p.CacheDir = cache })
		if diff := cmp.Diff(first.Files, again.Files); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

func TestLayersAreReused(t *testing.T) {
	cache := t.TempDir()
	base := imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), imagetest.Node()}, Created: imagetest.Created}
	of := func(scope string, cached bool) protocol.SBOMResult {
		t.Helper()
		result, _, err := look(t, base, func(p *protocol.SBOMParams) {
			p.CacheDir, p.CacheScope = cache, scope
			if !cached {
				p.Layers = nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if r := of("a", true); r.LayersAnalysed != 2 || r.BytesRead == 0 {
		t.Errorf("nothing is known yet: %+v", r)
	}
	if r := of("a", true); r.LayersReused != 2 || r.BytesRead != 0 {
		t.Errorf("all is known: %+v", r)
	}
	if r := of("b", true); r.LayersReused != 0 {
		t.Errorf("who may not share must not: %+v", r)
	}
	if r := of("a", false); r.LayersReused != 0 {
		t.Errorf("the worker has not said that the cache may be used: %+v", r)
	}
	var files []string
	err := filepath.Walk(cache, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 4 {
		t.Fatalf("want a file for each layer and scope, got %v, %v", files, err)
	}
	for i, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = [][]byte{text[:len(text)/2], nil, bytes.ToUpper(text), append(text, 'x')}[i]
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := of("a", true); r.LayersReused != 0 || r.Packages != 5 {
		t.Errorf("what is damaged is not there: %+v", r)
	}
	if r := of("a", true); r.LayersReused != 2 {
		t.Errorf("what was damaged is made anew: %+v", r)
	}
}

func TestCachePoison(t *testing.T) {
	cache := t.TempDir()
	use := func(p *protocol.SBOMParams) { p.CacheDir = cache }
	base, err := imagetest.Build(imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12()}})
	if err != nil {
		t.Fatal(err)
	}
	liar := imagetest.Node()
	liar.DiffID = base.Layers[0].DiffID
	if _, _, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{liar}}, use); protocol.CodeOf(err) != protocol.InvalidInput {
		t.Errorf("want InvalidInput, got %v", err)
	}
	result, _, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12()}}, use)
	if err != nil || result.LayersReused != 0 || result.OS.Family != "debian" {
		t.Errorf("the base image must be what it is: %+v, %v", result, err)
	}
	// The other way round: content that is known under its diffID is not shown to who names another blob.
	if _, _, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{liar}}, use); protocol.CodeOf(err) != protocol.InvalidInput {
		t.Errorf("want InvalidInput, got %v", err)
	}
}

// advisories are those of testdata.
func advisories(t testing.TB) *mini.Advisories {
	t.Helper()
	files, err := filepath.Glob("../../testdata/advisories/*.json")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	all, err := mini.ReadAdvisories(files...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// install makes a database below a directory.
func install(t testing.TB, dir string, a *mini.Advisories) protocol.UpdateResult {
	t.Helper()
	file := filepath.Join(t.TempDir(), "advisories.json")
	if err := a.Write(file); err != nil {
		t.Fatal(err)
	}
	var result protocol.UpdateResult
	if err := ask(t, protocol.DatabaseUpdate, t.TempDir(), protocol.UpdateParams{Dir: dir, Source: protocol.Source{File: file}}, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// match gives the findings and the keys of an SBOM.
func match(t testing.TB, sbom, database string) ([]protocol.Finding, []protocol.PackageKeys, protocol.MatchResult) {
	t.Helper()
	dir := t.TempDir()
	var result protocol.MatchResult
	err := ask(t, protocol.Match, dir, protocol.MatchParams{
		SBOM: protocol.Document{Path: sbom, Format: protocol.SPDX, Producer: mini.Name}, DatabaseDir: database, Out: "findings", KeysOut: "keys",
	}, &result)
	if err != nil {
		t.Fatal(err)
	}
	return decode[protocol.Finding](t, filepath.Join(dir, "findings")), decode[protocol.PackageKeys](t, filepath.Join(dir, "keys")), result
}

func decode[T any](t testing.TB, name string) []T {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	for line := range bytes.Lines(text) {
		var entry T
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry)
	}
	return list
}

func TestFindingsOfAKnownDatabase(t *testing.T) {
	database := install(t, t.TempDir(), advisories(t))
	for name, test := range map[string]struct {
		layers []imagetest.Layer
		want   []string
	}{
		"DebianWithNode": {[]imagetest.Layer{imagetest.Debian12(), imagetest.Node()}, []string{
			"CRITICAL CVE-2021-44906 minimist 1.2.5 [1.2.6] fixed app/package-lock.json 1", "CRITICAL CVE-2023-45853 zlib1g 1:1.2.13.dfsg-1 [] will_not_fix os 0",
			"HIGH CVE-2024-2961 libc6 2.36-9+deb12u4 [2.36-9+deb12u6] fixed os 0", "HIGH CVE-2021-23337 lodash 4.17.20 [4.17.21] fixed app/package-lock.json 1",
			"LOW CVE-2005-2541 tar 1.34+dfsg-1.2 [] affected os 0",
		}},
		"Alpine": {[]imagetest.Layer{imagetest.Alpine318()}, []string{
			"HIGH CVE-2023-5363 libcrypto3 3.1.1-r1 [3.1.4-r0] fixed os 0", "MEDIUM CVE-2023-2975 libcrypto3 3.1.1-r1 [3.1.1-r2] fixed os 0",
			"MEDIUM CVE-2023-3446 libcrypto3 3.1.1-r1 [3.1.1-r3] fixed os 0", "MEDIUM CVE-2023-3817 libcrypto3 3.1.1-r1 [3.1.2-r0] fixed os 0",
		}},
		"NodeAlone": {[]imagetest.Layer{imagetest.Node()}, []string{
			"CRITICAL CVE-2021-44906 minimist 1.2.5 [1.2.6] fixed app/package-lock.json 0", "HIGH CVE-2021-23337 lodash 4.17.20 [4.17.21] fixed app/package-lock.json 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir, err := look(t, imagetest.Spec{Layers: test.layers, Created: imagetest.Created}, nil)
			if err != nil {
				t.Fatal(err)
			}
			findings, _, result := match(t, filepath.Join(dir, "a.spdx.json"), database.Dir)
			var got []string
			for _, f := range findings {
				got = append(got, fmt.Sprint(f.Severity, " ", f.VulnerabilityID, " ", f.Package.Name, " ", f.Package.Version, " ", f.FixedVersions, " ", f.Status, " ", f.Target, " ", f.Layer.Index))
			}
			if diff := cmp.Diff(test.want, got); diff != "" || result.Findings != len(got) || result.Database.Version != database.Version {
				t.Error(diff, result)
			}
		})
	}
}

// TestMatchUsesTheDatabaseInstalledLast: a match that names no database uses the one that its process has installed last, or was told.
func TestMatchUsesTheDatabaseInstalledLast(t *testing.T) {
	_, dir, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{imagetest.Node()}, Created: imagetest.Created}, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := install(t, t.TempDir(), advisories(t))
	newer := advisories(t)
	newer.BuiltAt = newer.BuiltAt.Add(time.Hour)
	file := filepath.Join(t.TempDir(), "advisories.json")
	if err := newer.Write(file); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		arguments []string
		wantTold  bool
	}{
		"Installed": {nil, false},
		"Told":      {[]string{"--database", told.Dir}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in, toAdapter := io.Pipe()
			fromAdapter, out := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- mini.Run(t.Context(), test.arguments, mini.Streams{In: in, Out: out, Err: io.Discard, Now: time.Now})
				_ = out.Close() // a pipe always closes
			}()
			lines := protocol.NewReader(fromAdapter)
			do := func(op protocol.Op, params, result any) {
				t.Helper()
				text, err := json.Marshal(params)
				if err != nil {
					t.Fatal(err)
				}
				line, err := protocol.Line(protocol.Request{V: protocol.Version, ID: "1", Op: op, Workdir: t.TempDir(), Params: text})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := toAdapter.Write(line); err != nil {
					t.Fatal(err)
				}
				if line, err = lines.Line(); err != nil {
					t.Fatal(err)
				}
				answer, err := protocol.ReadAnswer(line)
				if err != nil || answer.Error != nil {
					t.Fatal(err, answer.Error)
				}
				if err := protocol.Decode(answer.Result, result); err != nil {
					t.Fatal(err)
				}
			}
			var installed protocol.UpdateResult
			do(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: t.TempDir(), Source: protocol.Source{File: file}}, &installed)
			var matched protocol.MatchResult
			do(protocol.Match, protocol.MatchParams{SBOM: protocol.Document{Path: filepath.Join(dir, "a.spdx.json"), Format: protocol.SPDX}, Out: "findings"}, &matched)
			want := installed.Version
			if test.wantTold {
				want = told.Version
			}
			if matched.Findings != 2 || matched.Database.Version != want {
				t.Errorf("%+v, want the database %s", matched, want)
			}
			if err := errors.Join(toAdapter.Close(), <-ended); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeysNameBinaryAndSource(t *testing.T) {
	database := install(t, t.TempDir(), advisories(t))
	_, dir, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{imagetest.Debian12(), imagetest.Node()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, keys, result := match(t, filepath.Join(dir, "a.spdx.json"), database.Dir)
	got := map[string][]string{}
	for _, k := range keys {
		got[k.PURL] = k.Keys
	}
	want := map[string][]string{
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12": {"debian|libc6", "debian|glibc"},
		"pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12":    {"debian|tar"},
		"pkg:deb/debian/zlib1g@1:1.2.13.dfsg-1?arch=amd64&distro=debian-12": {"debian|zlib1g", "debian|zlib"},
		"pkg:npm/lodash@4.17.20": {"npm|lodash"}, "pkg:npm/minimist@1.2.5": {"npm|minimist"},
	}
	if diff := cmp.Diff(want, got); diff != "" || result.Keys != len(want) {
		t.Error(diff, result.Keys)
	}
}

// compare gives the keys that differ between two databases.
func compare(t testing.TB, params protocol.DiffParams) (protocol.DiffResult, []uint64, string) {
	t.Helper()
	dir := t.TempDir()
	params.Out, params.IndexOut = "changed", "index"
	var result protocol.DiffResult
	if err := ask(t, protocol.DatabaseDiff, dir, params, &result); err != nil {
		t.Fatal(err)
	}
	if !result.Comparable {
		return result, nil, filepath.Join(dir, "index")
	}
	f, err := os.Open(filepath.Join(dir, "changed"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hashes, err := protocol.ReadHashes(f)
	if err != nil {
		t.Fatal(err)
	}
	return result, hashes, filepath.Join(dir, "index")
}

func TestDiffNamesWhatHasChanged(t *testing.T) {
	dir := t.TempDir()
	old := advisories(t)
	from := install(t, dir, old)
	next := advisories(t)
	i := slices.IndexFunc(next.Advisories, func(a mini.Advisory) bool { return a.Package == "lodash" })
	next.Advisories[i].Severity = protocol.Critical
	next.Advisories = append(next.Advisories, mini.Advisory{ID: "CVE-2099-1", Ecosystem: "npm", Package: "new", Severity: protocol.Low})
	to := install(t, dir, next)
	if !to.Changed || to.Version == from.Version || install(t, dir, next).Changed {
		t.Errorf("want a new version once, got %+v", to)
	}
	_, _, index := compare(t, protocol.DiffParams{ToDir: from.Dir})
	var want []uint64
	for _, key := range []string{"npm|lodash", "vuln|cve-2021-23337", "vuln|ghsa-35jh-r3h4-6jhm", "npm|new", "vuln|cve-2099-1"} {
		want = append(want, protocol.KeyHash(key))
	}
	slices.Sort(want)
	for name, params := range map[string]protocol.DiffParams{
		"ByIndex": {FromIndex: index, ToDir: to.Dir}, "ByDirectory": {FromDir: from.Dir, ToDir: to.Dir},
	} {
		t.Run(name, func(t *testing.T) {
			result, got, _ := compare(t, params)
			if diff := cmp.Diff(want, got); diff != "" || !result.Comparable || result.Changed != 5 {
				t.Error(diff, result)
			}
		})
	}
	if result, _, _ := compare(t, protocol.DiffParams{FromIndex: filepath.Join(dir, "lost"), ToDir: to.Dir}); result.Comparable {
		t.Error("an index that is lost cannot be compared")
	}
}

func TestDatabaseIsCompleteOrNotThere(t *testing.T) {
	dir := t.TempDir()
	work := t.TempDir()
	file := filepath.Join(work, "file")
	for name, test := range map[string]struct {
		text string
		want protocol.Code
	}{
		"Garbage": {"garbage", protocol.DatabaseCorrupt}, "Cut": {`{"schema":"1","advisories":[`, protocol.DatabaseCorrupt}, "Schema": {`{"schema":"2"}`, protocol.DatabaseSchema},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := ask(t, protocol.DatabaseUpdate, work, protocol.UpdateParams{Dir: dir, Source: protocol.Source{File: file}}, &protocol.UpdateResult{})
			if left, _ := os.ReadDir(dir); protocol.CodeOf(err) != test.want || len(left) > 0 {
				t.Errorf("want %s and nothing left, got %v, %v", test.want, err, left)
			}
		})
	}
	full := protocol.UpdateParams{Dir: dir, Source: protocol.Source{File: file}, MinFreeBytes: 1 << 60}
	if err := ask(t, protocol.DatabaseUpdate, work, full, &protocol.UpdateResult{}); protocol.CodeOf(err) != protocol.DiskFull {
		t.Errorf("want DiskFull, got %v", err)
	}
	var status protocol.Status
	if err := ask(t, protocol.DatabaseStatus, work, protocol.DatabaseParams{Dir: dir}, &status); err != nil || status.Present {
		t.Errorf("there is none: %+v, %v", status, err)
	}
	there := install(t, dir, advisories(t))
	if err := ask(t, protocol.DatabaseStatus, work, protocol.DatabaseParams{Dir: there.Dir}, &status); err != nil || !status.Present || status.Version != there.Version || status.Records != 16 {
		t.Errorf("got %+v, %v", status, err)
	}
	if err := ask(t, protocol.DatabaseDrop, work, protocol.DatabaseParams{Dir: there.Dir}, &struct{}{}); err != nil {
		t.Error(err)
	}
	if err := ask(t, protocol.DatabaseDrop, work, protocol.DatabaseParams{Dir: work}, &struct{}{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(work); err != nil {
		t.Error("what is not a database must not be removed")
	}
	err := ask(t, protocol.Match, work, protocol.MatchParams{SBOM: protocol.Document{Path: file, Format: protocol.SPDX}, DatabaseDir: there.Dir, Out: "x"}, &protocol.MatchResult{})
	if protocol.CodeOf(err) != protocol.DatabaseMissing {
		t.Errorf("want DatabaseMissing, got %v", err)
	}
}

// TestChangedEqualsFull: whoever looks again only at what a new database touches gets what a look at all gives.
func TestChangedEqualsFull(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 3))
	names := []string{"a", "b", "c", "d", "e", "f"}
	some := func() *mini.Advisories {
		a := &mini.Advisories{Schema: "1", BuiltAt: imagetest.Created}
		for i := range 12 {
			a.Advisories = append(a.Advisories, mini.Advisory{
				ID: fmt.Sprintf("CVE-2099-%d", i), Ecosystem: "npm", Package: names[random.IntN(len(names))], Severity: protocol.High,
				Ranges: []mini.Range{{Fixed: fmt.Sprintf("%d.0.0", random.IntN(4))}},
			})
		}
		return a
	}
	rounds := 60
	for range rounds {
		var packages []string
		for _, name := range names[:1+random.IntN(len(names))] {
			packages = append(packages, fmt.Sprintf(`"node_modules/%s":{"version":"%d.0.0"}`, name, random.IntN(4)))
		}
		lock := imagetest.Layer{Files: []imagetest.File{{Name: "package-lock.json", Body: `{"packages":{` + strings.Join(packages, ",") + `}}`}}}
		_, dir, err := look(t, imagetest.Spec{Layers: []imagetest.Layer{lock}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sbom, databases := filepath.Join(dir, "a.spdx.json"), t.TempDir()
		one := some()
		two := &mini.Advisories{Schema: "1", BuiltAt: one.BuiltAt, Advisories: slices.Clone(one.Advisories)}
		for range random.IntN(3) {
			two.Advisories[random.IntN(len(two.Advisories))] = some().Advisories[0]
		}
		from, to := install(t, databases, one), install(t, databases, two)
		_, hashes, _ := compare(t, protocol.DiffParams{FromDir: from.Dir, ToDir: to.Dir})
		before, keys, _ := match(t, sbom, from.Dir)
		after, _, _ := match(t, sbom, to.Dir)
		touched := false
		for _, k := range keys {
			for _, key := range k.Keys {
				touched = touched || slices.Contains(hashes, protocol.KeyHash(key))
			}
		}
		for _, f := range before {
			touched = touched || slices.Contains(hashes, protocol.KeyHash(protocol.Key("vuln", f.VulnerabilityID)))
		}
		if diff := cmp.Diff(before, after); diff != "" && !touched {
			t.Fatalf("findings changed and nothing was touched: %s", diff)
		}
	}
}

func TestAdvisoriesHaveLicences(t *testing.T) {
	for _, a := range advisories(t).Advisories {
		if a.Source == "" || a.Licence == "" || a.URL == "" {
			t.Errorf("%s: source, licence and link must be there", a.ID)
		}
	}
}
