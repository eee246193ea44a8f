// SPDX-License-Identifier: Apache-2.0

package osvscanner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// pkgParser makes the findings of the packages of one source.
type pkgParser struct {
	source source
	emit   sdk.Emit
}

// group is one vulnerability of a package: its common fields, and its advisories.
type group struct {
	ids, aliases []string
	score        any
	analysis     finding.Object
	advisories   []finding.Object
}

func (p *pkgParser) parse(pkg finding.Object) error {
	name, err := jsondoc.Need(pkg, "package", "name")
	if commit := jsondoc.Text(pkg, "package", "commit"); err != nil && commit != "" {
		name, err = commit, nil // of sources that were found by their contents there is only the commit
	}
	if err != nil {
		return err
	}
	groups, err := groupsOf(pkg)
	if err != nil {
		return err
	}
	for i := range groups {
		if err := p.emit(p.vulnerability(pkg, name, &groups[i])); err != nil {
			return err
		}
	}
	if violations := jsondoc.Texts(pkg, "license_violations"); len(violations) > 0 {
		f := p.newFinding(pkg, name, categoryLicense, finding.Low)
		f.Name = finding.String("License of " + name + " is not allowed: " + strings.Join(violations, ", "))
		jsondoc.Set(&f.Attributes, "licenses", jsondoc.Texts(pkg, "licenses"))
		jsondoc.Set(&f.Attributes, "violations", violations)
		if err := p.emit(f); err != nil {
			return err
		}
	}
	if jsondoc.Bool(pkg, "package", "deprecated") {
		f := p.newFinding(pkg, name, categoryDeprecated, finding.Informational)
		f.Name = finding.String("Package " + name + " is deprecated")
		return p.emit(f)
	}
	return nil
}

// groupsOf brings groups and advisories together. Every advisory is in one of the groups, or makes one.
func groupsOf(pkg finding.Object) ([]group, error) {
	var groups []group
	place := map[string]int{}
	for i, o := range jsondoc.Objects(pkg, "groups") {
		g := group{
			ids: jsondoc.Texts(o, "ids"), aliases: jsondoc.Texts(o, "aliases"), score: jsondoc.Member(o, "max_severity"),
			analysis: jsondoc.Object(o, "experimental_analysis"),
		}
		if g.analysis == nil { // before version 2
			g.analysis = jsondoc.Object(o, "experimentalAnalysis")
		}
		if len(g.ids) == 0 {
			return nil, fmt.Errorf("group %d has no ids", i)
		}
		for _, id := range g.ids {
			place[id] = len(groups)
		}
		groups = append(groups, g)
	}
	for i, advisory := range jsondoc.Objects(pkg, "vulnerabilities") {
		id, err := jsondoc.Need(advisory, "id")
		if err != nil {
			return nil, fmt.Errorf("vulnerability %d %w", i, err)
		}
		at, known := place[id]
		if !known {
			at = len(groups)
			place[id] = at
			groups = append(groups, group{ids: []string{id}})
		}
		groups[at].advisories = append(groups[at].advisories, advisory)
	}
	return groups, nil
}

func (p *pkgParser) newFinding(pkg finding.Object, name, category, rated string) *finding.Finding {
	f := &finding.Finding{
		Category:   finding.String(category),
		OSILayer:   finding.String("NOT_APPLICABLE"),
		Severity:   finding.String(rated),
		Attributes: finding.Object{{Key: "package", Value: name}},
	}
	if p.source.path != "" {
		f.Location = finding.String(p.source.path)
	}
	a := &f.Attributes
	jsondoc.Set(a, "installed_version", jsondoc.Text(pkg, "package", "version"))
	jsondoc.Set(a, "ecosystem", jsondoc.Text(pkg, "package", "ecosystem"))
	jsondoc.Set(a, "commit", jsondoc.Text(pkg, "package", "commit"))
	jsondoc.Set(a, "source", p.source.path)
	jsondoc.Set(a, "source_type", p.source.typ)
	jsondoc.Set(a, "dependency_groups", jsondoc.Texts(pkg, "dependency_groups"))
	return f
}

