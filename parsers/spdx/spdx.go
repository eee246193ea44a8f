// SPDX-License-Identifier: Apache-2.0

package spdx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/tally"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const category = "SBOM"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "spdx",
		Summary:    "SPDX bill of materials, JSON",
		Kinds:      kinds(),
		Reach:      "packages and files; nothing, if there is only the package that the document is about",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text = sdk.Text | sdk.Optional
	return []sdk.Kind{{
		Category: category, When: "always, once", Severities: []string{finding.Informational}, Identity: []string{"name"},
		Attributes: []sdk.Attribute{
			{Name: "format", Type: sdk.Text, Doc: "SPDX"},
			{Name: "spec_version", Type: text},
			{Name: "component", Type: text, Doc: "the name of the document"},
			{Name: "tools", Type: sdk.List | sdk.Optional, Doc: "what has made the document"},
			{Name: "components", Type: sdk.Number, Doc: "how many packages there are"},
			{Name: "components_by_type", Type: sdk.Map, Doc: "library, application, … to how many"},
			{Name: "components_by_ecosystem", Type: sdk.Map, Doc: "npm, deb, … to how many, by package URL"},
			{Name: "components_by_license", Type: sdk.Map | sdk.Optional, Doc: "licence to how many; not of version 3"},
			{Name: "components_without_license", Type: sdk.Number | sdk.Optional, Doc: "not of version 3"},
			{Name: "files", Type: sdk.Number},
			{Name: "relationships", Type: sdk.Number},
		},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	var d document
	err := jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error { return d.member(ctx, r, key) })
	})
	if err != nil {
		return err
	}
	if d.version == "" {
		return errors.New(`is not an SPDX document: has neither an spdxVersion nor a "@graph" with a specVersion`)
	}
	d.reportReach(in)
	return emit(d.finding())
}

// reportReach reports what was reached. Tools list what the document is about as a package, also if they have found nothing in it.
func (d *document) reportReach(in *sdk.Input) {
	switch {
	case d.packages > 1 || d.files > 0:
		in.Reached("%s and %s", sdk.Counted(d.packages, "package", "packages"), sdk.Counted(d.files, "file", "files"))
	case d.packages == 1:
		in.ReachUnknown("the document lists one package, which may be what it is about")
	default:
		in.NothingReached("0 packages and 0 files are listed")
	}
}

// document is what is counted.
type document struct {
	version, name                          string
	tools                                  []string
	packages, unlicensed, files, relations int
	byType, byEcosystem, byLicense         tally.Tally
	graph                                  bool // version 3
}

func (d *document) member(ctx context.Context, r *jsonstream.Reader, key string) error {
	switch key {
	case "spdxVersion", "name", "creationInfo":
		v, err := r.Value()
		if err != nil {
			return err
		}
		text, _ := v.(string)
		switch key {
		case "spdxVersion":
			d.version = strings.TrimPrefix(text, "SPDX-")
		case "name":
			d.name = text
		default:
			o, _ := v.(finding.Object)
			for _, creator := range jsondoc.Texts(o, "creators") {
				if tool, ok := strings.CutPrefix(creator, "Tool: "); ok {
					d.addTool(tool)
				}
			}
		}
	case "packages":
		return jsondoc.Elements(ctx, r, "package", d.addPackage)
	case "files":
		return jsondoc.Elements(ctx, r, "file", func(finding.Object) error {
			d.files++
			return nil
		})
	case "relationships":
		return jsondoc.Elements(ctx, r, "relationship", func(finding.Object) error {
			d.relations++
			return nil
		})
	case "@graph":
		d.graph = true
		return jsondoc.Elements(ctx, r, "element", d.addElement)
	}
	return nil
}

const (
	maxTools = 20
	unknown  = "(unknown)"
)

func (d *document) addTool(tool string) {
	if len(d.tools) < maxTools {
		d.tools = append(d.tools, tool)
	}
}

func (d *document) addPackage(o finding.Object) error {
	purl := ""
	for _, reference := range jsondoc.Objects(o, "externalRefs") {
		if jsondoc.Text(reference, "referenceType") == "purl" && purl == "" {
			purl = jsondoc.Text(reference, "referenceLocator")
		}
	}
	d.count(jsondoc.Text(o, "primaryPackagePurpose"), purl)
	for _, key := range []string{"licenseConcluded", "licenseDeclared"} {
		if license := jsondoc.Text(o, key); license != "" && license != "NONE" && license != "NOASSERTION" {
			d.byLicense.Add(license)
			return nil
		}
	}
	d.unlicensed++
	return nil
}

func (d *document) count(purpose, purl string) {
	d.packages++
	purpose = strings.ReplaceAll(strings.ToLower(purpose), "_", "-")
	d.byType.Add(cmp.Or(purpose, unknown))
	d.byEcosystem.Add(tally.Ecosystem(purl))
}

// addElement takes one element of version 3, where all of them stand in one list.
func (d *document) addElement(o finding.Object) error {
	switch cmp.Or(jsondoc.Text(o, "type"), jsondoc.Text(o, "@type")) {
	case "CreationInfo":
		d.version = cmp.Or(d.version, jsondoc.Text(o, "specVersion"))
	case "SpdxDocument":
		d.name = jsondoc.Text(o, "name")
	case "Tool":
		if name := jsondoc.Text(o, "name"); name != "" {
			d.addTool(name)
		}
	case "software_Package", "ai_AIPackage", "dataset_DatasetPackage":
		purl := jsondoc.Text(o, "software_packageUrl")
		for _, id := range jsondoc.Objects(o, "externalIdentifier") {
			if jsondoc.Text(id, "externalIdentifierType") == "packageUrl" {
				purl = cmp.Or(purl, jsondoc.Text(id, "identifier"))
			}
		}
		d.count(jsondoc.Text(o, "software_primaryPurpose"), purl)
	case "software_File":
		d.files++
	case "Relationship", "LifecycleScopedRelationship":
		d.relations++
	}
	return nil
}

func (d *document) finding() *finding.Finding {
	name := cmp.Or(d.name, "an unnamed document")
	f := &finding.Finding{
		Name:        finding.String("SBOM for " + name),
		Description: finding.String(fmt.Sprintf("Packages in the bill of materials %s: %d.", name, d.packages)),
		Category:    finding.String(category),
		OSILayer:    finding.String("APPLICATION"),
		Severity:    finding.String(finding.Informational),
		Attributes:  finding.Object{{Key: "format", Value: "SPDX"}},
	}
	if d.name != "" {
		f.Location = finding.String(d.name)
	}
	a := &f.Attributes
	jsondoc.Set(a, "spec_version", d.version)
	jsondoc.Set(a, "component", d.name)
	jsondoc.Set(a, "tools", d.tools)
	*a = append(*a,
		finding.Member{Key: "components", Value: d.packages},
		finding.Member{Key: "components_by_type", Value: d.byType.Object()},
		finding.Member{Key: "components_by_ecosystem", Value: d.byEcosystem.Object()},
	)
	if !d.graph {
		*a = append(*a,
			finding.Member{Key: "components_by_license", Value: d.byLicense.Object()},
			finding.Member{Key: "components_without_license", Value: d.unlicensed},
		)
	}
	*a = append(*a, finding.Member{Key: "files", Value: d.files}, finding.Member{Key: "relationships", Value: d.relations})
	return f
}
