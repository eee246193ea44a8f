// SPDX-License-Identifier: Apache-2.0

package semgrep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const noDescription = "(No description provided in semgrep rule - when using a custom rule, set the 'message' key)"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "semgrep-json",
		Summary:    "semgrep JSON report (--json)",
		Kinds:      kinds(),
		Reach:      "paths.scanned, or results",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	return []sdk.Kind{{
		Category:   sdk.AnyCategory,
		When:       "a match of a rule; the category is that of the rule's metadata, or semgrep-result",
		Severities: []string{finding.Informational, finding.Medium, finding.High},
		Attributes: []sdk.Attribute{
			{Name: "cwe", Type: sdk.Text | sdk.List | sdk.Null | sdk.AsReported, Doc: "of the rule"},
			{Name: "owasp_category", Type: sdk.Text | sdk.List | sdk.Null | sdk.AsReported, Doc: "of the rule"},
			{Name: "references", Type: sdk.List | sdk.Null, Doc: "objects with type (URL or CWE) and value"},
			{Name: "rule_source", Type: sdk.Text | sdk.Null | sdk.AsReported, Doc: "the rule's page"},
		},
		Identity: []string{"name", sdk.LocationWithoutLines},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	c := counted{}
	defer c.reportReach(in)
	return jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		kind, err := report.Kind()
		switch {
		case err != nil:
			return err
		case kind == jsonstream.Nothing:
			return errors.New("the report is empty, must be a JSON object")
		case kind != jsonstream.Object:
			return report.Skip() // a value that has no results
		}
		return report.Object(func(key string) error {
			switch key {
			case "paths":
				return c.paths(report)
			case "results":
				return parseResults(ctx, report, func(f *finding.Finding) error {
					c.results++
					return emit(f)
				})
			}
			return nil
		})
	})
}

// counted is what semgrep has looked at, as far as the report says.
type counted struct {
	scanned, results int
	lists            bool // paths.scanned is there
}

// paths counts the files that semgrep has scanned.
func (c *counted) paths(report *jsonstream.Reader) error {
	kind, err := report.Kind()
	if err != nil || kind != jsonstream.Object {
		return err
	}
	return report.Object(func(key string) error {
		if key != "scanned" {
			return nil
		}
		kind, err := report.Kind()
		if err != nil || kind != jsonstream.Array {
			return err
		}
		c.lists = true
		return report.Array(func(int) error {
			c.scanned++
			return nil
		})
	})
}

// reportReach reports what was reached.
func (c *counted) reportReach(in *sdk.Input) {
	switch {
	case c.scanned > 0:
		in.Reached("%s scanned", sdk.Counted(c.scanned, "file was", "files were"))
	case c.results > 0:
		in.Reached("files were scanned: %s", sdk.Counted(c.results, "result", "results"))
	case c.lists:
		in.NothingReached("0 files were scanned")
	default:
		in.ReachUnknown("the report does not list the files that were scanned")
	}
}

func parseResults(ctx context.Context, report *jsonstream.Reader, emit sdk.Emit) error {
	kind, err := report.Kind()
	if err != nil {
		return err
	}
	if kind != jsonstream.Array {
		results, err := report.Value()
		if err == nil && ecma.Truthy(results) {
			err = fmt.Errorf("results is %s, must be an array", kind)
		}
		return err
	}
	return report.Array(func(i int) error {
		result, err := report.Value()
		if err != nil {
			return err
		}
		if err := parseResult(result, emit); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
		return ctx.Err()
	})
}

// match holds the parts of a result.
type match struct {
	result, start, end, extra, metadata finding.Object
}

func parseResult(v any, emit sdk.Emit) error {
	m, err := newMatch(v)
	if err != nil {
		return err
	}
	severity, ok := m.extra.Text("severity").Get()
	if !ok {
		return errors.New("has no severity, or one that is not a string")
	}
	references, err := referencesOf(m.metadata)
	if err != nil {
		return err
	}
	f := finding.Finding{
		Location: finding.String(ecma.Property(m.result, "path") + ":" +
			ecma.Property(m.start, "line") + "-" + ecma.Property(m.end, "line")),
		Severity: finding.String(severityOf(severity)),
		Attributes: finding.Object{
			{Key: "cwe", Value: ecma.OrNull(m.metadata, "cwe")},
			{Key: "owasp_category", Value: ecma.OrNull(m.metadata, "owasp")},
			{Key: "references", Value: references},
			{Key: "rule_source", Value: ecma.OrNull(m.metadata, "source")},
		},
	}
	ecma.SetText(&f, &f.Name, "name", m.result, "check_id")
	f.Description = finding.String(noDescription)
	if ecma.OrNull(m.extra, "message") != nil {
		ecma.SetText(&f, &f.Description, "description", m.extra, "message")
	}
	f.Category = finding.String("semgrep-result")
	if ecma.OrNull(m.metadata, "category") != nil {
		ecma.SetText(&f, &f.Category, "category", m.metadata, "category")
	}
	return emit(&f)
}

func newMatch(v any) (m match, err error) {
	var ok bool
	if m.result, ok = v.(finding.Object); !ok {
		return m, errors.New("is not an object")
	}
	for _, part := range []struct {
		of   *finding.Object
		key  string
		into *finding.Object
	}{
		{&m.result, "start", &m.start},
		{&m.result, "end", &m.end},
		{&m.result, "extra", &m.extra},
		{&m.extra, "metadata", &m.metadata},
	} {
		v, _ := part.of.Get(part.key)
		if v == nil {
			return m, fmt.Errorf("has no %s", part.key)
		}
		*part.into, _ = v.(finding.Object) // any other value has none of the members that are asked for
	}
	return m, nil
}

// severityOf does not use strings.ToLower, which makes an i of more letters than ECMAScript does.
func severityOf(severity string) string {
	switch {
	case strings.EqualFold(severity, "warning"):
		return finding.Medium
	case strings.EqualFold(severity, "error"):
		return finding.High
	}
	return finding.Informational
}

// referencesOf returns those of the rule, then the weakness and its page; nil where there is none.
func referencesOf(metadata finding.Object) (any, error) {
	given := ecma.OrNull(metadata, "references")
	list, ok := given.([]any)
	if !ok && given != nil {
		return nil, errors.New("has references that are not an array")
	}
	var references []any
	for _, url := range list {
		references = append(references, reference("URL", url))
	}
	if number := weakness(ecma.OrNull(metadata, "cwe")); number != "" {
		references = append(references,
			reference("CWE", "CWE-"+number),
			reference("URL", "https://cwe.mitre.org/data/definitions/"+number+".html"))
	}
	if references == nil {
		return nil, nil
	}
	return references, nil
}

func reference(kind string, value any) finding.Object {
	return finding.Object{{Key: "type", Value: kind}, {Key: "value", Value: value}}
}

// weakness returns the two characters after "CWE-".
func weakness(cwe any) string {
	if cwe == nil {
		return ""
	}
	return ecma.Substring(finding.ToString(cwe), len("CWE-"), len("CWE-")+2)
}
