// SPDX-License-Identifier: Apache-2.0

package whatweb

import (
	"io"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileLogs(t *testing.T) {
	const headers = `"request_config":{"headers":{}}`
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":      {Start: `[{"target":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessTarget":    {Start: `[{"a":["a"`, Endless: `,"b"`, Want: "too large"},
		"DeeplyNested":     {Start: `[`, Endless: `[`, Want: "max depth"},
		"Spaces":           {Start: "\n", Want: "the input ends too early"},
		"InvalidArguments": {Start: "[\n", Want: "happens when WhatWeb is given invalid arguments"},
		"XML":              {Start: `<nmaprun/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":           {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":        {Start: `[{},{"target"`, Want: "the input ends too early"},
		"NullTarget":       {Start: `[{},null]`, Want: "target 1: is null, must be an object"},
		"NoHeaders":        {Start: `[{"target":"a"}]`, Want: "target 0: has no request_config.headers"},
		"NoTitle":          {Start: `[{` + headers + `,"plugins":{"Title":{}}}]`, Want: `target 0: plugin "Title" has no string`},
		"NoModule":         {Start: `[{` + headers + `,"plugins":{"Country":{"string":["a"]}}}]`, Want: `plugin "Country" has no module`},
		"PluginIsText":     {Start: `[{` + headers + `,"plugins":{"X":"y"}}]`, Want: `plugin "X" is not an object`},
		"SyntaxInside":     {Start: `[{"target":b}]`, Want: "at /0/target: invalid character 'b'"},
		"AfterTheLog":      {Start: `[]{}`, Want: "data after the end"},
	})
}

// TestManyPlugins would take minutes if each were looked for among all others.
func TestManyPlugins(t *testing.T) {
	var log strings.Builder
	log.WriteString(`[{"request_config":{"headers":{}},"plugins":{"0":{}`)
	for i := range 200_000 {
		log.WriteString(`,"p`)
		for n := i; n > 0; n /= 26 {
			log.WriteByte(byte('a' + n%26))
		}
		log.WriteString(`":{}`)
	}
	log.WriteString(`}}]`)
	got, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: []byte(log.String())})
	if n := strings.Count(string(got), `":""`); err != nil || n != 200_001 {
		t.Errorf("got %d attributes, %v", n, err)
	}
}

func many(targets int) io.Reader {
	const target = `{"target":"http://a.example.com","http_status":200,"request_config":{"headers":{"User-Agent":"WhatWeb/0.6.4"}},` +
		`"plugins":{"Country":{"string":["UNITED STATES"],"module":["US"]},"HTML5":{},"HTTPServer":{"string":["nginx"]},` +
		`"IP":{"string":["192.0.2.1"]},"Title":{"string":["Home"]}}}`
	return rawgen.List(`[`, target, targets, `]`)
}

func TestManyTargetsInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	sdktest.Seeds(f, "testdata")
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(10_000) })
}
