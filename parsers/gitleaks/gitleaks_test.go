// SPDX-License-Identifier: Apache-2.0

package gitleaks

import (
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	tests := map[string]struct {
		in   io.Reader
		want string
	}{
		"TwoGiBOfText":  {io.MultiReader(strings.NewReader(`[{"Match":"`), io.LimitReader(rawgen.Endless("a"), 2<<30)), "element too large: more than 16777216 bytes"},
		"EndlessLeak":   {io.MultiReader(strings.NewReader(`[{"Tags":["a"`), rawgen.Endless(`,"b"`)), ": element too large"},
		"DeeplyNested":  {io.MultiReader(strings.NewReader(`[`), rawgen.Endless(`[`)), "exceeded max depth"},
		"XML":           {strings.NewReader(`<nmaprun/>`), "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":        {strings.NewReader("\x1f\x8b\x08"), "the input is not JSON"},
		"Truncated":     {strings.NewReader(`[{"RuleID":"a","Tags":[]},{"RuleID":"b"`), "byte 39, at /1: the input ends too early"},
		"BadLeak":       {strings.NewReader(`[{"RuleID":"a","Tags":[]},{"RuleID":"b"}]`), "leak 1: has no Tags"},
		"SyntaxInside":  {strings.NewReader(`[{"RuleID":"a","Tags":[]},{"RuleID":b}]`), "byte 36, at /1/RuleID: invalid character 'b'"},
		"AfterTheArray": {strings.NewReader(`[][]`), "data after the end of the array"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return tt.in }})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got %v", tt.want, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 80<<20 {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

func TestManyLeaksInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return rawgen.Gitleaks(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", `[{"RuleID":"a","Commit":"c","Tags":["HIGH"],"StartLine":1e3}]`, `[{"Tags":["\ud800"]}]`, `[[[`, "[{}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	for _, leaks := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(leaks), func(b *testing.B) {
			sdktest.Benchmark(b, Parser(), func() io.Reader { return rawgen.Gitleaks(leaks) })
		})
	}
}
