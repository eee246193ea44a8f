// SPDX-License-Identifier: Apache-2.0

package grype

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

func TestHostileReports(t *testing.T) {
	hostile.JSON(t, Parser(), `{"matches":[`, `]}`)
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":  {Start: `{"results":[]}`, Want: `is not a grype report: has no "matches"`},
		"NoID":       {Start: `{"matches":[{"vulnerability":{},"artifact":{"name":"a"}}]}`, Want: "match 0: has no vulnerability.id"},
		"NoPackage":  {Start: `{"matches":[{"vulnerability":{"id":"CVE-1"}}]}`, Want: "match 0: has no artifact.name"},
		"NumberID":   {Start: `{"matches":[{"vulnerability":{"id":1}}]}`, Want: "match 0: vulnerability.id is not a text"},
		"NotAList":   {Start: `{"matches":{}}`, Want: "at /matches: is an object, must be an array"},
		"HugeSource": {Start: `{"matches":[],"source":{"target":"`, Endless: "a", Want: "too large"},
	})
}

func TestReadsTwice(t *testing.T) {
	opened := &atomic.Int64{}
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }, Opened: opened})
	if n != 20_000 || err != nil || opened.Load() != 2 {
		t.Errorf("%d findings of %d passes, %v", n, opened.Load(), err)
	}
}

func large(matches int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"matches":[`)
	for i := range matches {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"vulnerability":{"id":"CVE-2024-%05d","severity":"High","namespace":"debian:distro:debian:12","dataSource":"https://security-tracker.debian.org/tracker/CVE-2024-%05d",`+
			`"urls":[],"description":"A flaw.","cvss":[{"vector":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H","metrics":{"baseScore":7.5}}],"fix":{"versions":["1.%d"],"state":"fixed"}},`+
			`"relatedVulnerabilities":[],"artifact":{"name":"package-%d","version":"1.0","type":"deb","locations":[{"path":"/var/lib/dpkg/status"}],"purl":"pkg:deb/debian/package-%d@1.0"}}`, i, i, i, i%500, i%500)
	}
	b.WriteString(`],"source":{"type":"image","target":{"userInput":"registry.example.com/app:1"}}}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", `{"matches":[]}`, `{"matches":[{"vulnerability":{"id":"CVE-2024-12345","severity":"Unknown","cvss":[{"vector":"AV:N/AC:L/Au:N/C:P/I:P/A:P","metrics":{}}],` +
			`"epss":[{"epss":0.5}],"knownExploited":[{}],"fix":{"versions":["1"],"state":"wont-fix"}},"relatedVulnerabilities":[{"id":"GHSA-jfh8-c2jp-5v3q","description":"d"}],` +
			`"artifact":{"name":"a","locations":[{"path":"/p"}]}}],"source":{"target":{"userInput":"i"}},"distro":{"name":"debian"}}`,
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
