// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const (
	reportStart = `<OWASPZAPReport><site name="http://a" host="a" port="80"><alerts>`
	reportEnd   = `</alerts></site></OWASPZAPReport>`
	alone       = `<alertitem><name>a</name><reference/><instances/></alertitem>`
)

func TestHostileReports(t *testing.T) {
	const inInstance = reportStart + `<alertitem><instances><instance>`
	tooLarge := "too large: an alert with more than"
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessAttribute":        {Start: `<OWASPZAPReport><site name="`, Endless: "a", Want: "too large: a tag of more than 16777216 bytes"},
		"EndlessDescription":      {Start: reportStart + `<alertitem><desc>`, Endless: "text ", Want: tooLarge},
		"EndlessInstances":        {Start: reportStart + `<alertitem><instances>`, Endless: `<instance/>`, Want: tooLarge},
		"EndlessTextOfAnInstance": {Start: inInstance, Endless: `a`, Want: tooLarge},
		"EndlessMembers":          {Start: inInstance, Endless: `<uri>a</uri>`, Want: "the input ends before the document does"},
		"EndlessAttributes":       {Start: reportStart + `<alertitem><instances>`, Endless: `<instance a="b"/>`, Want: tooLarge},
		"EndlessNested":           {Start: reportStart + `<alertitem><desc>`, Endless: `<p/>`, Want: tooLarge},
		"DeeplyNested":            {Start: reportStart + `<alertitem><desc>`, Endless: `<p>`, Want: "nested deeper than 256"},
		"BillionLaughs":           {Start: `<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><OWASPZAPReport a="&b;">`, Want: "unknown entity &b;"},
		"Empty":                   {Want: "the input ends before the document does"},
		"JSON":                    {Start: `{"a":1}`, Want: `line 1, byte 0: text "{\"a\":1}" outside of the root element`},
		"Binary":                  {Start: "\x1f\x8b\x08\x00", Want: "outside of the root element"},
		"HTML":                    {Start: "<!DOCTYPE html>\n<html><body>", Want: `line 2: the root element is "html", not "OWASPZAPReport"`},
		"Truncated":               {Start: reportStart + alone, Want: "ZAP was probably stopped before its end"},
		"NoSite":                  {Start: `<OWASPZAPReport/>`, Want: "the report has no site"},
		"BareSite":                {Start: `<OWASPZAPReport><site>`, Want: "site 1 has no attributes"},
		"NoAlerts":                {Start: "<OWASPZAPReport>\n<site name=\"a\"/>", Want: "line 2: site 1 has no alerts element"},
		"NoInstances":             {Start: reportStart + alone + `<alertitem><reference/></alertitem>`, Want: "alert 2 has no instances"},
		"NoReference":             {Start: reportStart + `<alertitem><instances/></alertitem>`, Want: "alert 1 has no reference"},
		"ReferenceWithChild":      {Start: reportStart + `<alertitem><reference><p/></reference><instances/></alertitem>`, Want: "alert 1 has a reference that is not a text"},
	})
}

// TestManyNames would take minutes if each were looked for among all others.
func TestManyNames(t *testing.T) {
	var report strings.Builder
	report.WriteString(reportStart + `<alertitem><reference/><instances><instance>`)
	for i := range 100_000 {
		report.WriteString(`<m`)
		for n := i; n > 0; n /= 26 {
			report.WriteByte(byte('a' + n%26))
		}
		report.WriteString(`/>`)
	}
	report.WriteString(`</instance></instances></alertitem>` + reportEnd)
	got, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: []byte(report.String())})
	if n := strings.Count(string(got), `":""`); err != nil || n != 100_000 {
		t.Errorf("got %d members, %v", n, err)
	}
}

func TestManyAlertsInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return rawgen.Zap(5000) }})
	if err != nil || n != 5000 {
		t.Errorf("got %d findings, %v", n, err)
	}
}

func TestEmitErrorsEndTheParsing(t *testing.T) {
	full, n := errors.New("disk full"), 0
	in := &sdk.Input{
		Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(reportStart + alone + alone + alone + reportEnd)), nil
		}),
		Scan: &sdk.Scan{}, Limits: sdk.DefaultLimits(), Env: func(string) string { return "" },
	}
	err := sdk.Run(t.Context(), Parser(), in, func(*finding.Finding) error {
		if n++; n == 2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || n != 2 {
		t.Errorf("after %d findings: %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	sdktest.Seeds(f, "testdata")
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	sdktest.Benchmark(b, Parser(), func() io.Reader { return rawgen.Zap(5000) })
}
