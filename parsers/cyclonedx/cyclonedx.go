// SPDX-License-Identifier: Apache-2.0

package cyclonedx

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/internal/tally"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	categorySBOM          = "SBOM"
	categoryVulnerability = "Vulnerability"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "cyclonedx",
		Summary:    "CycloneDX bill of materials, JSON",
		Kinds:      kinds(),
		Reach:      "components and vulnerabilities; nothing, if the document is about something but lists none",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list, number = sdk.Text | sdk.Optional, sdk.List | sdk.Optional, sdk.Number | sdk.Optional
	return []sdk.Kind{
		{
			Category: categorySBOM, When: "always, once", Severities: []string{finding.Informational}, Identity: []string{"name"},
			Attributes: []sdk.Attribute{
				{Name: "format", Type: sdk.Text, Doc: "CycloneDX"},
				{Name: "spec_version", Type: text},
				{Name: "component", Type: text, Doc: "what the document is about"},
				{Name: "version", Type: text, Doc: "of the component"},
				{Name: "purl", Type: text, Doc: "of the component"},
				{Name: "tools", Type: list, Doc: "what has made the document"},
				{Name: "components", Type: sdk.Number, Doc: "how many there are, nested ones too"},
				{Name: "components_by_type", Type: sdk.Map, Doc: "library, application, … to how many"},
				{Name: "components_by_ecosystem", Type: sdk.Map, Doc: "npm, deb, … to how many, by package URL"},
				{Name: "components_by_license", Type: sdk.Map, Doc: "licence to how many"},
				{Name: "components_without_license", Type: sdk.Number},
				{Name: "services", Type: sdk.Number},
				{Name: "vulnerabilities", Type: sdk.Number, Doc: "how many the document lists, analysed ones too"},
			},
		},
		{
			Category: categoryVulnerability, Severities: severity.All(),
			When:     "a vulnerability that the document lists; the severity is the highest of its ratings",
			Identity: []string{"attributes.vulnerability_id", "attributes.packages"},
			Attributes: []sdk.Attribute{
				{Name: "vulnerability_id", Type: sdk.Text},
				{Name: "aliases", Type: list},
				{Name: "affects", Type: list, Doc: "package URLs of the components, or their references"},
				{Name: "packages", Type: list, Doc: "names of the components"},
				{Name: "installed_versions", Type: list, Doc: "of the components"},
				{Name: "original_severity", Type: text, Doc: "the word that counted"},
				{Name: "cvss_score", Type: number, Doc: "the highest"},
				{Name: "cvss_vector", Type: text, Doc: "that of the score"},
				{Name: "source", Type: text, Doc: "who has published it"},
				{Name: "analysis_state", Type: text, Doc: "in_triage, exploitable"},
			},
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	b := bom{limit: in.Limits.MaxHeld, affected: map[string]component{}}
	if err := b.read(ctx, in); err != nil {
		return err
	}
	b.reportReach(in)
	if err := emit(b.finding()); err != nil {
		return err
	}
	if b.vulnerabilities == 0 {
		return nil
	}
	if err := b.readNames(ctx, in); err != nil {
		return err
	}
	return eachMember(ctx, in, func(r *jsonstream.Reader, key string) error {
		if key != "vulnerabilities" {
			return nil
		}
		return jsondoc.Elements(ctx, r, "vulnerability", func(o finding.Object) error {
			f, err := b.vulnerability(o)
			if f == nil || err != nil {
				return err
			}
			return emit(f)
		})
	})
}

// reportReach reports what was reached.
func (b *bom) reportReach(in *sdk.Input) {
	switch about := cmp.Or(b.about.name, b.about.purl); {
	case b.components > 0:
		in.Reached("%s", sdk.Counted(b.components, "component", "components"))
	case b.services > 0 || b.vulnerabilities > 0:
		in.Reached("%s and %s", sdk.Counted(b.services, "service", "services"),
			sdk.Counted(b.vulnerabilities, "vulnerability", "vulnerabilities"))
	case about != "":
		in.ReachUnknown("the document is about %.200s, but lists no components of it", about)
	default:
		in.NothingReached("0 components are listed, and nothing that the document is about")
	}
}

// component is what is kept of one.
type component struct{ name, version, purl string }

func componentOf(o finding.Object) component {
	name := jsondoc.Text(o, "name")
	if group := jsondoc.Text(o, "group"); group != "" && name != "" {
		name = group + "/" + name
	}
	return component{name: name, version: jsondoc.Text(o, "version"), purl: jsondoc.Text(o, "purl")}
}

// bom is what a document says as a whole.
type bom struct {
	specVersion                                       string
	about                                             component
	aboutRef                                          string
	tools                                             []string
	components, unlicensed, services, vulnerabilities int
	byType, byEcosystem, byLicense                    tally.Tally
	limit, held                                       int
	affected                                          map[string]component // by bom-ref
}

func eachMember(ctx context.Context, in *sdk.Input, member func(r *jsonstream.Reader, key string) error) error {
	return jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error { return member(r, key) })
	})
}

