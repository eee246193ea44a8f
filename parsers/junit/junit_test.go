// SPDX-License-Identifier: Apache-2.0

package junit

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestHostileReports(t *testing.T) {
	const start = `<testsuites><testsuite name="s">`
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"Empty":            {Want: "the input ends before the document does"},
		"JSON":             {Start: `{"a":1}`, Want: "outside of the root element"},
		"HTML":             {Start: "\n<html>", Want: `line 2: the root element is "html", not "testsuites" or "testsuite"`},
		"OtherXML":         {Start: `<nmaprun/>`, Want: `the root element is "nmaprun"`},
		"Binary":           {Start: "\x1f\x8b\x08\x00", Want: "outside of the root element"},
		"Truncated":        {Start: start + "\n\n<testcase", Want: "line 3, byte"},
		"NotClosed":        {Start: start + `<testcase name="a"/>`, Want: "the input ends before the document does"},
		"Mismatch":         {Start: start + `</testsuites>`, Want: "line 1, byte"},
		"EndlessAttribute": {Start: start + `<testcase name="`, Endless: "a", Want: "too large: a tag of more than 16777216 bytes"},
		"DeeplyNested":     {Start: start, Endless: `<testsuite name="a">`, Want: "nested deeper than 256"},
		"LongNames":        {Start: start, Endless: `<testsuite name="` + strings.Repeat("a", 1<<18) + `">`, Want: "too large: suites with names of more than 16777216 bytes"},
		"BillionLaughs":    {Start: `<!DOCTYPE testsuites [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><testsuites name="&b;">`, Want: "unknown entity &b;"},
	})
}

// TestHugeTextsAreCut reads failures and output that are far larger than what is kept of them.
func TestHugeTextsAreCut(t *testing.T) {
	report := func() io.Reader {
		return io.MultiReader(
			strings.NewReader(`<testsuite><testcase name="a"><failure>`), strings.NewReader(strings.Repeat("ü", 20<<20)),
			strings.NewReader(`</failure><system-out>`), strings.NewReader(strings.Repeat("text ", 4<<20)), strings.NewReader(`</system-out></testcase></testsuite>`),
		)
	}
	got, err := sdktest.Parse(t, Parser(), sdktest.Case{Open: report})
	if err != nil || len(got) < maxText || len(got) > maxText+1000 || !bytes.Contains(got, []byte(`ü…"`)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestManyTestsInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }})
	if n != 20_000 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

func large(tests int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><testsuites><testsuite name="large">`)
	for i := range tests {
		fmt.Fprintf(&b, `<testcase classname="com.example.Test%d" name="passes" time="0.1"/><testcase classname="com.example.Test%d" name="fails" time="0.1"><failure type="AssertionError" message="want 1, got %d">at com.example.Test%d</failure></testcase>`+"\n", i, i, i, i)
	}
	b.WriteString(`</testsuite></testsuites>`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "<testsuites/>", `<testsuite name="a"><testsuite name="b"><testcase name="[HIGH] CVE-2024-12345" classname="c"><failure type="x" message="m">t&amp;<![CDATA[<x>]]></failure><error/><skipped/></testcase></testsuite></testsuite>`,
		`<testsuites><testcase><failure><failure/></failure></testcase><error/></testsuites>`,
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
