// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/compare"
)

// SARIFSchema is the address of the schema that OASIS publishes.
const SARIFSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// maxRules is how many categories are rules of their own.
const maxRules = 1000

// levels are SARIF's words for severities.
var levels = [Severities]string{"error", "warning", "note", "note"}

// scores are what code hosts sort by, as CVSS.
var scores = [Severities]string{"8.0", "5.5", "2.0", "0.0"}

// writeSARIF writes a log of SARIF 2.1.0: a rule per category, a result per finding.
func writeSARIF(ctx context.Context, r *Report, w io.Writer) error {
	rules, places := r.rules()
	about := finding.Object{{Key: "tool", Value: finding.Object{{Key: "driver", Value: finding.Object{
		{Key: "name", Value: orWord(r.Scan.Type, "scan")},
		{Key: "informationUri", Value: "https://github.com/scanyard/scanyard"},
		{Key: "rules", Value: rules},
	}}}}, {Key: "automationDetails", Value: finding.Object{
		{Key: "id", Value: r.Scan.Namespace + "/" + r.Scan.Name},
	}}, {Key: "columnKind", Value: "utf16CodeUnits"}}
	if invocation := r.Scan.invocation(); invocation != nil {
		about.Set("invocations", []any{invocation})
	}
	run, err := finding.AppendValue(nil, about)
	if err != nil {
		return fmt.Errorf("encode run: %w", err)
	}
	err = writeAll(w, `{"$schema":"`+SARIFSchema+`","version":"2.1.0","runs":[`, string(run[:len(run)-1]), `,"results":[`)
	if err != nil {
		return err
	}
	line := []byte("\n")
	err = r.Each(ctx, func(e *Entry) error {
		var err error
		if line, err = finding.AppendValue(line, result(e, places)); err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		if err := writeAll(w, string(line)); err != nil {
			return err
		}
		line = append(line[:0], ",\n"...)
		return nil
	})
	if err != nil {
		return err
	}
	return writeAll(w, "]}]}\n")
}

// invocation describes what was not reached, or may not have been; nil if there is nothing to say. SARIF cannot express
// a tool that ran well and reached nothing, so a run without a target was not successful.
func (s *Scan) invocation() finding.Object {
	text, level, id := s.unreached(), "error", "NothingReached"
	if text == "" {
		text, level, id = s.reachDoubt(), "note", "ReachNotKnown"
	}
	if text == "" {
		return nil
	}
	return finding.Object{
		{Key: "executionSuccessful", Value: level != "error"},
		{Key: "toolExecutionNotifications", Value: []any{finding.Object{
			{Key: "level", Value: level},
			{Key: "message", Value: finding.Object{{Key: "text", Value: text}}},
			{Key: "descriptor", Value: finding.Object{{Key: "id", Value: id}}},
		}}},
	}
}

// rules are the categories, and where each is in the list.
func (r *Report) rules() (rules []any, places map[string]int) {
	places = map[string]int{}
	rules = []any{}
	for _, g := range r.stats.categories.top(maxRules) {
		if g.Name == "" {
			continue // the sum of the others, which have no rules
		}
		worst := High
		for g.Counts[worst] == 0 {
			worst++
		}
		places[g.Name] = len(rules)
		rules = append(rules, finding.Object{
			{Key: "id", Value: g.Name},
			{Key: "shortDescription", Value: finding.Object{{Key: "text", Value: g.Name}}},
			{Key: "defaultConfiguration", Value: finding.Object{{Key: "level", Value: levels[worst]}}},
			{Key: "properties", Value: finding.Object{
				{Key: "tags", Value: []string{"security"}}, {Key: "security-severity", Value: scores[worst]},
			}},
		})
	}
	return rules, places
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

func result(e *Entry, places map[string]int) finding.Object {
	rule := text.Cut(e.Category, maxGroupName)
	o := finding.Object{{Key: "ruleId", Value: rule}}
	if i, ok := places[rule]; ok {
		o.Set("ruleIndex", i)
	}
	text := e.Name
	if e.Description != "" {
		text += "\n\n" + e.Description
	}
	o.Set("level", levels[e.Severity])
	o.Set("message", finding.Object{{Key: "text", Value: text}})
	if e.Location != "" {
		o.Set("locations", []any{place(e)})
	}
	if uuid.MatchString(e.ID) {
		o.Set("guid", e.ID)
	}
	o.Set("partialFingerprints", finding.Object{{Key: "scanyard/v1", Value: orWord(e.Fingerprint, e.ID)}})
	switch e.State {
	case compare.New:
		o.Set("baselineState", "new")
	case compare.Known:
		o.Set("baselineState", "unchanged")
	case compare.Fixed: // not among the findings
	}
	if e.Excepted() {
		o.Set("suppressions", []any{finding.Object{
			{Key: "kind", Value: "external"}, {Key: "status", Value: "accepted"}, {Key: "justification", Value: e.exception()},
		}})
	}
	properties := finding.Object{
		{Key: "severity", Value: e.Severity.String()}, {Key: "security-severity", Value: scores[e.Severity]},
	}
	if len(e.Attributes) > 0 {
		properties.Set("attributes", e.Attributes) // apart: a name among them may mean something to SARIF
	}
	if e.Mitigation != "" {
		properties.Set("mitigation", e.Mitigation)
	}
	if len(e.References) > 0 {
		var references []any
		for _, ref := range e.References {
			references = append(references, finding.Object{{Key: "type", Value: ref.Type}, {Key: "value", Value: ref.Value}})
		}
		properties.Set("references", references)
	}
	o.Set("properties", properties)
	return o
}

// place is where a result is: an artifact where the location is a URI, else a name.
func place(e *Entry) finding.Object {
	uri, ok := uriOf(e.Location)
	if !ok {
		return finding.Object{{Key: "logicalLocations", Value: []any{finding.Object{{Key: "fullyQualifiedName", Value: e.Location}}}}}
	}
	physical := finding.Object{{Key: "artifactLocation", Value: finding.Object{{Key: "uri", Value: uri}}}}
	for _, key := range []string{"line_number", "startLine", "start_line", "line"} {
		if n, ok := e.Attributes.Get(key); ok {
			if line, ok := n.(float64); ok && line >= 1 && line < 1<<31 && line == float64(int(line)) {
				physical.Set("region", finding.Object{{Key: "startLine", Value: int(line)}})
				break
			}
		}
	}
	return finding.Object{{Key: "physicalLocation", Value: physical}}
}

// uriOf writes a location as RFC 3986 wants it, if it can be. Viewers make links of it, so it is of http or https, or
// relative to what was scanned.
func uriOf(location string) (string, bool) {
	if strings.ContainsFunc(location, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", false
	}
	parsed, err := url.Parse(location)
	if err != nil || parsed.User != nil { // no credentials in a place that is shown as a link
		return "", false
	}
	switch parsed.Scheme {
	case "http", "https":
		if parsed.Host == "" {
			return "", false
		}
	case "":
		if parsed.Host != "" || strings.HasPrefix(location, `\`) {
			return "", false
		}
	default:
		return "", false
	}
	var query strings.Builder
	for _, c := range parsed.RawQuery {
		if strings.ContainsRune("\"<>\\^`{|}[]", c) || c > 0x7e {
			query.WriteString(url.QueryEscape(string(c)))
			continue
		}
		query.WriteRune(c)
	}
	parsed.RawQuery = query.String()
	return parsed.String(), true
}

func orWord(text, fallback string) string {
	if text != "" {
		return text
	}
	return fallback
}
