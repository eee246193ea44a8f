// SPDX-License-Identifier: Apache-2.0

package nuclei

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":  {Start: `{"info":{"name":"`, Endless: "a", Want: "line 1: element too large: more than 16777216 bytes"},
		"EndlessList":  {Start: `{"info":{"tags":["a"`, Endless: `,"b"`, Want: "line 1: element too large"},
		"DeeplyNested": {Start: "\n{\"info\":[", Endless: "[", Want: "line 2: element too large"},
		"Nested":       {Start: strings.Repeat("[", 300), Want: "line 1: invalid JSON at byte 256: nested deeper than 256 levels"},
		"XML":          {Start: "<nmaprun/>", Want: "line 1: invalid JSON at byte 0: '<' where a value was expected"},
		"Binary":       {Start: "\x1f\x8b\x08\x00", Want: "line 1: invalid JSON at byte 0"},
		"Array":        {Start: `[{"info":{"severity":"low"}}]`, Want: "line 1: has no object info"},
		"Truncated":    {Start: "{\"info\":{\"severity\":\"low\"}}\n{\"info\":{\"sev", Want: "line 2: invalid JSON at byte 13: it ends inside a string"},
	})
}

func TestManyResultsInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return rawgen.Nuclei(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "null", "{}", "\ufeff\n \u00a0{\"info\":{\"severity\":\"Info\"}}\r\n", `{"info":{"severity":"unknown","reference":[null],"classification":{"cwe-id":["cwe-1"]}}}`,
		`{"template-id":"t","info":{"name":"n","severity":"low"},"host":"https://b%41.c:1/","timestamp":"2024-01-02T03:04:05.123456789+02:00"}`,
		`{"info":{"severity":"\ud800ß"},"host":"tcp://[::1","timestamp":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	for _, results := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(results), func(b *testing.B) {
			sdktest.Benchmark(b, Parser(), func() io.Reader { return rawgen.Nuclei(results) })
		})
	}
}
