// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const vulnerabilities = "Vulnerabilities"

// readImage reads the results of an image, a file system or a repository.
func (p *report) readImage(r *jsonstream.Reader) error {
	kind, err := r.Kind()
	if err != nil || kind != jsonstream.Array {
		return err
	}
	location := "scb://trivy/?ArtifactName=" + ecma.Property(p.names, artifactName)
	return r.Array(func(index int) error {
		p.looked++
		if err := p.readImageResult(r, index, location); err != nil {
			return fmt.Errorf("result %d: %w", index, err)
		}
		return nil
	})
}

func (p *report) readImageResult(r *jsonstream.Reader, index int, location string) error {
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	if kind != jsonstream.Object {
		return fmt.Errorf("is %s, must be an object", kind)
	}
	names := finding.Object{}
	err = r.Object(func(key string) error {
		switch key {
		case "Target":
			return keep(r, &names, key)
		case vulnerabilities:
			if err := p.lookForTarget(&names, place{result: index}); err != nil {
				return err
			}
			return p.readVulnerabilities(r, names, location)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = target(names)
	return err
}

func (p *report) readVulnerabilities(r *jsonstream.Reader, names finding.Object, location string) error {
	target, err := target(names)
	if err != nil {
		return err
	}
	category := categoryOf(target)
	return elements(r, vulnerabilities, func(i int) error {
		v, err := r.Pick(wanted)
		if err != nil {
			return err
		}
		return explain(p.imageFinding(v, target, category, location), "vulnerability", i)
	})
}

// wanted are the members that findings are made of.
var wanted = map[string]bool{
	"VulnerabilityID": true, "ID": true, "PkgName": true, "InstalledVersion": true, "FixedVersion": true, "Title": true,
	"Message": true, "Description": true, "Severity": true, "Resolution": true, "PrimaryURL": true, "References": true,
}

func target(names finding.Object) (string, error) {
	if s, ok := names.Text("Target").Get(); ok {
		return s, nil
	}
	return "", errors.New("has no Target that is a text")
}

// lookForTarget finds a target that comes after the vulnerabilities.
func (p *report) lookForTarget(names *finding.Object, at place) error {
	if len(*names) > 0 {
		return nil
	}
	if p.results == nil {
		p.results = start(p, p.resultsAhead)
	}
	return p.results.each(at, func(res result) error {
		*names = res.names
		return nil
	})
}

func categoryOf(target string) string {
	for _, c := range []struct{ suffix, language string }{
		{"package-lock.json", "NPM"},
		{"Gemfile.lock", "Ruby"},
		{"Pipfile.lock", "Python"},
		{"Cargo.lock", "Rust"},
		{"Composer.lock", "PHP"},
		{"go.sum", "Go"},
	} {
		if strings.HasSuffix(target, c.suffix) {
			return c.language + " Package Vulnerability"
		}
	}
	if target == "Node.js" {
		return "NPM Package Vulnerability"
	}
	return "Image Vulnerability"
}

func (p *report) imageFinding(v any, target, category, location string) error {
	o, _ := v.(finding.Object)
	id, ok := o.Text("VulnerabilityID").Get()
	if !ok {
		return errors.New("has no VulnerabilityID that is a text")
	}
	p.begin(category, location)
	p.f.OSILayer = finding.String("NOT_APPLICABLE")
	if title, _ := o.Get("Title"); ecma.Truthy(title) {
		ecma.SetText(&p.f, &p.f.Name, "name", o, "Title")
	} else {
		p.f.Name = finding.String("Vulnerability in Dependency " + dependency(o))
	}
	ecma.SetText(&p.f, &p.f.Description, "description", o, "Description")
	p.f.Mitigation = finding.String("Update the affected package " + ecma.Property(o, "PkgName") + " to the fixed version: " +
		ecma.Property(o, "FixedVersion") + " or remove the package from the image.")
	p.severity(o)
	switch {
	case strings.HasPrefix(id, "CVE-"):
		p.refs = append(p.refs, finding.Reference{Type: "CVE", Value: id},
			finding.Reference{Type: "URL", Value: "https://nvd.nist.gov/vuln/detail/" + id})
	case strings.HasPrefix(id, "NSWG-"):
		p.refs = append(p.refs, finding.Reference{Type: "NSWG", Value: id},
			finding.Reference{Type: "URL", Value: "https://github.com/nodejs/security-wg/tree/master/vuln"})
	}
	if err := p.links(o, ""); err != nil {
		return err
	}
	p.f.References.List = p.refs
	p.versions(o)
	p.f.Attributes = append(p.f.Attributes, finding.Member{Key: "vulnerabilityId", Value: id},
		finding.Member{Key: "foundIn", Value: target})
	return p.emit(&p.f)
}

// begin starts a finding.
func (p *report) begin(category, location string) {
	p.refs = p.refs[:0]
	if p.refs == nil {
		p.refs = []finding.Reference{} // references are never absent
	}
	p.f = finding.Finding{
		Category:   finding.String(category),
		Location:   finding.String(location),
		Attributes: p.f.Attributes[:0],
		Extra:      p.f.Extra[:0],
	}
}

func dependency(o finding.Object) string {
	return ecma.Property(o, "PkgName") + " (" + ecma.Property(o, "InstalledVersion") + ")"
}

func (p *report) severity(o finding.Object) {
	switch o.Text("Severity").Or("") {
	case "CRITICAL":
		p.f.Severity = finding.String(finding.High)
	case "UNKNOWN":
		p.f.Severity = finding.String(finding.Informational)
	default:
		ecma.SetText(&p.f, &p.f.Severity, "severity", o, "Severity")
	}
}

// versions adds the attributes that all findings have.
func (p *report) versions(o finding.Object) {
	ecma.Copy(&p.f.Attributes, "installedVersion", o, "InstalledVersion")
	ecma.Copy(&p.f.Attributes, "fixedVersion", o, "FixedVersion")
	ecma.Copy(&p.f.Attributes, "packageName", o, "PkgName")
	ecma.Copy(&p.f.Attributes, "references", o, "References")
}

// links adds the references that are links, but for one that is there already.
func (p *report) links(o finding.Object, but string) error {
	v, _ := o.Get("References")
	if !ecma.Truthy(v) {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return errors.New("has References that are not an array")
	}
	for _, e := range list {
		link, ok := e.(string)
		if !ok {
			return errors.New("has a reference that is not a text")
		}
		if strings.HasPrefix(link, "http") && link != but {
			p.refs = append(p.refs, finding.Reference{Type: "URL", Value: link})
		}
	}
	return nil
}
