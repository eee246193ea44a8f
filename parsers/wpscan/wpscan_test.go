// SPDX-License-Identifier: Apache-2.0

package wpscan

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
	const start = `{"banner":{},"stop_time":1,"target_url":"a"`
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":    {Start: start + `,"interesting_findings":[{"url":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessFinding": {Start: start + `,"interesting_findings":[{"references":["a"`, Endless: `,"b"`, End: `]}]}`, Want: "too large: more than 16777216 bytes"},
		"EndlessVersion": {Start: `{"version":["a"`, Endless: `,"b"`, Want: "too large"},
		"DeeplyNested":   {Start: start + `,"plugins":`, Endless: `[`, Want: "max depth"},
		"Spaces":         {Start: " ", Want: "the input ends too early"},
		"XML":            {Start: `<nmaprun/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":         {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":      {Start: start + `,"interesting_findings":[`, Want: "the input ends too early"},
		"Aborted":        {Start: `{"banner":{},"target_url":"a","scan_aborted":"no"}`, Want: "has no stop_time; the scan was probably aborted"},
		"NoBanner":       {Start: `{"stop_time":1,"target_url":"a"}`, Want: "has no banner"},
		"BadTime":        {Start: `{"banner":{},"stop_time":"x","target_url":"a"}`, Want: `stop_time "x" is not a time`},
		"NoFindings":     {Start: start + `}`, Want: "has no list of interesting_findings"},
		"Plugin":         {Start: start + `,"interesting_findings":[],"plugin":[]}`, Want: `has a key "plugin"`},
		"NoReferences":   {Start: start + `,"interesting_findings":[{}]}`, Want: "interesting finding 0: has no references"},
		"BadReferences":  {Start: start + `,"interesting_findings":[{"references":{"url":"a"}}]}`, Want: `references of type "url" that are not a list`},
		"BadFinding":     {Start: start + `,"interesting_findings":[7]}`, Want: "interesting finding 0: is not an object"},
		"SyntaxInside":   {Start: `{"banner":b}`, Want: "at /banner: invalid character 'b'"},
		"AfterTheReport": {Start: `{}{}`, Want: "data after the end"},
		"NoTarget":       {Start: `{"target_url":""}]`, Want: "byte 17: invalid character ']'"},
	})
}

// many is a report in WPScan's own order.
func many(findings int) io.Reader {
	const one = `{"url":"https://a.example.com/readme.html","to_s":"WordPress readme found","type":"readme","found_by":"Direct Access",` +
		`"confidence":100,"confirmed_by":{},"references":{"url":["https://b.example.com"]},"interesting_entries":[]}`
	return rawgen.List(`{"banner":{"version":"3.8.28"},"target_url":"https://a.example.com","interesting_findings":[`, one, findings, `],"stop_time":1591480305}`)
}

func TestManyFindingsInTwoPasses(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return many(20_000) }, Opened: opened})
	if err != nil || n != 20_001 || opened.Load() != 2 {
		t.Errorf("got %d findings in %d passes, %v", n, opened.Load(), err)
	}
}

func FuzzParse(f *testing.F) {
	sdktest.Seeds(f, "testdata")
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return many(10_000) })
}