func (p *pkgParser) vulnerability(pkg finding.Object, name string, g *group) *finding.Finding {
	rated := g.rate()
	f := p.newFinding(pkg, name, categoryVulnerability, rated.severity)
	id := g.ids[0]
	f.Name = finding.String(id + " in " + name)
	if text := g.text("summary"); text != "" {
		f.Name = finding.String(text)
	}
	if text := g.text("details"); text != "" {
		f.Description = finding.String(text)
	}
	fixed := g.fixedVersions(jsondoc.Text(pkg, "package", "name"), jsondoc.Text(pkg, "package", "ecosystem"))
	if len(fixed) > 0 {
		f.Mitigation = finding.String("Update " + name + " to a fixed version: " + strings.Join(fixed, ", ") + ".")
	}
	aliases := g.otherNames(id)
	f.References = g.references(aliases)
	a := &f.Attributes
	jsondoc.Set(a, "vulnerability_id", id)
	jsondoc.Set(a, "aliases", aliases)
	jsondoc.Set(a, "fixed_versions", fixed)
	if rated.scored {
		jsondoc.Set(a, "cvss_score", rated.score)
	}
	jsondoc.Set(a, "cvss_vector", rated.vector)
	jsondoc.Set(a, "original_severity", rated.word)
	if called, known := g.called(); known {
		jsondoc.Set(a, "called", called)
	}
	return f
}

// text is the first that an advisory of the group has.
func (g *group) text(key string) string {
	for _, advisory := range g.advisories {
		if text := jsondoc.Text(advisory, key); text != "" {
			return text
		}
	}
	return ""
}

func (g *group) otherNames(own string) []string {
	names := slices.Concat(g.ids, g.aliases)
	for _, advisory := range g.advisories {
		names = append(names, jsondoc.Texts(advisory, "aliases")...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == own })
}

// rating is what the severity of a group comes from.
type rating struct {
	severity, word, vector string
	score                  float64
	scored                 bool
}

func (g *group) rate() rating {
	r := rating{severity: finding.Informational}
	for _, advisory := range g.advisories {
		for _, s := range jsondoc.Objects(advisory, "severity") {
			vector := jsondoc.Text(s, "score")
			if score, ok := severity.OfVector(vector); ok && (!r.scored || score > r.score) {
				r.score, r.vector, r.scored = score, vector, true
			}
		}
		if word := jsondoc.Text(advisory, "database_specific", "severity"); r.word == "" {
			r.word = word
		}
	}
	if score, ok := severity.Score(g.score); ok {
		if r.scored && r.score != score {
			r.vector = "" // osv-scanner has taken another one
		}
		r.score, r.scored = score, true
	}
	rated, known := severity.OfScore(r.score)
	if !r.scored || !known {
		rated, known = severity.OfWord(r.word)
	}
	if !known {
		rated, known = severity.OfID(g.ids[0])
	}
	if known {
		r.severity = rated
	}
	return r
}

// fixedVersions are those of the ranges that speak of the package.
func (g *group) fixedVersions(name, ecosystem string) []string {
	var fixed []string
	seen := map[string]bool{}
	for _, advisory := range g.advisories {
		for _, affected := range jsondoc.Objects(advisory, "affected") {
			if jsondoc.Text(affected, "package", "name") != name || !sameEcosystem(jsondoc.Text(affected, "package", "ecosystem"), ecosystem) {
				continue
			}
			for _, ranges := range jsondoc.Objects(affected, "ranges") {
				for _, event := range jsondoc.Objects(ranges, "events") {
					if v := jsondoc.Text(event, "fixed"); v != "" && !seen[v] {
						seen[v] = true
						fixed = append(fixed, v)
					}
				}
			}
		}
	}
	return fixed
}

// sameEcosystem takes "Debian" and "Debian:12" for the same.
func sameEcosystem(a, b string) bool {
	a, releaseA, bothA := strings.Cut(a, ":")
	b, releaseB, bothB := strings.Cut(b, ":")
	return a == b && (releaseA == releaseB || !bothA || !bothB)
}

// called reports whether a call of any of the advisories' code was found, and whether that was looked for.
func (g *group) called() (called, known bool) {
	for _, m := range g.analysis {
		if o, ok := m.Value.(finding.Object); ok {
			known = true
			called = called || jsondoc.Bool(o, "called")
		}
	}
	return called, known
}

func (g *group) references(aliases []string) finding.References {
	var list refs.List
	for _, id := range append([]string{g.ids[0]}, aliases...) {
		list.ID(id)
	}
	list.URL("https://osv.dev/vulnerability/" + g.ids[0])
	for _, advisory := range g.advisories {
		for _, cwe := range jsondoc.Texts(advisory, "database_specific", "cwe_ids") {
			list.CWE(cwe)
		}
		for _, reference := range jsondoc.Objects(advisory, "references") {
			list.URL(jsondoc.Text(reference, "url"))
		}
	}
	return list.References()
}
