// SPDX-License-Identifier: Apache-2.0

package semgrep

import (
	"io"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"Empty":             {Start: "", Want: "the report is empty"},
		"TwoGiBOfText":      {Start: `{"results":[{"extra":{"lines":"`, Endless: "a", Want: "element too large: more than 16777216 bytes"},
		"EndlessResult":     {Start: `{"results":[{"extra":{"metavars":[1`, Endless: ",1", Want: ": element too large"},
		"EndlessPaths":      {Start: `{"paths":{"scanned":["a"`, Endless: `,"a"`, Want: "the input ends too early"},
		"DeeplyNested":      {Start: `{"results":[`, Endless: `[`, Want: "exceeded max depth"},
		"HTML":              {Start: `<html></html>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":            {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":         {Start: `{"results":[{"check_id":"a"`, Want: "at /results/0: the input ends too early"},
		"NoStart":           {Start: `{"results":[{}]}`, Want: "result 0: has no start"},
		"NoMetadata":        {Start: `{"results":[{"start":{},"end":{},"extra":{"severity":"INFO"}}]}`, Want: "result 0: has no metadata"},
		"NoSeverity":        {Start: `{"results":[{"start":{},"end":{},"extra":{"metadata":{}}}]}`, Want: "result 0: has no severity"},
		"ResultsNotAnArray": {Start: `{"results":{"a":1}}`, Want: "results is an object, must be an array"},
		"SyntaxInside":      {Start: `{"results":[{"path":b}]}`, Want: "at /results/0/path: invalid character 'b'"},
		"Twice":             {Start: `{"results":[],"results":[]}`, Want: `key "results" appears twice`},
		"AfterTheReport":    {Start: `{"results":[]}[]`, Want: "data after the end"},
	})
}

func many(results int) io.Reader {
	const result = `{"check_id":"rules.eval","path":"src/a.py","start":{"line":3,"col":1,"offset":40},"end":{"line":5,"col":2,"offset":90},` +
		`"extra":{"message":"Do not use eval.","severity":"ERROR","lines":"eval(x)","metavars":{"$X":{"abstract_content":"x"}},` +
		`"metadata":{"category":"security","cwe":["CWE-95: Eval Injection"],"owasp":["A03:2021 - Injection"],` +
		`"references":["https://example.com/eval"],"source":"https://semgrep.dev/r/rules.eval"}}}`
	return rawgen.List(`{"version":"1.130.0","results":[`, result, results, `],"errors":[]}`)
}

func TestManyResults(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"results":[]}`, `{"results":null}`, `{"results":[{"start":{},"end":{},"extra":{"severity":"INFO","metadata":{}}}]}`,
		`{"results":[{"check_id":"a","path":"b","start":{"line":1},"end":{"line":2},"extra":{"message":"m","severity":"ERROR",` +
			`"metadata":{"cwe":["CWE-1\ud83d\ude00"],"references":["u",null],"category":7}}}]}`, `{"results":[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(10_000) })
}
