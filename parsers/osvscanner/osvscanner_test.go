// SPDX-License-Identifier: Apache-2.0

package osvscanner

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const start = `{"results":[{"source":{"path":"/src/go.mod"},"packages":[`

func TestHostileReports(t *testing.T) {
	hostile.JSON(t, Parser(), start, `]}]}`)
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":      {Start: `{"matches":[]}`, Want: `is not an osv-scanner report: has no "results"`},
		"EndlessSources": {Start: `{"results":[{}`, Endless: `,{}`, Want: "result 98304: element too large: sources that take more than 6291456 bytes"},
		"NoName":         {Start: start + `{"package":{}}]}]}`, Want: "result 0: package 0: has no package.name"},
		"NoID":           {Start: start + `{"package":{"name":"a"},"vulnerabilities":[{"id":1}]}]}]}`, Want: "package 0: vulnerability 0 id is not a text"},
		"NoIDs":          {Start: start + `{"package":{"name":"a"},"groups":[{}]}]}]}`, Want: "package 0: group 0 has no ids"},
		"BadResult":      {Start: `{"results":[1]}`, Want: "result 0: byte 12, at /results: is a number, must be an object"},
	})
}

func TestReadsTwice(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(10_000) }, Opened: opened})
	if n != 10_000 || err != nil || opened.Load() != 2 {
		t.Errorf("%d findings of %d passes, %v", n, opened.Load(), err)
	}
}

func large(packages int) io.Reader {
	var b bytes.Buffer
	b.WriteString(start)
	for i := range packages {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"package":{"name":"package-%d","version":"1.0.%d","ecosystem":"npm"},"groups":[{"ids":["GHSA-%04d-aaaa-bbbb"],"aliases":["CVE-2024-%05d"],"max_severity":"7.5"}],`+
			`"vulnerabilities":[{"id":"GHSA-%04d-aaaa-bbbb","aliases":["CVE-2024-%05d"],"summary":"A flaw","details":"More of it.","severity":[{"type":"CVSS_V3","score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}],`+
			`"affected":[{"package":{"ecosystem":"npm","name":"package-%d"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"2.0.0"}]}]}]}]}`, i, i, i%9999, i, i%9999, i, i)
	}
	b.WriteString(`]}]}`)
	return &b
}

func TestSameEcosystem(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"npm", "npm", true}, {"npm", "Go", false}, {"Debian:12", "Debian", true}, {"Debian:12", "Debian:11", false}, {"Debian:12", "Debian:12", true}, {"", "", true}} {
		if got := sameEcosystem(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %v", tt.a, tt.b, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", `{"results":null}`, `{"results":[{"packages":[{"package":{"name":"a","deprecated":true},"license_violations":["MIT"],"groups":[{"ids":["A"],"experimental_analysis":{"A":{"called":true}}}],` +
			`"vulnerabilities":[{"id":"A","severity":[{"score":"CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N"}],"affected":[{"package":{"name":"a"},"ranges":[{"events":[{"fixed":"1"}]}]}]},{"id":"B"}]}],"source":{"path":"p"}}]}`,
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
