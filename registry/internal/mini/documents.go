// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
)

// bill is what documents are made of. Equal bills have equal documents.
type bill struct {
	digest, created string
	os              protocol.OS
	packages        []item
}

type dict = map[string]any

const (
	spdxImage = "SPDXRef-Image"
	spdxOS    = "SPDXRef-OperatingSystem"
	noAnswer  = "NOASSERTION"
	// Comments of annotations tell what SPDX has no place for.
	commentLayer  = "LayerDiffID: "
	commentDigest = "LayerDigest: "
	commentIndex  = "LayerIndex: "
	commentPath   = "PkgPath: "
	commentType   = "PkgType: "
	// builtFrom opens the source of a package of a distribution.
	builtFrom = "built package from: "
)

// encode writes JSON with the members in order of their names.
func encode(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(document)
}

// spdxID names a package by all that tells it from others.
func (b bill) spdxID(i item) string {
	return fmt.Sprintf("SPDXRef-Package-%016x", protocol.KeyHash(strings.Join([]string{i.purl(b.os), i.Path, i.From.Digest}, "\x00")))
}

// spdx is the bill as SPDX 2.3.
func (b bill) spdx() any {
	annotate := func(comment string) dict {
		return dict{"annotationDate": b.created, "annotationType": "OTHER", "annotator": "Tool: " + Name + "-" + version, "comment": comment}
	}
	relate := func(from, kind, to string) dict {
		return dict{"relatedSpdxElement": to, "relationshipType": kind, "spdxElementId": from}
	}
	image := dict{
		"SPDXID": spdxImage, "name": b.digest, "downloadLocation": noAnswer, "filesAnalyzed": false, "primaryPackagePurpose": "CONTAINER",
		"versionInfo": b.digest,
	}
	packages := []dict{image}
	relations := []dict{relate("SPDXRef-DOCUMENT", "DESCRIBES", spdxImage)}
	if b.os.Family != "" {
		packages = append(packages, dict{
			"SPDXID": spdxOS, "name": b.os.Family, "versionInfo": b.os.Version, "downloadLocation": noAnswer, "filesAnalyzed": false,
			"primaryPackagePurpose": "OPERATING-SYSTEM",
		})
		relations = append(relations, relate(spdxImage, "CONTAINS", spdxOS))
	}
	for _, p := range b.packages {
		id := b.spdxID(p)
		entry := dict{
			"SPDXID": id, "name": p.Name, "versionInfo": p.Version, "downloadLocation": noAnswer, "filesAnalyzed": false, "copyrightText": noAnswer,
			"licenseConcluded": noAnswer, "licenseDeclared": noAnswer, "primaryPackagePurpose": "LIBRARY", "supplier": noAnswer,
			"externalRefs": []dict{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": p.purl(b.os)}},
			"annotations": []dict{
				annotate(commentType + p.Type), annotate(commentPath + p.Path), annotate(commentLayer + p.From.DiffID),
				annotate(commentDigest + p.From.Digest), annotate(commentIndex + strconv.Itoa(p.From.Index)),
			},
		}
		if p.Source != "" {
			source := p.SourceVersion
			if source == "" {
				source = p.Version
			}
			entry["sourceInfo"] = builtFrom + p.Source + " " + source
		}
		packages = append(packages, entry)
		relations = append(relations, relate(spdxImage, "CONTAINS", id))
	}
	slices.SortFunc(packages, func(x, y dict) int { return strings.Compare(fmt.Sprint(x["SPDXID"]), fmt.Sprint(y["SPDXID"])) })
	slices.SortFunc(relations, func(x, y dict) int {
		return strings.Compare(fmt.Sprint(x["relatedSpdxElement"]), fmt.Sprint(y["relatedSpdxElement"]))
	})
	return dict{
		"SPDXID": "SPDXRef-DOCUMENT", "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "name": b.digest,
		"documentNamespace": report.Namespace(b.digest, protocol.Engine{Name: Name, Version: version}),
		"creationInfo":      dict{"created": b.created, "creators": []string{"Organization: Scanyard", "Tool: " + Name + "-" + version}},
		"packages":          packages, "relationships": relations,
	}
}

// cyclonedx is the bill as CycloneDX 1.6.
func (b bill) cyclonedx() any {
	components := []dict{}
	refs := []string{}
	if b.os.Family != "" {
		component := dict{"bom-ref": spdxOS, "type": "operating-system", "name": b.os.Family}
		if b.os.Version != "" {
			component["version"] = b.os.Version
		}
		components, refs = append(components, component), append(refs, spdxOS)
	}
	for _, p := range b.packages {
		ref := b.spdxID(p)
		properties := []dict{{"name": "scanyard:path", "value": p.Path}, {"name": "scanyard:layerDiffID", "value": p.From.DiffID}}
		components = append(components, dict{
			"bom-ref": ref, "type": "library", "name": p.Name, "version": p.Version, "purl": p.purl(b.os), "properties": properties,
		})
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	slices.SortFunc(components, func(x, y dict) int { return strings.Compare(fmt.Sprint(x["bom-ref"]), fmt.Sprint(y["bom-ref"])) })
	return dict{
		"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": dict{
			"timestamp": b.created, "tools": dict{"components": []dict{{"type": "application", "name": Name, "version": version}}},
			"component": dict{"bom-ref": spdxImage, "type": "container", "name": b.digest},
		},
		"components": components, "dependencies": []dict{{"ref": spdxImage, "dependsOn": refs}},
	}
}

// document is what is read back of an SBOM.
type spdxDocument struct {
	SPDXVersion string        `json:"spdxVersion"`
	Packages    []spdxPackage `json:"packages"`
}

type spdxPackage struct {
	Name         string `json:"name"`
	Version      string `json:"versionInfo"`
	Purpose      string `json:"primaryPackagePurpose"`
	SourceInfo   string `json:"sourceInfo"`
	ExternalRefs []struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	} `json:"externalRefs"`
	Annotations []struct {
		Comment string `json:"comment"`
	} `json:"annotations"`
}

// read is a package of an SBOM with its own URL, and the distribution.
type read struct {
	item

	PURL string
}

// maxSBOM is the most that a document may have.
const maxSBOM = 256 << 20

// readSPDX gives the packages of a document, and the distribution that the document tells.
func readSPDX(name string) ([]read, protocol.OS, error) {
	var system protocol.OS
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() > maxSBOM {
		return nil, system, protocol.Errorf(protocol.InvalidInput, "the SBOM is not there, or has more than 256 MiB")
	}
	if err != nil {
		return nil, system, fmt.Errorf("read SBOM: %w", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, system, fmt.Errorf("read SBOM: %w", err)
	}
	var d spdxDocument
	if err := json.Unmarshal(text, &d); err != nil || !strings.HasPrefix(d.SPDXVersion, "SPDX-2.") {
		return nil, system, protocol.Errorf(protocol.InvalidInput, "the SBOM is not an SPDX 2 in JSON")
	}
	var list []read
	for _, p := range d.Packages {
		if p.Purpose == "OPERATING-SYSTEM" {
			system = protocol.OS{Family: p.Name, Version: p.Version}
		}
		if r, is := p.read(); is {
			list = append(list, r)
		}
	}
	return list, system, nil
}

// read makes a package of an entry; false: the entry is none.
func (p spdxPackage) read() (read, bool) {
	r := read{item: item{pkg: pkg{Name: p.Name, Version: p.Version}}}
	for _, ref := range p.ExternalRefs {
		if ref.Type == "purl" {
			r.PURL = ref.Locator
			r.Type, _, _ = strings.Cut(strings.TrimPrefix(ref.Locator, "pkg:"), "/")
		}
	}
	if rest, has := strings.CutPrefix(p.SourceInfo, builtFrom); has {
		r.Source, r.SourceVersion, _ = strings.Cut(rest, " ")
	}
	for _, a := range p.Annotations {
		for prefix, field := range map[string]*string{commentPath: &r.Path, commentLayer: &r.From.DiffID, commentDigest: &r.From.Digest} {
			if value, has := strings.CutPrefix(a.Comment, prefix); has {
				*field = value
			}
		}
		if value, has := strings.CutPrefix(a.Comment, commentIndex); has {
			if n, err := strconv.Atoi(value); err == nil {
				r.From.Index = n
			}
		}
	}
	return r, r.PURL != "" && p.Name != "" && p.Version != ""
}
