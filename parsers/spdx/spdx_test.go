// SPDX-License-Identifier: Apache-2.0

package spdx

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	for _, list := range []string{"packages", "files", "relationships", "@graph"} {
		t.Run(list, func(t *testing.T) { hostile.JSON(t, Parser(), `{"spdxVersion":"SPDX-2.3","`+list+`":[`, `]}`) })
	}
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"TagValue":  {Start: "SPDXVersion: SPDX-2.3\n", Want: "byte 0: the input is not JSON: invalid character 'S'"},
		"CycloneDX": {Start: `{"bomFormat":"CycloneDX"}`, Want: `is not an SPDX document: has neither`},
		"NoGraph":   {Start: `{"@graph":[]}`, Want: `is not an SPDX document: has neither`},
		"Array":     {Start: `[]`, Want: "is an array, must be an object"},
		"HugeName":  {Start: `{"name":"`, Endless: "a", Want: "too large"},
	})
}

func TestManyPackagesInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(50_000) }})
	if n != 1 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

func large(packages int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"spdxVersion":"SPDX-2.3","name":"large","packages":[`)
	for i := range packages {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"package-%d","SPDXID":"SPDXRef-%d","versionInfo":"1.0","licenseDeclared":"LicenseRef-%d","externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:npm/package-%d@1.0"}]}`, i, i, i, i)
	}
	b.WriteString(`]}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", `{"spdxVersion":"SPDX-2.3","name":"a","creationInfo":{"creators":["Tool: t"]},"packages":[{"licenseConcluded":"MIT","externalRefs":[{"referenceType":"purl","referenceLocator":"pkg:npm/a@1"}]}],"files":[{}],"relationships":[{}]}`,
		`{"@graph":[{"type":"CreationInfo","specVersion":"3.0.1"},{"type":"software_Package","software_packageUrl":"pkg:npm/a@1"},{"type":"software_File"}]}`,
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
