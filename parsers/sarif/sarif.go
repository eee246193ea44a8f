// SPDX-License-Identifier: Apache-2.0

package sarif

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// The words of the standard that something depends on.
const (
	kindFail          = "fail"
	kindPass          = "pass"
	kindNotApplicable = "notApplicable"
	kindInformational = "informational"

	levelNone    = "none"
	levelNote    = "note"
	levelWarning = "warning"
	levelError   = "error"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "sarif",
		Summary:    "SARIF 2.1.0, of any tool",
		Kinds:      kinds(),
		Reach:      "results, or artifacts that were looked at; a run that failed without results is an error",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const optional = sdk.Text | sdk.Optional
	return []sdk.Kind{{
		Category: sdk.AnyCategory,
		When: "a result, under the name of the tool; the severity is that of the CVSS score in security-severity, else of " +
			"the level: error HIGH, warning MEDIUM, note LOW, none INFORMATIONAL",
		Severities: severity.All(),
		Attributes: []sdk.Attribute{
			{Name: "tool", Type: sdk.Text},
			{Name: "tool_version", Type: optional},
			{Name: "rule_id", Type: optional},
			{Name: "rule_name", Type: optional, Doc: "where the tool has one beside the id"},
			{Name: "level", Type: sdk.Text, Doc: "the original severity: error, warning, note or none"},
			{Name: "kind", Type: optional, Doc: "if the result is not a failure: open, review, informational"},
			{Name: "security_severity", Type: sdk.Text | sdk.Number | sdk.Optional, Doc: "the CVSS score as the tool writes it"},
			{Name: "precision", Type: optional, Doc: "how sure the rule is"},
			{Name: "tags", Type: sdk.List | sdk.Optional, Doc: "of the rule and the result"},
			{Name: "file", Type: optional, Doc: "URI or path, as the tool writes it"},
			{Name: "line", Type: sdk.Number | sdk.Optional},
			{Name: "end_line", Type: sdk.Number | sdk.Optional},
			{Name: "column", Type: sdk.Number | sdk.Optional},
			{Name: "snippet", Type: optional, Doc: "the text in that place; of a secret scanner, the secret"},
			{Name: "symbol", Type: optional, Doc: "the fully qualified name of the place in the program"},
			{Name: "locations", Type: sdk.List | sdk.Optional, Doc: "all places, if there are several"},
			{Name: "hostname", Type: optional, Doc: "if the place is a web address"},
			{Name: "port", Type: sdk.Number | sdk.Optional, Doc: "if the place is a web address"},
			{Name: "baseline_state", Type: optional, Doc: "new, unchanged or updated"},
			{Name: "fingerprints", Type: sdk.Map | sdk.Optional, Doc: "the tool's own"},
		},
		Identity: []string{"attributes.rule_id", "location", "description"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	x := index{limits: in.Limits}
	if err := x.read(ctx, in); err != nil {
		return err
	}
	x.reportReach(in)
	return jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		return r.Object(func(key string) error {
			if key != "runs" {
				return nil
			}
			return r.Array(func(i int) error {
				if i >= len(x.runs) {
					return fmt.Errorf("run %d was not there in the first pass", i)
				}
				return parseRun(ctx, r, i, x.runs[i], emit)
			})
		})
	})
}

func parseRun(ctx context.Context, r *jsonstream.Reader, i int, run *run, emit sdk.Emit) error {
	return r.Object(func(key string) error {
		if key != "results" {
			return nil
		}
		return jsondoc.Elements(ctx, r, fmt.Sprintf("run %d, result", i), func(result finding.Object) error {
			f, err := run.finding(result)
			if f == nil || err != nil {
				return err
			}
			return emit(f)
		})
	})
}

// finding is nil for a result that is none.
func (run *run) finding(result finding.Object) (*finding.Finding, error) {
	kind := jsondoc.Text(result, "kind")
	if kind == "" {
		kind = kindFail
	}
	baseline := jsondoc.Text(result, "baselineState")
	if kind == kindPass || kind == kindNotApplicable || baseline == "absent" || isSuppressed(result) {
		return nil, nil // no finding is an answer
	}
	ref, rule := run.ruleOf(result)
	if ref.id == "" {
		ref.id = rule.id
	}
	level := run.levelOf(result, kind, rule)
	score := scoreOf(result, rule)
	f := &finding.Finding{
		Category: finding.String(run.tool),
		OSILayer: finding.String("APPLICATION"),
		Severity: finding.String(rate(kind, level, score)),
		Attributes: finding.Object{
			{Key: "tool", Value: run.tool},
			{Key: "level", Value: level},
		},
	}
	a := &f.Attributes
	jsondoc.Set(a, "tool_version", run.version)
	jsondoc.Set(a, "rule_id", ref.id)
	if rule.name != ref.id {
		jsondoc.Set(a, "rule_name", rule.name)
	}
	if kind != kindFail {
		jsondoc.Set(a, "kind", kind)
	}
	jsondoc.Set(a, "security_severity", score)
	jsondoc.Set(a, "precision", rule.precision)
	tags := tagsOf(result, rule)
	jsondoc.Set(a, "tags", tags)
	jsondoc.Set(a, "baseline_state", baseline)
	if err := run.place(f, result); err != nil {
		return nil, err
	}
	run.describe(f, result, rule, ref.id)
	f.References = referencesOf(result, rule, ref.id, tags)
	return f, run.identify(f, result, ref.id)
}

// isSuppressed follows 3.27.23: a suppression that is under review or was rejected makes the result count.
func isSuppressed(result finding.Object) bool {
	list := jsondoc.Objects(result, "suppressions")
	return len(list) > 0 && !slices.ContainsFunc(list, func(s finding.Object) bool {
		status := jsondoc.Text(s, "status")
		return status == "underReview" || status == "rejected"
	})
}

// scoreOf is the property that GitHub has introduced: of the result, else of the rule.
func scoreOf(result finding.Object, rule *rule) any {
	own := jsondoc.Member(result, "properties", "security-severity")
	for _, v := range []any{own, rule.score} {
		if _, ok := severity.Score(v); ok {
			return v
		}
	}
	return nil
}

func rate(kind, level string, score any) string {
	if kind == kindInformational {
		return finding.Informational
	}
	if n, ok := severity.Score(score); ok {
		rated, _ := severity.OfScore(n)
		return rated
	}
	switch level {
	case levelError:
		return finding.High
	case levelNote:
		return finding.Low
	case levelNone:
		return finding.Informational
	}
	return finding.Medium
}

func tagsOf(result finding.Object, rule *rule) []string {
	tags := slices.Clone(rule.tags)
	for _, tag := range jsondoc.Texts(result, "properties", "tags") {
		if len(tags) < 2*maxTags && !slices.Contains(tags, tag) {
			tags = append(tags, cut(tag))
		}
	}
	return tags
}

// place says where the result is. The first location is the one that counts.
func (run *run) place(f *finding.Finding, result finding.Object) error {
	locations := jsondoc.Objects(result, "locations")
	var all []string
	for i, location := range locations {
		physical := jsondoc.Object(location, "physicalLocation")
		uri, err := run.uriOf(jsondoc.Object(physical, "artifactLocation"))
		if err != nil {
			return err
		}
		symbol := symbolOf(location)
		text := uri
		if line, ok := jsondoc.Number(physical, "region", "startLine"); ok && uri != "" {
			text += ":" + strconv.FormatFloat(line, 'f', -1, 64)
		}
		if text == "" {
			text = symbol
		}
		if text != "" {
			all = append(all, text)
		}
		if i > 0 {
			continue
		}
		a := &f.Attributes
		jsondoc.Set(a, "file", uri)
		jsondoc.SetNumber(a, "line", physical, "region", "startLine")
		jsondoc.SetNumber(a, "end_line", physical, "region", "endLine")
		jsondoc.SetNumber(a, "column", physical, "region", "startColumn")
		jsondoc.Set(a, "snippet", jsondoc.Text(physical, "region", "snippet", "text"))
		jsondoc.Set(a, "symbol", symbol)
		setHost(a, uri)
		if at := cmp.Or(uri, symbol); at != "" {
			f.Location = finding.String(at)
		}
	}
	if len(all) > 1 {
		jsondoc.Set(&f.Attributes, "locations", all)
	}
	return nil
}

func symbolOf(location finding.Object) string {
	for _, logical := range jsondoc.Objects(location, "logicalLocations") {
		if name := cmp.Or(jsondoc.Text(logical, "fullyQualifiedName"), jsondoc.Text(logical, "name")); name != "" {
			return name
		}
	}
	return ""
}

// setHost lets cascading rules go on from what a scanner of web sites has found.
func setHost(attributes *finding.Object, uri string) {
	u, err := url.Parse(uri)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return
	}
	port := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if n, err := strconv.Atoi(u.Port()); err == nil {
		port = n
	}
	jsondoc.Set(attributes, "hostname", u.Hostname())
	jsondoc.Set(attributes, "port", port)
}

