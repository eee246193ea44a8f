// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/expression"
)

const port = `{"id":"1","category":"Open Port","name":"Open Port: 443","severity":"LOW","location":null,"ticket":"T-1",` +
	`"attributes":{"port":443,"ratio":0.5,"service":"https","tunnel":null,"ip_addresses":["10.0.0.1","10.0.0.2"]}}`

func object(tb testing.TB, text string) finding.Object {
	tb.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		tb.Fatal(err)
	}
	o, ok := v.(finding.Object)
	if !ok {
		tb.Fatalf("%s is not an object", text)
	}
	return o
}

func TestMatches(t *testing.T) {
	cases := map[string]struct {
		text   string
		want   bool
		reason string
	}{
		"Equal":            {`finding.category == "Open Port"`, true, "texts"},
		"WholeNumber":      {`finding.attributes.port == 443`, true, "whole numbers are integers"},
		"NumberAgainst":    {`finding.attributes.port > 442.5 && finding.attributes.ratio < 1`, true, "numbers compare across types"},
		"NumberIsNoText":   {`finding.attributes.port == "443"`, false, "types differ"},
		"InList":           {`finding.attributes.port in [80, 443]`, true, "membership"},
		"Regex":            {`finding.name.matches("^Open Port: [0-9]+$")`, true, "regular expressions"},
		"Elements":         {`finding.attributes.ip_addresses.exists(a, a.startsWith("10."))`, true, "elements of lists"},
		"Missing":          {`finding.attributes.nosuch == 1`, false, "a field that is not there"},
		"MissingTopLevel":  {`finding.mitigation == "x"`, false, "nor this"},
		"MissingNegated":   {`finding.attributes.nosuch != 1`, false, "a missing field makes neither true"},
		"Has":              {`!has(finding.attributes.nosuch) && has(finding.attributes.tunnel)`, true, "who wants to know asks"},
		"Optional":         {`finding.attributes.?nosuch.orValue("x") == "x"`, true, "or says what to take"},
		"Null":             {`finding.location == null`, true, "null is a value"},
		"OwnField":         {`finding["ticket"] == "T-1"`, true, "fields of one's own are in brackets"},
		"MixedTypes":       {`finding.attributes.port.startsWith("4")`, false, "a number has no beginning"},
		"DynamicResult":    {`finding.attributes.service`, false, "what is not true is no"},
		"ShortCircuitOr":   {`finding.attributes.nosuch == 1 || finding.attributes.port == 443`, true, "or does not mind"},
		"StringsExtension": {`finding.attributes.service.upperAscii() == "HTTPS"`, true, "functions on texts"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x, err := expression.Compile(c.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.Matches(object(t, port))
			if err != nil || got != c.want {
				t.Errorf("%s: got %t, %v", c.reason, got, err)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	cases := map[string]struct{ text, says string }{
		"Syntax":          {`finding.category ==`, "Syntax error"},
		"Empty":           {``, "Syntax error"},
		"OtherVariable":   {`scan.metadata.name == "x"`, "undeclared reference to 'scan'"},
		"NotBoolean":      {`finding.category + "x"`, "yields string, want bool"},
		"Number":          {`1 + 1`, "the expression yields int, want bool"},
		"Misspelled":      {`finding.severty == "HIGH"`, `a finding has no field "severty"; there are attributes, category,`},
		"MisspelledHas":   {`has(finding.severty)`, `a finding has no field "severty"`},
		"MisspelledInner": {`[1].exists(x, finding.?sverity.orValue("") == "a")`, `a finding has no field "sverity"`},
		"NoSuchFunction":  {`finding.name.shout()`, "undeclared reference to 'shout'"},
		"TooLong":         {strings.Repeat(" ", expression.MaxLength) + "true", "4096 are allowed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := expression.Compile(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func TestCostIsBounded(t *testing.T) {
	var list []string
	for i := range 2000 {
		list = append(list, strconv.Itoa(i))
	}
	f := object(t, `{"attributes":{"l":[`+strings.Join(list, ",")+`]}}`)
	x, err := expression.Compile(`finding.attributes.l.all(a, finding.attributes.l.all(b, finding.attributes.l.exists(c, a + b + c >= 0)))`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Matches(f); !errors.Is(err, expression.ErrTooExpensive) {
		t.Errorf("error %v, want %v", err, expression.ErrTooExpensive)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`finding.attributes.port in [80] || finding["a"].b.exists(x, x.matches(".*"))`)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := expression.Compile(text)
		if err != nil {
			return
		}
		if _, err := x.Matches(object(t, port)); err != nil && !errors.Is(err, expression.ErrTooExpensive) {
			t.Errorf("error %v", err)
		}
	})
}
