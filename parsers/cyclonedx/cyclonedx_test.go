// SPDX-License-Identifier: Apache-2.0

package cyclonedx

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

func TestHostileReports(t *testing.T) {
	for _, list := range []string{"components", "vulnerabilities", "services"} {
		t.Run(list, func(t *testing.T) { hostile.JSON(t, Parser(), `{"bomFormat":"CycloneDX","`+list+`":[`, `]}`) })
	}
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"XML":          {Start: `<?xml version="1.0"?><bom xmlns="http://cyclonedx.org/schema/bom/1.5"/>`, Want: "byte 0: the input is not JSON: invalid character '<'"},
		"SPDX":         {Start: `{"spdxVersion":"SPDX-2.3"}`, Want: `is not a CycloneDX document: its bomFormat is not "CycloneDX"`},
		"Array":        {Start: `[]`, Want: "is an array, must be an object"},
		"NoID":         {Start: `{"bomFormat":"CycloneDX","vulnerabilities":[{}]}`, Want: "vulnerability 0: has no id"},
		"HugeMetadata": {Start: `{"metadata":{"component":{"name":"`, Endless: "a", Want: "too large"},
	})
}

// TestPasses counts how often a document is read, and asks for the same findings when names do not fit into memory but
// for the names.
func TestPasses(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000, 0) }, Opened: opened})
	if n != 1 || err != nil || opened.Load() != 1 {
		t.Errorf("without vulnerabilities: %d findings of %d passes, %v", n, opened.Load(), err)
	}
	opened.Store(0)
	limits := sdk.DefaultLimits()
	limits.MaxHeld = 300
	got, err := sdktest.Parse(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(5, 5) }, Opened: opened, Limits: &limits})
	if err != nil || opened.Load() != 3 {
		t.Errorf("with vulnerabilities: %d passes, %v", opened.Load(), err)
	}
	for _, want := range []string{`"packages":["package-0"]`, `"packages":["ref-4"]`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}

func TestManyVulnerabilitiesInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(10_000, 10_000) }})
	if n != 10_001 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

// large has the vulnerabilities in front of the components.
func large(components, vulnerabilities int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"bomFormat":"CycloneDX","specVersion":"1.6","vulnerabilities":[`)
	for i := range vulnerabilities {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"CVE-2024-%05d","ratings":[{"score":7.5,"severity":"high","method":"CVSSv31","vector":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}],"description":"A flaw.","affects":[{"ref":"ref-%d"}]}`, i, i)
	}
	b.WriteString(`],"components":[`)
	for i := range components {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"bom-ref":"ref-%d","type":"library","name":"package-%d","version":"1.0.%d","purl":"pkg:npm/package-%d@1.0.%d","licenses":[{"license":{"id":"MIT"}}]}`, i, i, i, i, i)
	}
	b.WriteString(`]}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", `{"bomFormat":"CycloneDX","metadata":{"component":{"name":"a","bom-ref":"r"},"tools":[{"name":"t"}]},"components":[{"type":"library","bom-ref":"c","name":"b","purl":"pkg:npm/b@1","licenses":[{"expression":"MIT"}],"components":[{}]}],` +
			`"vulnerabilities":[{"id":"CVE-2024-12345","affects":[{"ref":"c"},{"ref":"r"}],"ratings":[{"vector":"AV:N/AC:L/Au:N/C:P/I:P/A:P"}],"cwes":[79]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	raw, err := io.ReadAll(large(10_000, 10_000))
	if err != nil {
		b.Fatal(err)
	}
	sdktest.Benchmark(b, Parser(), func() io.Reader { return bytes.NewReader(raw) })
}
