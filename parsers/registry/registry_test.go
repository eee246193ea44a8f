// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const start = `{"schema":"scanyard.io/registry-findings/1","images":[{"reference":"r/a:1","findings":[`

func TestHostileReports(t *testing.T) {
	hostile.JSON(t, Parser(), start, `]}]}`)
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":       {Start: `{"matches":[]}`, Want: "is not an export of a Registry"},
		"OtherSchema":     {Start: `{"schema":"scanyard.io/registry-findings/2"}`, Want: "schema is scanyard.io/registry-findings/2"},
		"SchemaComesLate": {Start: `{"images":[],"schema":"scanyard.io/registry-findings/1"}`, Want: "schema does not come first"},
		"NoReference":     {Start: `{"schema":"scanyard.io/registry-findings/1","images":[{}]}`, Want: "image 0: has no reference"},
		"FindingsFirst":   {Start: `{"schema":"scanyard.io/registry-findings/1","images":[{"findings":[]}]}`, Want: "image 0: has no reference before its findings"},
		"NoID":            {Start: start + `{"package":{"name":"a"}}]}]}`, Want: "image 0: finding 0: has no vulnerabilityID"},
		"NoPackage":       {Start: start + `{"vulnerabilityID":"CVE-1"}]}]}`, Want: "image 0: finding 0: has no package.name"},
	})
}

func TestReadsOnce(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }})
	if n != 20_000 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

func large(findings int) io.Reader {
	var b bytes.Buffer
	b.WriteString(start)
	for i := range findings {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"vulnerabilityID":"CVE-2024-%05d","package":{"name":"package-%d","version":"1.0","type":"deb","purl":"pkg:deb/debian/package-%d@1.0"},"target":"os",`+
			`"class":"os-pkgs","fixedVersions":["1.1"],"status":"fixed","severity":"HIGH","cvss":[{"source":"nvd","version":"3.1","vector":"CVSS:3.1/AV:N","score":7.5}],"score":7.5,`+
			`"title":"A flaw","description":"More of it.","references":["https://example.com/%d"],"firstSeenAt":"2026-03-01T12:00:00Z"}`, i, i%500, i%500, i)
	}
	b.WriteString(`],"state":"Scanned"}]}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", start + `]}]}`, start + `{"vulnerabilityID":"CVE-2024-1","package":{"name":"a","purl":"pkg:npm/a@1"},"kev":{"dateAdded":"2024-01-01"},"epss":{"score":0.5}}],"state":"Failed"}]}`,
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
