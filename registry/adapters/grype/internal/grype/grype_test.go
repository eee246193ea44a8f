// SPDX-License-Identifier: Apache-2.0

package grype_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/adapters/grype/internal/grype"
	"github.com/scanyard/scanyard/registry/adapters/grype/internal/testdb"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adaptertest"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// TestMain is the adapter where a check of conform starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "adapter" {
		if err := grype.Run(context.Background(), nil, grype.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Now: time.Now}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// of gives the adapter with databases of some kind.
func of(o testdb.Options) adaptertest.Adapter {
	return adaptertest.Adapter{
		Name: grype.Name,
		Run: func(ctx context.Context, in io.Reader, out io.Writer, now func() time.Time) error {
			return grype.Run(ctx, nil, grype.Streams{In: in, Out: out, Err: io.Discard, Now: now})
		},
		Database: func(file string, a *mini.Advisories) error { return testdb.Make(file, a, o) },
	}
}

var adapter = of(testdb.Options{Schema: testdb.Schema})

func TestConforms(t *testing.T) {
	adaptertest.Conforms(t, adapter, "the adapter has no cache of layers")
}

func TestDocumentsAreCanonical(t *testing.T) {
	adaptertest.DocumentsAreCanonical(t, adapter, grype.EngineVersion)
}

func TestManyMatchesAtOnce(t *testing.T) { adaptertest.ManyMatchesAtOnce(t, adapter) }

func TestChangedEqualsFull(t *testing.T) { adaptertest.ChangedEqualsFull(t, adapter) }

