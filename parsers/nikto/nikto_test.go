// SPDX-License-Identifier: Apache-2.0

package nikto

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"TwoGiBOfText":   {Start: `[{"banner":"`, Endless: "a", Want: "element too large: more than 16777216 bytes"},
		"EndlessHost":    {Start: `[{"vulnerabilities":[0`, Endless: ",0", Want: ": element too large"},
		"EndlessObject":  {Start: `{"host":"`, Endless: "a", Want: ": element too large"},
		"DeeplyNested":   {Start: `[`, Endless: `[`, Want: "exceeded max depth"},
		"HTML":           {Start: `<html></html>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":         {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":      {Start: `[{"host":"a"},{"host":"b"`, Want: "at /1: the input ends too early"},
		"BadHost":        {Start: `[{},null]`, Want: "host 1: is null, must be an object"},
		"BadMessage":     {Start: `[{},{"vulnerabilities":[0,{"id":"1"}]}]`, Want: "host 1: vulnerability 1: has no msg"},
		"SyntaxInside":   {Start: `[{"host":b}]`, Want: "at /0/host: invalid character 'b'"},
		"Text":           {Start: `"nikto"`, Want: "the report is a string, must be an array"},
		"AfterTheArray":  {Start: `[][]`, Want: "data after the end of the array"},
		"AfterTheObject": {Start: `{}[]`, Want: "data after the end"},
		"LongCWE": {
			Start: `[{"vulnerabilities":[{"msg":"","references":"https://cwe.mitre.org` + strings.Repeat("a", 10_000) + `"}]}]`,
			Want:  "which has no .html page",
		},
	})
}

// many is the report of many hosts.
func many(hosts int) io.Reader {
	const host = `{"host":"www.example.com","ip":"192.0.2.1","port":"443","banner":"nginx","vulnerabilities":[` +
		`{"id":"999103","method":"GET","url":"/","msg":"The X-Content-Type-Options header is not set."},` +
		`{"id":"999957","method":"GET","url":"/","msg":"The header is missing.","references":"https://cwe.mitre.org/data/definitions/79.html"}]}`
	return rawgen.List(`[`, host, hosts, `]`)
}

func TestManyHosts(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }})
	if err != nil || n != 40_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

// TestEveryClassIsAKind holds the two tables together.
func TestEveryClassIsAKind(t *testing.T) {
	p := Parser()
	for _, c := range append(slices.Clip(classes), other) {
		k := p.KindOf(c.category)
		if k == nil || k.Severities[0] != c.severity {
			t.Errorf("%s: got %+v", c.category, k)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `""`, `{"length":1}`, `[{"host":"h","ip":"i","port":"443","vulnerabilities":[null,{"id":"0","msg":"a "}]}]`,
		`[{"vulnerabilities":[{"msg":"\ud800","references":"https://cwe.mitre.org/7.html"}]}]`, `[{"vulnerabilities":7}]`, `[[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(5_000) })
}
