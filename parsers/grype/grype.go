// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"context"
	"errors"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "grype-json",
		Summary:    "grype JSON report (-o json)",
		Kinds:      kinds(),
		Reach:      "matches, or an image that was read; a directory without matches may be empty",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list, number = sdk.Text | sdk.Optional, sdk.List | sdk.Optional, sdk.Number | sdk.Optional
	return []sdk.Kind{{
		Category: "Vulnerability",
		When: "a match of a vulnerability with a package; the severity is grype's: Critical and High are HIGH, Negligible " +
			"INFORMATIONAL, Unknown by the CVSS score",
		Severities: severity.All(),
		Attributes: []sdk.Attribute{
			{Name: "vulnerability_id", Type: sdk.Text},
			{Name: "aliases", Type: list, Doc: "the related vulnerabilities, such as the CVE of a GHSA"},
			{Name: "package", Type: sdk.Text},
			{Name: "installed_version", Type: text},
			{Name: "fixed_versions", Type: list},
			{Name: "fix_state", Type: text, Doc: "fixed, not-fixed, wont-fix or unknown"},
			{Name: "package_type", Type: text, Doc: "deb, npm, java-archive, …"},
			{Name: "purl", Type: text},
			{Name: "paths", Type: list, Doc: "where the package was found"},
			{Name: "original_severity", Type: text},
			{Name: "cvss_score", Type: number, Doc: "the highest base score"},
			{Name: "cvss_vector", Type: text, Doc: "that of the score"},
			{Name: "epss", Type: number, Doc: "probability of exploitation in the next 30 days"},
			{Name: "epss_percentile", Type: number},
			{Name: "known_exploited", Type: sdk.Bool | sdk.Optional, Doc: "true if it is in CISA's catalogue"},
			{Name: "risk", Type: number, Doc: "grype's own score, 0 to 100"},
			{Name: "namespace", Type: text, Doc: "of the data that matched"},
			{Name: "distro", Type: text},
		},
		Identity: []string{"location", "attributes.vulnerability_id", "attributes.package", "attributes.package_type", "attributes.paths"},
	}}
}

// scanned is what was scanned.
type scanned struct {
	target, distro, typ string
	matches             int
}

// reportReach reports what was reached. grype reads an image before it writes a report of it.
func (s *scanned) reportReach(in *sdk.Input) {
	switch {
	case s.matches > 0:
		in.Reached("packages were looked at: %s", sdk.Counted(s.matches, "match", "matches"))
	case s.typ == "image":
		in.Reached("the image was read: %.300s", s.target)
	default:
		in.ReachUnknown("grype has no matches, and does not report whether there are packages")
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	about, err := read(ctx, in)
	if err != nil {
		return err
	}
	about.reportReach(in)
	return jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			if key != "matches" {
				return nil
			}
			return jsondoc.Elements(ctx, r, "match", func(match finding.Object) error {
				f, err := newFinding(match, about)
				if err != nil {
					return err
				}
				return emit(f)
			})
		})
	})
}

// read passes over the matches.
func read(ctx context.Context, in *sdk.Input) (about scanned, err error) {
	hasMatches := false
	err = jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			switch key {
			case "matches":
				hasMatches = true
				kind, err := r.Kind()
				if err != nil || kind != jsonstream.Array {
					return err
				}
				return r.Array(func(int) error {
					about.matches++
					return nil
				})
			case "source", "distro":
				v, err := r.Value()
				o, _ := v.(finding.Object)
				if key == "source" {
					about.target, about.typ = targetOf(o), jsondoc.Text(o, "type")
				} else {
					about.distro = strings.TrimSpace(jsondoc.Text(o, "name") + " " + jsondoc.Text(o, "version"))
				}
				return err
			}
			return nil
		})
	})
	if err == nil && !hasMatches {
		err = errors.New(`is not a grype report: has no "matches"`)
	}
	return about, err
}

// targetOf is the text that most kinds of sources have, or what the user has asked for of an image.
func targetOf(source finding.Object) string {
	if s := jsondoc.Text(source, "target"); s != "" {
		return s
	}
	for _, key := range []string{"userInput", "imageID", "path"} {
		if s := jsondoc.Text(source, "target", key); s != "" {
			return s
		}
	}
	return ""
}

