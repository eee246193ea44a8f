// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/findings/vulnerability"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
)

// vulnerability makes the finding of a finding of a report.
func (r *report) vulnerability(image, o finding.Object) error {
	id, err := jsondoc.Need(o, "vulnerabilityID")
	if err != nil {
		return err
	}
	name, err := jsondoc.Need(o, "package", "name")
	if err != nil {
		return err
	}
	kind, word, version := jsondoc.Text(o, "package", "type"), jsondoc.Text(o, "severity"), jsondoc.Text(o, "package", "version")
	f := &finding.Finding{
		Name:     finding.String(vulnerability.Name(jsondoc.Text(o, "title"), name, version)),
		Category: finding.String(vulnerability.Category(jsondoc.Text(o, "package", "purl"), kind)),
		Severity: finding.String(vulnerability.Severity(word)),
		Location: location(image), OSILayer: finding.String("NOT_APPLICABLE"), Mitigation: finding.String("There is no fixed version yet."),
	}
	if text := jsondoc.Text(o, "description"); text != "" {
		f.Description = finding.String(text)
	}
	if seen := jsondoc.Text(o, "firstSeenAt"); seen != "" {
		f.IdentifiedAt = finding.String(seen)
	}
	fixed := jsondoc.Texts(o, "fixedVersions")
	if len(fixed) > 0 {
		f.Mitigation = finding.String("Update the package " + name + " to " + strings.Join(fixed, ", ") + ".")
	}
	f.References = references(o, id)
	a := &f.Attributes
	jsondoc.Set(a, "vulnerabilityId", id)
	jsondoc.Set(a, "aliases", jsondoc.Texts(o, "aliases"))
	jsondoc.Set(a, "packageName", name)
	jsondoc.Set(a, "packageType", kind)
	jsondoc.Set(a, "installedVersion", version)
	jsondoc.Set(a, "fixedVersion", strings.Join(fixed, ", "))
	jsondoc.Set(a, "fixedVersions", fixed)
	jsondoc.Set(a, "purl", jsondoc.Text(o, "package", "purl"))
	jsondoc.Set(a, "foundIn", jsondoc.Text(o, "target"))
	jsondoc.Set(a, "layerDiffId", jsondoc.Text(o, "layer", "diffID"))
	jsondoc.SetNumber(a, "cvssScore", o, "score")
	jsondoc.Set(a, "cvssVector", vector(o))
	jsondoc.Set(a, "severityOfEngine", word)
	jsondoc.Set(a, "severitySource", jsondoc.Text(o, "severitySource"))
	jsondoc.Set(a, "kev", jsondoc.Object(o, "kev"))
	jsondoc.Set(a, "epss", jsondoc.Object(o, "epss"))
	jsondoc.Set(a, "engine", jsondoc.Text(image, "provenance", "engine", "name"))
	jsondoc.Set(a, "engineVersion", jsondoc.Text(image, "provenance", "engine", "version"))
	jsondoc.Set(a, "databaseVersion", jsondoc.Text(image, "provenance", "database", "version"))
	jsondoc.Set(a, "databaseBuiltAt", jsondoc.Text(image, "provenance", "database", "builtAt"))
	r.imageAttributes(a, image)
	if report := jsondoc.Text(image, "name"); report != "" {
		jsondoc.Set(a, "report", jsondoc.Text(r.registry, "namespace")+"/"+report)
		jsondoc.Set(a, "origin", "VulnerabilityReport/"+report)
	}
	return r.emit(f)
}

// vector is that of the score, else the first one.
func vector(o finding.Object) string {
	score, _ := jsondoc.Number(o, "score")
	first := ""
	for _, rating := range jsondoc.Objects(o, "cvss") {
		text := jsondoc.Text(rating, "vector")
		if own, has := jsondoc.Number(rating, "score"); has && own == score && text != "" {
			return text
		}
		if first == "" {
			first = text
		}
	}
	return first
}

func references(o finding.Object, id string) finding.References {
	var list refs.List
	list.ID(id)
	for _, alias := range jsondoc.Texts(o, "aliases") {
		list.ID(alias)
	}
	for _, cwe := range jsondoc.Texts(o, "cwes") {
		list.CWE(cwe)
	}
	list.URL(jsondoc.Text(o, "primaryURL"))
	for _, url := range jsondoc.Texts(o, "references") {
		list.URL(url)
	}
	return list.References()
}
