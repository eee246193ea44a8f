// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

func content(t *testing.T) Content {
	t.Helper()
	info := &buildinfo.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "tool"},
		Deps: []*debug.Module{
			{Path: "github.com/acme/Thing/v2", Version: "v2.0.1"},
			{Path: "example.com/ours", Version: "(devel)"},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
		},
	}
	return Content{
		Name: "scanner-x", Version: "1", Description: "d", Licenses: "MIT AND GPL-2.0-only",
		Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Distribution: "debian-13",
		Packages: []recipe.Package{{Name: "nmap", Version: "1:7.95+dfsg-3", Arch: "amd64", SHA256: strings.Repeat("ab", 32)}},
		Programs: []Program{{"/usr/bin/a", info}, {"/usr/bin/b", info}},
		Base:     &recipe.BaseLock{Image: "ghcr.io/acme/thing:1.2", Digest: "sha256:" + strings.Repeat("cd", 32)},
	}
}

func TestDocument(t *testing.T) {
	raw, err := Write(content(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Write(content(t))
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("a second document differs, %v", err)
	}
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Timestamp != "2026-11-21T00:00:00Z" || bom.Metadata.Component.Name != "scanner-x" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Errorf("head %+v %s", bom.Metadata, bom.SerialNumber)
	}
	refs := map[string]bool{"image": true}
	var purls []string
	for _, c := range *bom.Components {
		if refs[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		refs[c.BOMRef] = true
		purls = append(purls, c.PackageURL)
	}
	for _, want := range []string{
		"pkg:deb/debian/nmap@1:7.95%2Bdfsg-3?arch=amd64&distro=debian-13",
		"pkg:oci/thing@sha256:" + strings.Repeat("cd", 32) + "?repository_url=ghcr.io%2Facme%2Fthing&tag=1.2",
		"pkg:golang/github.com/acme/Thing/v2@v2.0.1",
		"pkg:golang/example.com/ours",
		"pkg:golang/example.com/fork@v1.0.1",
		"pkg:golang/std@",
	} {
		if !slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, want) }) {
			t.Errorf("there is no %s in %s", want, strings.Join(purls, "\n"))
		}
	}
	for _, d := range *bom.Dependencies {
		for _, to := range *d.Dependencies {
			if !refs[to] || !refs[d.Ref] {
				t.Errorf("%s depends on %s, and one of them is not there", d.Ref, to)
			}
		}
	}
	want := []cdx.Composition{{Aggregate: cdx.CompositionAggregateIncomplete, Assemblies: &[]cdx.BOMReference{"base"}}}
	if diff := cmp.Diff(&want, bom.Compositions); diff != "" {
		t.Errorf("nobody says that the base is not listed: %s", diff)
	}
}

func TestOtherContentHasAnotherSerialNumber(t *testing.T) {
	serials := map[string]bool{}
	for _, version := range []string{"1", "2"} {
		c := content(t)
		c.Version = version
		raw, err := Write(c)
		if err != nil {
			t.Fatal(err)
		}
		bom := &cdx.BOM{}
		if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
			t.Fatal(err)
		}
		serials[bom.SerialNumber] = true
	}
	if len(serials) != 2 {
		t.Errorf("serial numbers %v", serials)
	}
}
