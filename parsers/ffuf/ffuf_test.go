// SPDX-License-Identifier: Apache-2.0

package ffuf

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"TwoGiBOfText":      {Start: `{"results":[{"url":"`, Endless: "a", Want: "element too large: more than 16777216 bytes"},
		"EndlessTime":       {Start: `{"time":[1`, Endless: ",1", Want: "element too large"},
		"EndlessKeys":       {Start: `{"results":[{"input":{"a":1`, Endless: `,"b":1`, Want: "the input ends too early"},
		"DeeplyNested":      {Start: `{"results":[`, Endless: `[`, Want: "exceeded max depth"},
		"XML":               {Start: `<nmaprun/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":            {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":         {Start: `{"results":[{"url":"a"},{"url"`, Want: "at /results/1/url: the input ends too early"},
		"BadResult":         {Start: `{"time":1,"results":[{},null]}`, Want: "result 1: is null, must be an object"},
		"SyntaxInside":      {Start: `{"results":[{},{"url":b}]}`, Want: "at /results/1/url: invalid character 'b'"},
		"ResultsNotAnArray": {Start: `{"results":{"a":1}}`, Want: "results is an object, must be an array"},
		"NoTime":            {Start: `{"results":[{}]}`, Want: "the report has no time"},
		"BadTime":           {Start: `{"results":[{}],"time":"soon"}`, Want: `time "soon" is not a date`},
		"Twice":             {Start: `{"time":1,"results":[],"results":[{}]}`, Want: `key "results" appears twice`},
		"AfterTheReport":    {Start: `{"results":[]}[]`, Want: "data after the end"},
	})
}

// many is a report in ffuf's own order.
func many(results int) io.Reader {
	const result = `{"input":{"FUZZ":"admin"},"position":1,"status":200,"length":1024,"words":31,"lines":12,` +
		`"content-type":"text/html","redirectlocation":"","duration":14335592,"resultfile":"",` +
		`"url":"https://www.example.com/admin","host":"www.example.com"}`
	return rawgen.List(`{"commandline":"ffuf","time":"2026-03-01T12:30:15Z","results":[`, result, results, `],"config":{"postdata":"","headers":{"Accept":"*/*"}}}`)
}

func TestManyResultsInTwoPasses(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }, Opened: opened})
	if err != nil || n != 20_000 || opened.Load() != 2 {
		t.Errorf("got %d findings in %d passes, %v", n, opened.Load(), err)
	}
}

func TestNoResultsInOnePass(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Raw: []byte(`{"results":[]}`), Opened: opened})
	if err != nil || n != 0 || opened.Load() != 1 {
		t.Errorf("got %d findings in %d passes, %v", n, opened.Load(), err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"results":[{"input":{"F":"a","1":[null]},"host":"h","url":7}],"config":{"headers":{}},"time":"2026-03-01"}`,
		`{"time":0,"results":[7,"\ud800",[1]]}`, `{"results":[null],"time":"x"}`, `{"results":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(10_000) })
}
