// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"

	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

// MediaType is the media type of the documents.
const MediaType = "application/vnd.cyclonedx+json"

// Content is what an image, or an archive, holds.
type Content struct {
	Name, Version, Description, Licenses string
	Date                                 time.Time
	// Distribution is the Debian release, as debian-13.
	Distribution string
	Packages     []recipe.Package
	Programs     []Program
	// Base is nil for an image without one.
	Base *recipe.BaseLock
	// Archive says that the content is that of an archive with programs and not that of an image.
	Archive bool
}

// whole is what all of the content is in a document: its reference and its type.
func (c Content) whole() (string, cdx.ComponentType) {
	if c.Archive {
		return "archive", cdx.ComponentTypeApplication
	}
	return "image", cdx.ComponentTypeContainer
}

// Program is a Go program in the image.
type Program struct {
	Path string
	Info *buildinfo.BuildInfo
}

// Write renders the document.
func Write(c Content) ([]byte, error) {
	bom := cdx.NewBOM()
	ref, kind := c.whole()
	bom.Metadata = &cdx.Metadata{
		Timestamp: c.Date.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: ref, Type: kind, Name: c.Name, Version: c.Version, Description: c.Description,
			Licenses: &cdx.Licenses{{Expression: c.Licenses}},
		},
	}
	components, depends := []cdx.Component{}, []cdx.Dependency{}
	var top []string
	if c.Base != nil {
		components = append(components, baseComponent(*c.Base))
		top = append(top, "base")
		incomplete := []cdx.Composition{{Aggregate: cdx.CompositionAggregateIncomplete, Assemblies: &[]cdx.BOMReference{"base"}}}
		bom.Compositions = &incomplete
	}
	for _, p := range c.Packages {
		d := debianComponent(c.Distribution, p)
		components = append(components, d)
		top = append(top, d.BOMRef)
	}
	known := map[string]bool{}
	for _, p := range c.Programs {
		top = append(top, "program:"+p.Path)
		components = append(components, cdx.Component{BOMRef: "program:" + p.Path, Type: cdx.ComponentTypeApplication, Name: path.Base(p.Path)})
		var refs []string
		for _, m := range modules(p.Info) {
			if !known[m.BOMRef] {
				known[m.BOMRef] = true
				components = append(components, m)
			}
			refs = append(refs, m.BOMRef)
		}
		depends = append(depends, cdx.Dependency{Ref: "program:" + p.Path, Dependencies: &refs})
	}
	depends = append(depends, cdx.Dependency{Ref: ref, Dependencies: &top})
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.SortFunc(depends, func(a, b cdx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	bom.Components, bom.Dependencies = &components, &depends
	first, err := encode(bom)
	if err != nil {
		return nil, err
	}
	bom.SerialNumber = serial(first)
	return encode(bom)
}

func encode(bom *cdx.BOM) ([]byte, error) {
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write SBOM: %w", err)
	}
	return b.Bytes(), nil
}

// serial is a UUID of version 8: the bits are a hash of the content.
func serial(content []byte) string {
	h := sha256.Sum256(content)
	u := h[:16]
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func baseComponent(b recipe.BaseLock) cdx.Component {
	repository, tag, _ := strings.Cut(path.Base(b.Image), ":")
	q := packageurl.QualifiersFromMap(map[string]string{"repository_url": path.Dir(b.Image) + "/" + repository, "tag": tag})
	purl := packageurl.NewPackageURL(packageurl.TypeOCI, "", repository, b.Digest, q, "")
	return cdx.Component{
		BOMRef: "base", Type: cdx.ComponentTypeContainer, Name: b.Image, Version: b.Digest, PackageURL: purl.ToString(),
		Description: "The vendor's image. What is in it is not listed here.",
	}
}

func debianComponent(distribution string, p recipe.Package) cdx.Component {
	q := packageurl.QualifiersFromMap(map[string]string{"arch": p.Arch, "distro": distribution})
	purl := packageurl.NewPackageURL(packageurl.TypeDebian, "debian", p.Name, p.Version, q, "").ToString()
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: purl,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
	}
}

// modules are those that the linker put into a program, and the standard library, which has vulnerabilities too.
func modules(info *buildinfo.BuildInfo) []cdx.Component {
	all := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		// The module around a tool is made for the build and holds nothing.
		if strings.Contains(m.Path, "/") {
			all = append(all, module(m.Path, m.Version))
		}
	}
	return all
}

func module(name, version string) cdx.Component {
	if version == "(devel)" {
		version = "" // a module of the workspace: its version is the image's
	}
	purl := packageurl.NewPackageURL(packageurl.TypeGolang, path.Dir(name), path.Base(name), version, nil, "")
	if path.Dir(name) == "." {
		purl.Namespace = ""
	}
	s := purl.ToString()
	return cdx.Component{BOMRef: s, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: s}
}