func newFinding(match finding.Object, about scanned) (*finding.Finding, error) {
	vulnerability := jsondoc.Object(match, "vulnerability")
	id, err := jsondoc.Need(match, "vulnerability", "id")
	if err != nil {
		return nil, err
	}
	name, err := jsondoc.Need(match, "artifact", "name")
	if err != nil {
		return nil, err
	}
	related := jsondoc.Objects(match, "relatedVulnerabilities")
	score, vector, scored := bestScore(vulnerability, related)
	f := &finding.Finding{
		Name:       finding.String(id + " in " + name),
		Category:   finding.String("Vulnerability"),
		OSILayer:   finding.String("NOT_APPLICABLE"),
		Severity:   finding.String(rate(id, jsondoc.Text(vulnerability, "severity"), score, scored)),
		References: references(id, vulnerability, related),
		Attributes: finding.Object{{Key: "vulnerability_id", Value: id}, {Key: "package", Value: name}},
	}
	if text := describe(vulnerability, related); text != "" {
		f.Description = finding.String(text)
	}
	if about.target != "" {
		f.Location = finding.String(about.target)
	}
	setPackage(f, match, name)
	a := &f.Attributes
	jsondoc.Set(a, "aliases", idsOf(related, id))
	jsondoc.Set(a, "original_severity", jsondoc.Text(vulnerability, "severity"))
	if scored {
		jsondoc.Set(a, "cvss_score", score)
		jsondoc.Set(a, "cvss_vector", vector)
	}
	for _, epss := range jsondoc.Objects(vulnerability, "epss") {
		jsondoc.SetNumber(a, "epss", epss, "epss")
		jsondoc.SetNumber(a, "epss_percentile", epss, "percentile")
		break
	}
	if len(jsondoc.Objects(vulnerability, "knownExploited")) > 0 {
		jsondoc.Set(a, "known_exploited", true)
	}
	jsondoc.SetNumber(a, "risk", vulnerability, "risk")
	jsondoc.Set(a, "namespace", jsondoc.Text(vulnerability, "namespace"))
	jsondoc.Set(a, "distro", about.distro)
	return f, nil
}

// setPackage describes the package, and what to do about it.
func setPackage(f *finding.Finding, match finding.Object, name string) {
	artifact := jsondoc.Object(match, "artifact")
	fixed := jsondoc.Texts(match, "vulnerability", "fix", "versions")
	state := jsondoc.Text(match, "vulnerability", "fix", "state")
	a := &f.Attributes
	jsondoc.Set(a, "installed_version", jsondoc.Text(artifact, "version"))
	jsondoc.Set(a, "fixed_versions", fixed)
	jsondoc.Set(a, "fix_state", state)
	jsondoc.Set(a, "package_type", jsondoc.Text(artifact, "type"))
	jsondoc.Set(a, "purl", jsondoc.Text(artifact, "purl"))
	var paths []string
	for _, location := range jsondoc.Objects(artifact, "locations") {
		if path := jsondoc.Text(location, "path"); path != "" {
			paths = append(paths, path)
		}
	}
	jsondoc.Set(a, "paths", paths)
	switch {
	case len(fixed) > 0:
		f.Mitigation = finding.String("Update " + name + " to a fixed version: " + strings.Join(fixed, ", ") + ".")
	case state == "wont-fix":
		f.Mitigation = finding.String("The distributor of " + name + " does not intend to fix this. Replace or remove the package.")
	}
}

// describe takes the text of a related vulnerability where the matching one has none, as of distributors.
func describe(vulnerability finding.Object, related []finding.Object) string {
	for _, v := range append([]finding.Object{vulnerability}, related...) {
		if text := jsondoc.Text(v, "description"); text != "" {
			return text
		}
	}
	return ""
}

func rate(id, word string, score float64, scored bool) string {
	if rated, known := severity.OfWord(word); known && !strings.EqualFold(strings.TrimSpace(word), "unknown") {
		return rated
	}
	if rated, ok := severity.OfScore(score); scored && ok {
		return rated
	}
	if rated, ok := severity.OfID(id); ok {
		return rated
	}
	return finding.Informational
}

// bestScore is the highest base score of the vulnerability, or of the related ones where it has none.
func bestScore(vulnerability finding.Object, related []finding.Object) (score float64, vector string, ok bool) {
	for _, v := range append([]finding.Object{vulnerability}, related...) {
		for _, cvss := range jsondoc.Objects(v, "cvss") {
			text := jsondoc.Text(cvss, "vector")
			s, rated := severity.Score(jsondoc.Member(cvss, "metrics", "baseScore"))
			if !rated {
				s, rated = severity.OfVector(text)
			}
			if rated && (!ok || s > score) {
				score, vector, ok = s, text, true
			}
		}
		if ok {
			break
		}
	}
	return score, vector, ok
}

func idsOf(related []finding.Object, own string) []string {
	var ids []string
	seen := map[string]bool{own: true}
	for _, v := range related {
		if id := jsondoc.Text(v, "id"); id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func references(id string, vulnerability finding.Object, related []finding.Object) finding.References {
	var list refs.List
	list.ID(id)
	for _, v := range append([]finding.Object{vulnerability}, related...) {
		list.ID(jsondoc.Text(v, "id"))
		for _, cwe := range jsondoc.Objects(v, "cwes") {
			list.CWE(jsondoc.Text(cwe, "cwe"))
		}
		list.URL(jsondoc.Text(v, "dataSource"))
	}
	for _, advisory := range jsondoc.Objects(vulnerability, "advisories") {
		list.URL(jsondoc.Text(advisory, "link"))
	}
	for _, url := range jsondoc.Texts(vulnerability, "urls") {
		list.URL(url)
	}
	return list.References()
}
