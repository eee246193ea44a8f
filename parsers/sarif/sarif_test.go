// SPDX-License-Identifier: Apache-2.0

package sarif

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const (
	start   = `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"T"}},"results":[`
	inRules = `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"T","rules":[`
)

func TestHostileReports(t *testing.T) {
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"Empty":            {Want: "is nothing, must be an object"},
		"HTML":             {Start: "<!DOCTYPE html>", Want: "byte 0: the input is not JSON"},
		"Binary":           {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Array":            {Start: "[]", Want: "is an array, must be an object"},
		"Truncated":        {Start: start + `{"ruleId":"a"},{`, Want: "the input ends too early"},
		"EndlessText":      {Start: start + `{"a":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessRuleText":  {Start: inRules + `{"id":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessRules":     {Start: inRules + `{"id":"a"}`, Endless: `,{"id":"rule"}`, Want: "run 0: too large: runs and rules that take more than 6291456 bytes"},
		"EndlessRuns":      {Start: `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"T"}}}`, Endless: `,{"tool":{"driver":{"name":"T"}}}`, Want: "too large: runs and rules"},
		"EndlessOverrides": {Start: `{"runs":[{"invocations":[{}`, Endless: `,{}`, Want: "too large: runs and rules"},
		"LongOverrides":    {Start: `{"runs":[{"invocations":[{}`, Endless: `,{"ruleConfigurationOverrides":[{"descriptor":{"id":"` + strings.Repeat("a", 1<<20) + `"},"configuration":{"level":"note"}}]}`, Want: "too large: runs and rules"},
		"EndlessExtension": {Start: `{"runs":[{"tool":{"extensions":[{}`, Endless: `,{}`, Want: "too large: runs and rules"},
		"DeeplyNested":     {Start: start, Endless: `[`, Want: "max depth"},
		"NullElement":      {Start: start + `null]}]}`, Want: "run 0, result 0: is not an object"},
		"Syntax":           {Start: start + `{"a":b`, Want: "at /runs/0/results/0/a: invalid character 'b'"},
		"BadRule":          {Start: inRules + `1]}}}]}`, Want: "run 0: a rule is not an object"},
	})
}

// manyArtifacts names its only file by its index in a list that is too large to be kept.
func manyArtifacts(location string) func() io.Reader {
	return func() io.Reader {
		return io.MultiReader(
			strings.NewReader(`{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"T","rules":[{"id":"a"}]}},"artifacts":[{"location":{"uri":"a.c"}}`),
			strings.NewReader(strings.Repeat(`,{"location":{"uri":"a/long/path/to/a/file.c"}}`, 200_000)),
			strings.NewReader(`],"results":[{"ruleId":"a","message":{"text":"m"},"locations":[{"physicalLocation":{"artifactLocation":`+location+`}}]}]}]}`),
		)
	}
}

func TestTooManyArtifacts(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: manyArtifacts(`{"uri":"b.c","index":7}`)})
	if n != 1 || err != nil {
		t.Errorf("a result that names its file itself: %d findings, %v", n, err)
	}
	_, err = sdktest.Count(t, Parser(), sdktest.Case{Open: manyArtifacts(`{"index":7}`)})
	if err == nil || !strings.Contains(err.Error(), "run 0, result 0: too large: it names its file by index 7 only") {
		t.Errorf("a result that does not: %v", err)
	}
}

// TestFilesLeaveRoomForRules has as many files as are kept in front of the rules.
func TestFilesLeaveRoomForRules(t *testing.T) {
	limits := sdk.DefaultLimits()
	limits.MaxHeld = 4 << 10
	raw := `{"version":"2.1.0","runs":[{"artifacts":[{"location":{"uri":"a.c"}}` + strings.Repeat(`,{"location":{"uri":"b.c"}}`, 100) +
		`],"tool":{"driver":{"name":"T","rules":[{"id":"a","defaultConfiguration":{"level":"note"}},{"id":"b"},{"id":"c"},{"id":"d"}]}},` +
		`"results":[{"ruleId":"a","message":{"text":"m"},"locations":[{"physicalLocation":{"artifactLocation":{"index":0}}}]}]}]}`
	got, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: []byte(raw), Limits: &limits})
	if err != nil || !strings.Contains(string(got), `"location":"a.c"`) || !strings.Contains(string(got), `"severity":"LOW"`) {
		t.Errorf("%v: %s", err, got)
	}
}

func TestReadsTwice(t *testing.T) {
	opened := &atomic.Int64{}
	raw := []byte(start + `{"message":{"text":"m"}}]}]}`)
	if n, err := sdktest.Count(t, Parser(), sdktest.Case{Raw: raw, Opened: opened}); n != 1 || err != nil || opened.Load() != 2 {
		t.Errorf("%d findings of %d passes, %v", n, opened.Load(), err)
	}
}

// TestManyResultsInLittleMemory also asks that rules behind the results are found.
func TestManyResultsInLittleMemory(t *testing.T) {
	limits := sdk.DefaultLimits()
	limits.MaxHeld = 1 << 16
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Limits: &limits, Open: func() io.Reader { return large(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func large(results int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"version":"2.1.0","runs":[{"results":[`)
	for i := range results {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"ruleId":"js/rule-%d","message":{"text":"Cross-site scripting due to a user-provided value."},"locations":[{"physicalLocation":`+
			`{"artifactLocation":{"uri":"src/file-%d.js"},"region":{"startLine":%d,"startColumn":5}}}],"partialFingerprints":{"primaryLocationLineHash":"%016x:1"}}`, i%50, i%999, i%400+1, i)
	}
	b.WriteString(`],"tool":{"driver":{"name":"CodeQL","rules":[`)
	for i := range 50 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"js/rule-%d","shortDescription":{"text":"Rule %d"},"properties":{"security-severity":"7.5","tags":["external/cwe/cwe-079"]}}`, i, i)
	}
	b.WriteString(`]}}}]}`)
	return &b
}

func TestSubstitute(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "{0}{1}": "ab", "{2}": "{2}", "{{0}}": "{0}", "{": "{", "{0": "{0", "}{": "}{",
		"{01}": "b", "{99999}": "{99999}", "{-1}": "{-1}", "a}}b": "a}b",
	} {
		if got := substitute(text, []any{"a", "b"}); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
	if got := substitute(strings.Repeat("{0}", 1<<15), []any{strings.Repeat("x", 1<<20)}); len(got) > maxMessage+maxText+3 {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", start + `{"ruleId":"a/1","message":{"text":"{0}","arguments":[1]},"rule":{"index":0,"toolComponent":{"index":0}}}]}]}`,
		inRules + `{"id":"a","guid":"g","properties":{"security-severity":"1","tags":["CWE-79"]},"messageStrings":{"m":{"text":"x"}}}]}},"results":[{"message":{"id":"m"},"rule":{"guid":"g"}}]}]}`,
		`{"version":"2.1.0","runs":[{"artifacts":[{"location":{"uri":"a"}}],"invocations":[{"ruleConfigurationOverrides":[{"descriptor":{"id":"a"},"configuration":{"level":"note"}}]}],` +
			`"tool":{"driver":{"name":"T","rules":[{"id":"a"}]}},"results":[{"ruleId":"a","provenance":{"invocationIndex":0},"locations":[{"physicalLocation":{"artifactLocation":{"index":0}}}]}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	raw, err := io.ReadAll(large(10_000))
	if err != nil {
		b.Fatal(err)
	}
	sdktest.Benchmark(b, Parser(), func() io.Reader { return bytes.NewReader(raw) })
}
