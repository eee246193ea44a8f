// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason string
		filter string
		want   string // as it is printed
	}{
		"Empty":           {"no expression holds for all", " \n", ""},
		"Conjunction":     {"the example of the kind", "severity >= 'high' && cvss >= 8.0 && policy.startsWith('CVE-2024-')", "severity >= 'high' && cvss >= 8 && policy.startsWith('CVE-2024-')"},
		"Precedence":      {"and binds stronger than or", "cvss > 1 || cvss > 2 && cvss > 3", "cvss > 1 || cvss > 2 && cvss > 3"},
		"Parentheses":     {"those that matter stay", "(cvss > 1 || (cvss > 2)) && (cvss > 3)", "(cvss > 1 || cvss > 2) && cvss > 3"},
		"Flat":            {"what is in parentheses for nothing joins its neighbours", "(cvss > 1 && cvss > 2) && (cvss > 3 && (cvss > 4))", "cvss > 1 && cvss > 2 && cvss > 3 && cvss > 4"},
		"FlatOr":          {"the same for or", "cvss > 1 || (cvss > 2 || cvss > 3)", "cvss > 1 || cvss > 2 || cvss > 3"},
		"Not":             {"a comparison is negated in parentheses", "!(cvss > 8)", "!(cvss > 8)"},
		"NotCall":         {"a call needs none", "!has(cvss) && !policy.contains(\"x\")", "!has(cvss) && !policy.contains('x')"},
		"NotNot":          {"two of them are none", "!!(cvss > 8) && !(!(cvss > 1 && cvss > 2))", "cvss > 8 && cvss > 1 && cvss > 2"},
		"Flag":            {"a flag is a term", "suppressed && !suppressed", "suppressed == true && !(suppressed == true)"},
		"FlagCompared":    {"a flag may be compared", "suppressed != false", "suppressed != false"},
		"In":              {"a list", "namespace in ['a', \"b\"] && cvss in [1, 2.50]", "namespace in ['a', 'b'] && cvss in [1, 2.5]"},
		"Dotted":          {"fields of the resource", "resource.kind == 'Pod' && resource.name.startsWith('web-')", "resource.kind == 'Pod' && resource.name.startsWith('web-')"},
		"Escapes":         {"quotes within texts", `policy == 'a\'b\\c\"d\n' || policy == "it's"`, `policy == 'a\'b\\c"d\n' || policy == 'it\'s'`},
		"SQL":             {"what looks like SQL is a text", `rule == '\'; DROP TABLE results; -- %_'`, `rule == '\'; DROP TABLE results; -- %_'`},
		"Times":           {"times are those of UTC, dates begin at midnight", "firstSeen >= '2026-01-31' && timestamp < '2026-01-31T10:00:00+02:00'", "firstSeen >= '2026-01-31T00:00:00Z' && timestamp < '2026-01-31T08:00:00Z'"},
		"Durations":       {"days are a unit", "openFor > '7d' && openFor <= '36h'", "openFor > '168h0m0s' && openFor <= '36h0m0s'"},
		"Negative":        {"a sign belongs to a number", "cvss > -1", "cvss > -1"},
		"DeepestAllowed":  {"as many parentheses as may be", strings.Repeat("(", MaxDepth) + "has(cvss)" + strings.Repeat(")", MaxDepth), "has(cvss)"},
		"ManyParentheses": {"those beside each other do not count", strings.Repeat("(has(cvss)) && ", 49) + "(has(cvss))", strings.Repeat("has(cvss) && ", 49) + "has(cvss)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node, err := Parse(c.filter)
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if diff := cmp.Diff(c.want, node.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ filter, want string }{
		"TooLong":        {strings.Repeat(" ", 5<<10), "position 1: expected 4096 bytes at most, found 5120"},
		"TooDeep":        {strings.Repeat("(", 1000), "position 21: expected 20 parentheses in each other at most"},
		"TooManyTerms":   {strings.Repeat("has(cvss) && ", 50) + "has(cvss)", "position 651: expected 50 terms at most"},
		"TooManyValues":  {"cvss in [" + strings.Repeat("1,", 500) + "1]", "position 1010: expected 500 values at most"},
		"UnknownField":   {"cvss > 1 && colour == 'red'", "position 13: expected a field, found 'colour': the fields are " + fieldNames()},
		"HalfField":      {"resource == 'x'", "position 1: expected a field, found 'resource': the fields are " + fieldNames()},
		"NoOperator":     {"policy 'x'", "position 8: expected ==, !=, in, .startsWith() or .contains(), found a text"},
		"WrongOperator":  {"policy < 'x'", "position 8: expected ==, !=, in, .startsWith() or .contains(), found '<'"},
		"WrongMethod":    {"policy.matches('x')", "position 8: expected ==, !=, in, .startsWith() or .contains(), found 'matches'"},
		"MethodOfNumber": {"cvss.contains('8')", "position 6: expected ==, !=, <, <=, >, >= or in, found 'contains'"},
		"FlagIn":         {"suppressed in [true]", "position 12: expected == or !=, found 'in'"},
		"HasFlag":        {"has(suppressed)", "position 5: expected a field that may be absent"},
		"HasMethod":      {"has(policy.contains)", "position 5: expected a field that may be absent"},
		"NumberAsText":   {"cvss > '8'", "position 8: expected a number, found a text"},
		"TextAsNumber":   {"policy == 8", "position 11: expected a text in quotes, found '8'"},
		"Points":         {"cvss > 1.2.3", "position 8: the value of cvss must be a decimal number, such as 8.5"},
		"Severity":       {"severity >= 'severe'", "position 13: the value of severity must be one of info, low, medium, high, critical"},
		"Result":         {"result == 'FAIL'", "position 11: the value of result must be one of pass, fail, warn, error, skip"},
		"Time":           {"firstSeen > 'monday'", "position 13: the value of firstSeen must be a time of RFC 3339 or a date, such as 2026-01-31T08:00:00Z or 2026-01-31"},
		"Duration":       {"openFor > '-1h'", "position 11: the value of openFor must be a duration of 0 or more, such as 36h or 7d"},
		"Days":           {"openFor > '100001d'", "position 11: the value of openFor must be a duration of 0 or more, such as 36h or 7d"},
		"EmptyText":      {"policy == ''", "position 11: the value of policy must not be empty: has(field) asks whether a value is there"},
		"EmptyList":      {"policy in []", "position 12: expected a text in quotes, found ']'"},
		"OpenList":       {"policy in ['a' 'b']", "position 16: expected , or ], found a text"},
		"OpenText":       {"policy == 'a", `position 13: expected ', which ends the text that begins at position 11, found the end`},
		"BadEscape":      {`policy == 'a\d'`, `position 13: expected one of \\ \' \" \n \r \t: a backslash escapes`},
		"NUL":            {"policy == 'a\x00'", "position 13: expected valid UTF-8 without NUL"},
		"NotUTF8":        {"policy == 'ä\xff'", "position 13: expected valid UTF-8 without NUL"},
		"OpenBracket":    {"(cvss > 1", "position 10: expected &&, || or ), found the end"},
		"Rest":           {"cvss > 1)", "position 9: expected &&, || or the end, found ')'"},
		"Nothing":        {"()", "position 2: expected a field, found ')'"},
		"HalfAnd":        {"cvss > 1 &&", "position 12: expected a field, found the end"},
		"SingleAnd":      {"cvss > 1 & cvss < 2", `position 10: expected a field, a value or an operator, found '&'`},
		"Comment":        {"cvss > 1 -- all", `position 10: expected a field, a value or an operator, found '-'`},
		"BareNot":        {"!severity == 'high'", "position 2: expected ( behind !, found 'severity': a comparison is negated in parentheses"},
		"BareNotFlag":    {"!suppressed == true", "position 2: expected ( behind !, found 'suppressed': a comparison is negated in parentheses"},
		"Reversed":       {"'high' <= severity", "position 1: expected a field, found a text"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.filter)
			if _, ok := errors.AsType[*SyntaxError](err); !ok {
				t.Fatalf("error %v, want a SyntaxError", err)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"severity >= 'high' && cvss >= 8.0 && policy.startsWith('CVE-2024-')", "!(a || b) && !!has(cvss)", "suppressed || !suppressed",
		`rule == "it's \\ \n"`, "cvss in [1, -2.5, 3]", "openFor > '7d' || fixedAt != '2026-01-31'", "((((", "policy == '\xff", "resource.name.contains('%_')",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		node, err := Parse(filter)
		if err != nil {
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok || syntax.Position < 1 || syntax.Position > utf8.RuneCountInString(filter)+1 {
				t.Fatalf("error %v: its position must be in the text", err)
			}
			return
		}
		printed := node.String()
		again, err := parse(printed) // which may be longer than what was read, but not deeper
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", filter, printed, err)
		}
		if diff := cmp.Diff(node, again); diff != "" {
			t.Fatalf("%q is printed as %q, which is another expression:\n%s", filter, printed, diff)
		}
	})
}