// describe names the finding after the rule, whose heading is the same for all its results.
func (run *run) describe(f *finding.Finding, result finding.Object, rule *rule, id string) {
	message := run.messageOf(jsondoc.Object(result, "message"), rule)
	name := cmp.Or(text.First(rule.short), id, rule.name, text.First(message), run.tool+" result")
	f.Name = finding.String(name)
	if message != "" {
		f.Description = finding.String(message)
	}
	for _, fix := range jsondoc.Objects(result, "fixes") {
		if text := run.messageOf(jsondoc.Object(fix, "description"), rule); text != "" {
			f.Mitigation = finding.String(text)
			return
		}
	}
}

func referencesOf(result finding.Object, rule *rule, id string, tags []string) finding.References {
	var list refs.List
	list.ID(id)
	for _, target := range jsondoc.Objects(result, "taxa") {
		list.CWE(weaknessOf(target))
	}
	for _, weakness := range rule.weaknesses {
		list.CWE(weakness)
	}
	for _, tag := range tags {
		list.CWE(tag)
	}
	list.URL(rule.helpURI)
	return list.References()
}

// maxFingerprints are more than any tool writes.
const maxFingerprints = 20

func fingerprintsAt(result finding.Object, key string) (list finding.Object) {
	for _, m := range jsondoc.Object(result, key) {
		if text, ok := m.Value.(string); ok && text != "" && len(list) < maxFingerprints {
			list = append(list, finding.Member{Key: m.Key, Value: text})
		}
	}
	return list
}

// identify makes the fingerprint of the tool's own ones. Without any, the SDK makes it of the kind's identity.
func (run *run) identify(f *finding.Finding, result finding.Object, id string) error {
	whole := fingerprintsAt(result, "fingerprints")
	partial := fingerprintsAt(result, "partialFingerprints")
	own := slices.Concat(whole, partial)
	if len(own) == 0 {
		return nil
	}
	jsondoc.Set(&f.Attributes, "fingerprints", own)
	identity := []any{"sarif", run.tool, id, f.Location}
	lineHash := slices.DeleteFunc(slices.Clone(partial), func(m finding.Member) bool {
		return !strings.HasPrefix(m.Key, "primaryLocationLineHash")
	})
	switch {
	case len(whole) > 0:
		identity = append(identity, whole)
	case len(lineHash) > 0: // what GitHub goes by
		identity = append(identity, lineHash)
	default:
		identity = append(identity, partial, f.Description)
	}
	raw, err := finding.AppendValue(nil, identity)
	if err != nil {
		return err
	}
	f.Fingerprint = finding.String(finding.Fingerprint(raw))
	return nil
}
