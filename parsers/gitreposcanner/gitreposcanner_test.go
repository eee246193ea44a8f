// SPDX-License-Identifier: Apache-2.0

package gitreposcanner

import (
	"io"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileDocuments(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":     {Start: `[{"name":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessFinding":  {Start: `[{"topics":["a"`, Endless: `,"b"`, Want: "too large"},
		"EndlessDocument": {Start: `"a`, Endless: `a`, Want: "too large"},
		"DeeplyNested":    {Start: `[`, Endless: `[`, Want: "max depth"},
		"Empty":           {Want: "the input is empty, must be a JSON array of findings"},
		"XML":             {Start: `<nmaprun/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":          {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":       {Start: `[{"name":"a"},{"name"`, Want: "the input ends too early"},
		"Object":          {Start: `{"name":"a"}`, Want: "is an object, must be an array"},
		"Number":          {Start: `7`, Want: "the document is a number, must be an array of findings"},
		"TextElement":     {Start: `[{},"a"]`, Want: "element 1: finding: is a string, must be an object"},
		"SyntaxInside":    {Start: `[{"name":b}]`, Want: "at /0/name: invalid character 'b'"},
		"AfterTheArray":   {Start: `[]{}`, Want: "data after the end"},
	})
}

const repository = `{"name":"GitHub Repo","description":"A GitHub repository","category":"Git Repository","osi_layer":"APPLICATION",` +
	`"severity":"INFORMATIONAL","attributes":{"id":1,"web_url":"https://github.com/example/app","full_name":"example/app","topics":["a"]}}`

func many(repositories int) io.Reader {
	return rawgen.List(`[`, repository, repositories, `]`)
}

func TestManyRepositoriesInLittleMemory(t *testing.T) {
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
