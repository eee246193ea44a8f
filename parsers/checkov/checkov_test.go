// SPDX-License-Identifier: Apache-2.0

package checkov

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const start = `{"check_type":"terraform","results":{"failed_checks":[`

func TestHostileReports(t *testing.T) {
	hostile.JSON(t, Parser(), start, `]}}`)
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":      {Start: `{"matches":[]}`, Want: "is not a checkov report: has neither results nor a checkov_version"},
		"OtherArray":     {Start: `[{"results":{}},{"RuleID":"a"}]`, Want: "report 1: is not a checkov report"},
		"EndlessReports": {Start: `[{"results":null}`, Endless: `,{"results":null}`, Want: "report 10000: element too large: more than 10000 reports"},
		"NoID":           {Start: `[` + start + `{}]}}]`, Want: "report 0: failed check 0: has no check_id"},
		"NotAReport":     {Start: `[1]`, Want: "report 0: byte 1: is a number, must be an object"},
		"ResultsList":    {Start: `{"results":[]}`, Want: "at /results: is an array, must be an object"},
	})
}

func TestManyChecksInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }})
	if n != 20_000 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

func large(checks int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`[` + start)
	for i := range checks {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"check_id":"CKV_AWS_%d","bc_check_id":"BC_AWS_%d","check_name":"Ensure that it is encrypted","check_result":{"result":"FAILED","evaluated_keys":["encrypted"]},`+
			`"code_block":[[%d,"resource {"],[%d,"}"]],"file_path":"/module-%d/main.tf","file_line_range":[%d,%d],"resource":"aws_ebs_volume.disk_%d","severity":null,"guideline":"https://docs.example.com/policy-%d"}`,
			i%300, i%300, i, i+1, i%50, i, i+1, i, i%300)
	}
	b.WriteString(`]}}]`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"checkov_version":"3"}`, start + `{"check_id":"a","severity":"LOW","file_line_range":[1,2]}]}}`,
		`[{"results":{"failed_checks":[{"check_id":"a","vulnerability_details":{"id":"CVE-2024-12345","package_name":"p","cvss":7.5}},{"check_id":"b","vulnerability_details":{"license":"MIT"}}]},"check_type":"sca_package"}]`,
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
