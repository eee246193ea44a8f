// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	const image, cluster = `{"ArtifactName":"a","Results":[{"Target":"t","Vulnerabilities":[`, `{"ClusterName":"c","Resources":[{"Results":[{"Misconfigurations":[`
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"Spaces":          {Start: " \n", Want: "the input ends too early"},
		"HTML":            {Start: "<!DOCTYPE html><title>502</title>", Want: "byte 0: the input is not JSON: invalid character '<'"},
		"Binary":          {Start: "\x1f\x8b\x08\x00", Want: "the input is not JSON"},
		"Null":            {Start: "null", Want: "the report is null, must be an object"},
		"Truncated":       {Start: image + `{"VulnerabilityID":"CVE-1"}`, Want: "byte 91, at /Results/0/Vulnerabilities: the input ends too early"},
		"InAnElement":     {Start: image + `{"VulnerabilityID"`, Want: "the input ends too early"},
		"InACluster":      {Start: cluster + `{"ID":"1"}`, Want: "the input ends too early"},
		"EndlessText":     {Start: image + `{"Title":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessElement":  {Start: image + `{"References":["a"`, Endless: `,"b"`, Want: "too large: more than 16777216 bytes"},
		"EndlessName":     {Start: `{"ClusterName":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"EndlessTarget":   {Start: `{"Results":[{"Vulnerabilities":[{}],"Target":"`, Endless: "a", Want: "too large: more than 16777216 bytes"},
		"DeeplyNested":    {Start: image, Endless: "[", Want: "max depth"},
		"SkippedNesting":  {Start: `{"Metadata":`, Endless: `{"a":`, Want: "max depth"},
		"ManyKeys":        {Start: `{"Metadata":{"a":1`, Endless: `,"a":1`, End: `},"ArtifactName":"a","Results":[{}]}`, Want: "result 0: has no Target that is a text"},
		"Trailing":        {Start: image + `]}]} {}`, Want: "data after the end"},
		"TrailingCluster": {Start: `{"ClusterName":"c","Resources":[{}]} {}`, Want: "data after the end"},
	})
}

func TestManyVulnerabilitiesInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return rawgen.TrivyImage(20_000) }})
	if err != nil || n != 20_000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

// TestOrderOfKeys moves what findings need behind what they are made of. The memory that is held must not depend on
// how much that is, and the report must not be read more often than said.
func TestOrderOfKeys(t *testing.T) {
	const vulnerability, issue = `{"VulnerabilityID":"CVE-1","Severity":"LOW"}`, `{"ID":"K","Severity":"LOW"}`
	many := func(element string) string { return "[" + strings.Repeat(element+",", 99_999) + element + "]" }
	vulnerabilities, issues := many(vulnerability), many(issue)
	resource := func(results string) string {
		return `{"Resources":[{"Results":[` + results + `],"Kind":"k","Name":"n","Namespace":"s"}],"ClusterName":"c"}`
	}
	tests := map[string]struct {
		report   string
		findings int
		opened   int64
	}{
		"Usual":        {`{"ArtifactName":"a","Results":[{"Target":"t","Vulnerabilities":` + vulnerabilities + `}]}`, 100_000, 1},
		"ArtifactLast": {`{"Results":[{"Target":"t","Vulnerabilities":` + vulnerabilities + `}],"ArtifactName":"a"}`, 100_000, 2},
		"TargetLast":   {`{"Results":[{"Vulnerabilities":` + vulnerabilities + `,"Target":"t"}],"ArtifactName":"a"}`, 100_000, 3},
		"UsualCluster": {`{"ClusterName":"c","Resources":[{"Namespace":"s","Kind":"k","Name":"n","Results":[{"Target":"t","Class":"c","Type":"y","Vulnerabilities":` +
			vulnerabilities + `,"Misconfigurations":` + issues + `}]}]}`, 200_000, 1},
		"ClusterLast": {resource(`{"Misconfigurations":` + issues + `,"Vulnerabilities":` + vulnerabilities + `,"Type":"y","Class":"c","Target":"t"}`), 200_000, 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int64
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return strings.NewReader(tt.report) }, Opened: &opened})
			runtime.GC()
			runtime.ReadMemStats(&after)
			if err != nil || n != tt.findings || opened.Load() != tt.opened {
				t.Errorf("%d findings, %v, read %d times; want %d, read %d times", n, err, opened.Load(), tt.findings, tt.opened)
			}
			if after.HeapAlloc > before.HeapAlloc+4<<20 {
				t.Errorf("%d bytes are held", after.HeapAlloc-before.HeapAlloc)
			}
		})
	}
}

// TestManyResultsOutOfOrder asks that a reading ahead keeps step with the one that it is for.
func TestManyResultsOutOfOrder(t *testing.T) {
	var results []string
	for i := range 5000 {
		results = append(results, fmt.Sprintf(`{"Vulnerabilities":[{"VulnerabilityID":"CVE-%d","Severity":"LOW"}],"Target":"t%d"}`, i, i))
	}
	var opened atomic.Int64
	report := `{"ArtifactName":"a","Results":[` + strings.Join(results, ",") + `]}`
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Raw: []byte(report), Opened: &opened})
	if err != nil || n != len(results) || opened.Load() != 2 {
		t.Errorf("%d findings, %v, read %d times", n, err, opened.Load())
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"ArtifactName":"a","Results":[{"Target":"go.sum","Vulnerabilities":[{"VulnerabilityID":"CVE-1","Severity":"LOW","References":["http"]}]}]}`,
		`{"Results":[{"Vulnerabilities":[{"VulnerabilityID":"NSWG-1"}],"Target":"t"}],"ArtifactName":"\ud800"}`,
		`{"ClusterName":1,"Resources":[{"Results":[{"Misconfigurations":[{"PrimaryURL":5}],"Vulnerabilities":[{}]},[],""],"Kind":"k"},0]}`,
		`{"Resources":[{"Results":[{"Target":"t","Vulnerabilities":0,"Packages":[]}]}],"ClusterName":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	for _, vulnerabilities := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(vulnerabilities), func(b *testing.B) {
			sdktest.Benchmark(b, Parser(), func() io.Reader { return rawgen.TrivyImage(vulnerabilities) })
		})
	}
}