func (b *bom) read(ctx context.Context, in *sdk.Input) error {
	format := ""
	err := eachMember(ctx, in, func(r *jsonstream.Reader, key string) error {
		switch key {
		case "bomFormat", "specVersion", "metadata":
			v, err := r.Value()
			if err != nil {
				return err
			}
			text, _ := v.(string)
			switch key {
			case "bomFormat":
				format = text
			case "specVersion":
				b.specVersion = text
			default:
				o, _ := v.(finding.Object)
				b.readMetadata(o)
			}
		case "components":
			return jsondoc.Elements(ctx, r, "component", b.count)
		case "services":
			return jsondoc.Elements(ctx, r, "service", func(finding.Object) error {
				b.services++
				return nil
			})
		case "vulnerabilities":
			return jsondoc.Elements(ctx, r, "vulnerability", b.addAffected)
		}
		return nil
	})
	if err == nil && format != "CycloneDX" {
		err = errors.New(`is not a CycloneDX document: its bomFormat is not "CycloneDX"`)
	}
	return err
}

// maxTools is more than any document names.
const maxTools = 20

func (b *bom) readMetadata(metadata finding.Object) {
	about := jsondoc.Object(metadata, "component")
	b.about = componentOf(about)
	b.aboutRef = jsondoc.Text(about, "bom-ref")
	tools := jsondoc.Objects(metadata, "tools")
	if tools == nil { // since version 1.5 they are components
		tools = jsondoc.Objects(metadata, "tools", "components")
	}
	for _, tool := range tools {
		text := jsondoc.Text(tool, "name")
		if version := jsondoc.Text(tool, "version"); text != "" && version != "" {
			text += " " + version
		}
		if text != "" && len(b.tools) < maxTools {
			b.tools = append(b.tools, text)
		}
	}
}

// count counts a component with all that are inside of it.
func (b *bom) count(o finding.Object) error {
	b.components++
	b.byType.Add(cmp.Or(jsondoc.Text(o, "type"), "(unknown)"))
	b.byEcosystem.Add(tally.Ecosystem(jsondoc.Text(o, "purl")))
	licensed := false
	for _, choice := range jsondoc.Objects(o, "licenses") {
		name := cmp.Or(jsondoc.Text(choice, "expression"), jsondoc.Text(choice, "license", "id"), jsondoc.Text(choice, "license", "name"))
		if name != "" {
			licensed = true
			b.byLicense.Add(name)
		}
	}
	if !licensed {
		b.unlicensed++
	}
	for _, inner := range jsondoc.Objects(o, "components") {
		if err := b.count(inner); err != nil {
			return err
		}
	}
	return nil
}

const entry = 100 // bytes that an affected component takes beside its texts

// addAffected remembers which components' names will be wanted.
func (b *bom) addAffected(o finding.Object) error {
	b.vulnerabilities++
	for _, affects := range jsondoc.Objects(o, "affects") {
		ref := jsondoc.Text(affects, "ref")
		if _, known := b.affected[ref]; known || ref == "" || b.held+entry+len(ref) > b.limit {
			continue
		}
		b.held += entry + len(ref)
		b.affected[ref] = component{}
	}
	return nil
}

// readNames gets the names of the components that vulnerabilities affect.
func (b *bom) readNames(ctx context.Context, in *sdk.Input) error {
	b.keepName(b.aboutRef, b.about)
	return eachMember(ctx, in, func(r *jsonstream.Reader, key string) error {
		if key != "components" {
			return nil
		}
		return jsondoc.Elements(ctx, r, "component", func(o finding.Object) error {
			b.keepNames(o)
			return nil
		})
	})
}

func (b *bom) keepNames(o finding.Object) {
	b.keepName(jsondoc.Text(o, "bom-ref"), componentOf(o))
	for _, inner := range jsondoc.Objects(o, "components") {
		b.keepNames(inner)
	}
}

func (b *bom) keepName(ref string, c component) {
	size := len(c.name) + len(c.version) + len(c.purl)
	if _, wanted := b.affected[ref]; !wanted || b.held+size > b.limit {
		return
	}
	b.held += size
	b.affected[ref] = c
}

// finding is the one about the document.
func (b *bom) finding() *finding.Finding {
	name := cmp.Or(b.about.name, "an unnamed component")
	f := &finding.Finding{
		Name:        finding.String("SBOM for " + name),
		Description: finding.String(fmt.Sprintf("Components in the bill of materials of %s: %d.", name, b.components)),
		Category:    finding.String(categorySBOM),
		OSILayer:    finding.String("APPLICATION"),
		Severity:    finding.String(finding.Informational),
		Attributes:  finding.Object{{Key: "format", Value: "CycloneDX"}},
	}
	if at := cmp.Or(b.about.purl, b.about.name); at != "" {
		f.Location = finding.String(at)
	}
	a := &f.Attributes
	jsondoc.Set(a, "spec_version", b.specVersion)
	jsondoc.Set(a, "component", b.about.name)
	jsondoc.Set(a, "version", b.about.version)
	jsondoc.Set(a, "purl", b.about.purl)
	jsondoc.Set(a, "tools", b.tools)
	*a = append(*a,
		finding.Member{Key: "components", Value: b.components},
		finding.Member{Key: "components_by_type", Value: b.byType.Object()},
		finding.Member{Key: "components_by_ecosystem", Value: b.byEcosystem.Object()},
		finding.Member{Key: "components_by_license", Value: b.byLicense.Object()},
		finding.Member{Key: "components_without_license", Value: b.unlicensed},
		finding.Member{Key: "services", Value: b.services},
		finding.Member{Key: "vulnerabilities", Value: b.vulnerabilities},
	)
	return f
}
