// SPDX-License-Identifier: Apache-2.0

package testssl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	t.Run("Flat", func(t *testing.T) { hostile.JSON(t, Parser(), `[`, `]`) })
	t.Run("Pretty", func(t *testing.T) { hostile.JSON(t, Parser(), `{"scanResult":[`, `]}`) })
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":  {Start: `{"matches":[]}`, Want: `is not a testssl report: has no "scanResult"`},
		"OtherArray": {Start: `[{"RuleID":"a"}]`, Want: "entry 0: has no id"},
		"NoSeverity": {Start: `[{"id":"a"}]`, Want: "entry 0: has no severity"},
		"Severity":   {Start: `[{"id":"a","severity":"BAD"}]`, Want: `entry 0: severity "BAD" is none of testssl's`},
		"BadTest":    {Start: `{"scanResult":[{"protocols":[1]}]}`, Want: "endpoint 0: protocols 0: is not an object"},
		"InSection":  {Start: `{"scanResult":[{"protocols":[{"id":"a","severity":"OK"},{}]}]}`, Want: "endpoint 0: protocols 1: has no id"},
		"Problem":    {Start: `{"clientProblem1":[{}]}`, Want: "clientProblem1 0: has no id"},
		"Fatal":      {Start: `[{"id":"scanProblem","severity":"FATAL","finding":"Can't connect"}]`, Want: "testssl could not test anything: scanProblem: Can't connect"},
	})
}

// TestFlatAndPrettyAgree compares what the same server gives in both forms.
func TestFlatAndPrettyAgree(t *testing.T) {
	names := func(name string) (list []string) {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var findings []struct{ Name, Category, Location, Severity string }
		if err := json.Unmarshal(raw, &findings); err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Category != categoryProblem && f.Name != "DNS_CAArecord" { // one scan was made without DNS
				list = append(list, fmt.Sprint(f))
			}
		}
		return list
	}
	if diff := cmp.Diff(names("flat"), names("pretty")); diff != "" {
		t.Errorf("(-flat +pretty):\n%s", diff)
	}
}

func TestManyEndpointsInLittleMemory(t *testing.T) {
	for name, open := range map[string]func(int) io.Reader{"Flat": largeFlat, "Pretty": largePretty} {
		t.Run(name, func(t *testing.T) {
			n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return open(5_000) }})
			if n != 10_000 || err != nil {
				t.Errorf("%d findings, %v", n, err)
			}
		})
	}
}

func largeFlat(hosts int) io.Reader {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range hosts {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"TLS1_2","ip":"host-%d.example.com/198.18.0.1","port":"443","severity":"OK","finding":"offered"},`+
			`{"id":"BEAST","ip":"host-%d.example.com/198.18.0.1","port":"443","severity":"LOW","cve":"CVE-2011-3389","cwe":"CWE-20","finding":"VULNERABLE"}`, i, i)
	}
	b.WriteByte(']')
	return &b
}

func largePretty(hosts int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"scanResult":[`)
	for i := range hosts {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"targetHost":"host-%d.example.com","ip":"198.18.0.1","port":"443","protocols":[{"id":"TLS1_2","severity":"OK","finding":"offered"}],`+
			`"vulnerabilities":[{"id":"BEAST","severity":"LOW","cve":"CVE-2011-3389","cwe":"CWE-20","finding":"VULNERABLE"}]}`, i)
	}
	b.WriteString(`],"scanTime":5}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `[{"id":"SSLv3","ip":"a/1.2.3.4","port":"443","severity":"HIGH","finding":"offered","cve":"CVE-2014-3566"},{"id":"x","ip":"/","port":"443","severity":"WARN","finding":""}]`,
		`{"clientProblem1":[{"id":"a","severity":"WARN","finding":"b"}],"scanResult":[{"targetHost":"a","ip":"[::1]","port":"1","s":[{"id":"TLS1","severity":"LOW","finding":"offered"}]}],"scanTime":"Scan interrupted"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	raw, err := io.ReadAll(largeFlat(10_000))
	if err != nil {
		b.Fatal(err)
	}
	sdktest.Benchmark(b, Parser(), func() io.Reader { return bytes.NewReader(raw) })
}
