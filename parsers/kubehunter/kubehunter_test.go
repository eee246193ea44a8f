// SPDX-License-Identifier: Apache-2.0

package kubehunter

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
		"EndlessText":    {Start: `{"vulnerabilities":[{"evidence":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessNode":    {Start: `{"nodes":[{"type":["a"`, Endless: `,"b"`, Want: "too large"},
		"DeeplyNested":   {Start: `{"vulnerabilities":[`, Endless: `[`, Want: "max depth"},
		"Empty":          {Want: "the input is empty, must be a JSON report of kube-hunter"},
		"XML":            {Start: `<nmaprun/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":         {Start: "\x1f\x8b\x08", Want: "the input is not JSON"},
		"Truncated":      {Start: `{"vulnerabilities":[{"vid"`, Want: "the input ends too early"},
		"NoLocation":     {Start: `{"vulnerabilities":[{"location":"a","severity":"low"},{}]}`, Want: "vulnerability 1: has no location"},
		"NoSeverity":     {Start: `{"vulnerabilities":[{"location":"a"}]}`, Want: "vulnerability 0: has no severity"},
		"LocalNullNodes": {Start: `{"vulnerabilities":[{"location":"Local to Pod"}],"nodes":null}`, Want: "is local to a pod, but nodes is null"},
		"LocalNullNode":  {Start: `{"vulnerabilities":[{"location":"Local to Pod"}],"nodes":[{},null]}`, Want: "node 1 is null"},
		"SyntaxInside":   {Start: `{"vulnerabilities":[{"vid":b}]}`, Want: "at /vulnerabilities/0/vid: invalid character 'b'"},
		"AfterTheReport": {Start: `{}{}`, Want: "data after the end"},
	})
}

// many is a report whose vulnerabilities are all local to pods, with the nodes at its end.
func many(vulnerabilities int) io.Reader {
	const one = `{"location":"Local to Pod (kube-hunter-4wrs2)","vid":"KHV044","category":"Privilege Escalation","severity":"high",` +
		`"vulnerability":"Privileged Container","description":"A privileged container exists on a node","evidence":"pod: a","hunter":"Pod Hunter"}`
	return rawgen.List(`{"vulnerabilities":[`, one, vulnerabilities, `],"nodes":[{"type":"Node/Master","location":"10.0.0.1"}]}`)
}

func TestManyVulnerabilitiesInLittleMemory(t *testing.T) {
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