func TestPackagesOfAnImage(t *testing.T) {
	s := adaptertest.Open(t, adapter)
	known := adaptertest.Known().Layers
	for name, test := range map[string]struct {
		layers []imagetest.Layer
		os     protocol.OS
		want   []string
	}{
		"DebianWithNode": {known, protocol.OS{Family: "debian", Version: "12.1"}, []string{
			"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12.1&upstream=glibc", "pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12.1",
			"pkg:deb/debian/zlib1g@1%3A1.2.13.dfsg-1?arch=amd64&distro=debian-12.1&upstream=zlib", "pkg:npm/lodash@4.17.20", "pkg:npm/minimist@1.2.5",
		}},
		"Alpine": {[]imagetest.Layer{imagetest.Alpine318()}, protocol.OS{Family: "alpine", Version: "3.18.2"}, []string{
			"pkg:apk/alpine/libcrypto3@3.1.1-r1?arch=x86_64&distro=alpine-3.18.2&upstream=openssl", "pkg:apk/alpine/musl@1.2.4-r0?arch=x86_64&distro=alpine-3.18.2",
		}},
		"Removed": {
			append(slices.Clone(known), imagetest.Remove("app/node_modules/lodash", "var/lib/dpkg/status")), protocol.OS{Family: "debian", Version: "12.1"},
			[]string{"pkg:npm/minimist@1.2.5"},
		},
		"Emptied": {append(slices.Clone(known), imagetest.Layer{Files: []imagetest.File{
			{Name: "app/.wh..wh..opq"}, {Name: "var/lib/dpkg/.wh..wh..opq"},
		}}), protocol.OS{Family: "debian", Version: "12.1"}, nil},
		"NoLayers": {nil, protocol.OS{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := s.SBOM(imagetest.Spec{Layers: test.layers, Created: imagetest.Created})
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(s.Path(result.Files[protocol.SPDX]))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for part := range strings.SplitSeq(string(content), `"referenceLocator":"`) {
				purl, _, _ := strings.Cut(part, `"`)
				if strings.HasPrefix(purl, "pkg:") && !strings.HasPrefix(purl, "pkg:oci/") {
					got = append(got, purl)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if result.OS != test.os || result.Packages != len(test.want) || result.Completeness != protocol.Full {
				t.Errorf("got %+v", result)
			}
		})
	}
}

func TestFilesThatAreTooLargeAreNotLookedInto(t *testing.T) {
	s := adaptertest.Open(t, adapter)
	status := imagetest.DpkgStatus([3]string{"tar", "1", ""})
	image := imagetest.Spec{Created: imagetest.Created, Layers: []imagetest.Layer{{Files: []imagetest.File{
		{Name: "etc/os-release", Body: "ID=debian\nVERSION_ID=\"12\"\n"}, {Name: "var/lib/dpkg/status", Body: status},
	}}}}
	result, err := s.SBOM(image, func(p *protocol.SBOMParams) { p.Limits.FileBytes = int64(len(status)) - 1 })
	if err != nil || result.Packages != 0 || len(result.Warnings) != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
	if result, err = s.SBOM(image, func(p *protocol.SBOMParams) { p.Limits.FileBytes = int64(len(status)) }); err != nil || result.Packages != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

func summary(findings []protocol.Finding) []string {
	var list []string
	for _, f := range findings {
		list = append(list, fmt.Sprintf("%s %s %s %s %s %v %s", f.Severity, f.VulnerabilityID, f.Package.Name, f.Class, f.Target, f.FixedVersions, f.Status))
	}
	return list
}

func TestFindingsOfAKnownDatabase(t *testing.T) {
	s := adaptertest.Open(t, adapter)
	image, err := imagetest.Build(adaptertest.Known())
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.SBOM(adaptertest.Known())
	if err != nil {
		t.Fatal(err)
	}
	database := s.Install(adaptertest.Advisories(t))
	s.Layers = image.Layers
	findings, keys, err := s.Match(s.Path(made.Files[protocol.SPDX]), protocol.SPDX, database.Dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	// Grype itself leaves CVE-2023-45853 of zlib out, which Debian does not build.
	if diff := cmp.Diff([]string{
		"CRITICAL CVE-2021-44906 minimist lang-pkgs app/node_modules/minimist/package.json [0.2.4 1.2.6] fixed",
		"HIGH CVE-2021-23337 lodash lang-pkgs app/node_modules/lodash/package.json [4.17.21] fixed",
		"HIGH CVE-2024-2961 libc6 os-pkgs os [2.36-9+deb12u6] fixed",
		"LOW CVE-2005-2541 tar os-pkgs os [] affected",
	}, summary(findings)); diff != "" {
		t.Error(diff)
	}
	whole := map[string]protocol.Finding{}
	for _, f := range findings {
		whole[f.VulnerabilityID] = f
	}
	libc := whole["CVE-2024-2961"]
	if libc.Layer == nil || libc.Layer.Index != 0 || libc.Package.SourceName != "glibc" || libc.SeveritySource != "debian" || libc.Description == "" ||
		libc.PrimaryURL == "" || len(libc.References) != 1 || libc.PublishedAt == "" || libc.Package.Type != "deb" {
		t.Errorf("got %+v", libc)
	}
	if lodash := whole["CVE-2021-23337"]; lodash.Layer == nil || lodash.Layer.Index != 1 || lodash.Package.Type != "npm" || len(lodash.CVSS) != 1 ||
		lodash.Score != 7.2 || !slices.Equal(lodash.Aliases, []string{"GHSA-35jh-r3h4-6jhm"}) || !slices.Equal(lodash.CWEs, []string{"CWE-94"}) {
		t.Errorf("got %+v", lodash)
	}
	if diff := cmp.Diff([]protocol.PackageKeys{
		{
			PURL: "pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12.1&upstream=glibc",
			Keys: []string{"debian|glibc", "debian|libc6", "deb|glibc", "deb|libc6"},
		},
		{PURL: "pkg:deb/debian/tar@1.34%2Bdfsg-1.2?arch=amd64&distro=debian-12.1", Keys: []string{"debian|tar", "deb|tar"}},
		{
			PURL: "pkg:deb/debian/zlib1g@1%3A1.2.13.dfsg-1?arch=amd64&distro=debian-12.1&upstream=zlib",
			Keys: []string{"debian|zlib", "debian|zlib1g", "deb|zlib", "deb|zlib1g"},
		},
		{PURL: "pkg:npm/lodash@4.17.20", Keys: []string{"javascript|lodash", "npm|lodash"}},
		{PURL: "pkg:npm/minimist@1.2.5", Keys: []string{"javascript|minimist", "npm|minimist"}},
	}, keys); diff != "" {
		t.Error(diff)
	}
	again, _, err := s.Match(s.Path(made.Files[protocol.CycloneDX]), protocol.CycloneDX, database.Dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(findings, again); diff != "" {
		t.Errorf("the CycloneDX document has other findings: %s", diff)
	}
}

func TestADistributionWithoutFixesIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		end             time.Time
		open, abandoned string
	}{
		"Ended":     {imagetest.Created.AddDate(0, -1, 0), protocol.StatusEndOfLife, protocol.StatusEndOfLife},
		"Supported": {imagetest.Created.AddDate(1, 0, 0), protocol.StatusAffected, protocol.StatusWillNotFix},
	} {
		t.Run(name, func(t *testing.T) {
			s := adaptertest.Open(t, of(testdb.Options{Schema: testdb.Schema, Ends: map[string]time.Time{"debian 12": test.end}}))
			made, err := s.SBOM(adaptertest.Known())
			if err != nil {
				t.Fatal(err)
			}
			all := adaptertest.Advisories(t)
			all.Advisories = append(all.Advisories, mini.Advisory{
				ID: "CVE-2099-1", Ecosystem: "debian", Release: "12", Package: "tar", Severity: "LOW", Status: protocol.StatusWillNotFix,
			})
			findings, _, err := s.Match(s.Path(made.Files[protocol.SPDX]), protocol.SPDX, s.Install(all).Dir, "a")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, f := range findings {
				got[f.VulnerabilityID] = f.Status
			}
			if got["CVE-2005-2541"] != test.open || got["CVE-2099-1"] != test.abandoned || got["CVE-2024-2961"] != protocol.StatusFixed || got["CVE-2021-23337"] != protocol.StatusFixed {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestADatabaseOfAnotherSchemaIsRefused(t *testing.T) {
	s := adaptertest.Open(t, adapter)
	file := filepath.Join(t.TempDir(), "database")
	if err := testdb.Make(file, adaptertest.Advisories(t), testdb.Options{Schema: testdb.Schema + 1}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "databases")
	err := s.Ask(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: dir, Source: protocol.Source{File: file}}, &protocol.UpdateResult{})
	if protocol.CodeOf(err) != protocol.DatabaseSchema {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestDiffNamesWhatHasChanged(t *testing.T) {
	s := adaptertest.Open(t, adapter)
	all := adaptertest.Advisories(t)
	changed := &mini.Advisories{BuiltAt: all.BuiltAt, Advisories: slices.Clone(all.Advisories)}
	at := slices.IndexFunc(all.Advisories, func(a mini.Advisory) bool { return a.Ecosystem == "npm" && a.Package == "lodash" })
	changed.Advisories[at].Ranges = []mini.Range{{Fixed: "9.9.9"}}
	from := s.Install(all)
	if result, hashes := s.Compare(from.Dir, s.Install(changed).Dir); !result.Comparable || result.Changed != 1 || hashes[0] != protocol.KeyHash("npm|lodash") {
		t.Errorf("got %+v %v", result, hashes)
	}
	changed.Advisories[at] = all.Advisories[at]
	changed.Advisories[at].Title = "another title"
	if result, hashes := s.Compare(from.Dir, s.Install(changed).Dir); result.Changed != 1 || hashes[0] != protocol.KeyHash(protocol.Key("vuln", all.Advisories[at].ID)) {
		t.Errorf("got %+v %v", result, hashes)
	}
	changed.Advisories = append(changed.Advisories, mini.Advisory{ID: "CVE-2099-1", Ecosystem: "debian", Release: "99", Package: "a", Severity: "LOW"})
	if result, _ := s.Compare(from.Dir, s.Install(changed).Dir); result.Comparable {
		t.Error("another distribution concerns all packages")
	}
}

func TestVersionsAreThoseOfTheModules(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{"github.com/anchore/grype": grype.EngineVersion, "github.com/anchore/syft": grype.SyftVersion} {
		if !bytes.Contains(text, []byte("\t"+module+" v"+version+"\n")) {
			t.Errorf("go.mod has another version of %s than %s", module, version)
		}
	}
}
