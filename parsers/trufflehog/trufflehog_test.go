// SPDX-License-Identifier: Apache-2.0

package trufflehog

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
	const good = `{"DetectorName":"AWS","Verified":false}` + "\n"
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"EndlessText":   {Start: `{"DetectorName":"`, Endless: "a", Want: "line 1: element too large: more than 16777216 bytes"},
		"EndlessLine":   {Start: good + `{"DetectorName":"a","x":[1`, Endless: ",1", Want: "line 2: element too large"},
		"DeeplyNested":  {Start: good + strings.Repeat("[", 1000), Want: "line 2: invalid JSON at byte 256: nested deeper than 256 levels"},
		"HTML":          {Start: "<!DOCTYPE html>", Want: "line 1: invalid JSON at byte 0: '<' where a value was expected"},
		"Binary":        {Start: "\x1f\x8b\x08", Want: "line 1: invalid JSON"},
		"Truncated":     {Start: good + `{"DetectorName":"a`, Want: "line 2: invalid JSON at byte 18: it ends inside a string"},
		"Array":         {Start: `[` + good + `]`, Want: "line 1: invalid JSON"},
		"Null":          {Start: "null", Want: "line 1: is not an object"},
		"OtherObject":   {Start: good + "\n" + `{"results":[]}`, Want: "line 3: has no DetectorName"},
		"OldFormat":     {Start: `{"branch":"main","reason":"High Entropy","stringsFound":["x"]}`, Want: "line 1: has no DetectorName"},
		"NotVerified":   {Start: `{"DetectorName":"a","Verified":"no"}`, Want: "line 1: does not say whether the secret is Verified"},
		"TwoOnALine":    {Start: `{"DetectorName":"a","Verified":true} {}`, Want: "line 1: invalid JSON at byte 37"},
		"DetectorIsOdd": {Start: `{"DetectorName":5,"Verified":true}`, Want: "line 1: DetectorName is not a text"},
	})
}

// TestSecretIsNotInFinding looks for the secret in all that a finding says.
func TestSecretIsNotInFinding(t *testing.T) {
	const secret = "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"
	for name, members := range map[string]string{
		"Raw":      `"Raw":"` + secret + `"`,
		"RawV2":    `"RawV2":"` + secret + `","Raw":""`,
		"Repeated": `"Raw":"` + secret + `","RawV2":"` + secret + `","Redacted":"` + secret + `"`,
		"Both":     `"Raw":"id","RawV2":"id:` + secret + `","Redacted":"id:` + secret + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(`{"DetectorName":"Github","Verified":true,` + members + `,"StructuredData":{"token":"` + secret + `"}}`)
			got, err := sdktest.Parse(t, Parser(), sdktest.Case{Raw: raw})
			if err != nil || bytes.Contains(got, []byte(secret)) {
				t.Errorf("%v: %s", err, got)
			}
			got, err = sdktest.Parse(t, Parser(), sdktest.Case{Raw: raw, Env: map[string]string{includeSecrets: "true"}})
			if err != nil || !bytes.Contains(got, []byte(secret)) {
				t.Errorf("asked for, but not there (%v): %s", err, got)
			}
		})
	}
}

func TestMask(t *testing.T) {
	for secret, want := range map[string]string{
		"": "…", "short": "…", "fifteen letters": "…", "sixteen  letters": "sixt…", strings.Repeat("ü", 16): "üüüü…",
	} {
		if got := mask(secret); got != want {
			t.Errorf("%q: got %q", secret, got)
		}
	}
}

func TestManySecretsInLittleMemory(t *testing.T) {
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }})
	if n != 20_000 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
}

func large(secrets int) io.Reader {
	var b bytes.Buffer
	for i := range secrets {
		fmt.Fprintf(&b, `{"SourceMetadata":{"Data":{"Git":{"commit":"%040x","file":"config/%d.env","email":"Jane <jane@example.com>","repository":"https://git.example.com/team/app","timestamp":"2026-01-01 00:00:00 +0000","line":%d}}},`+
			`"SourceID":1,"SourceType":16,"SourceName":"trufflehog - git","DetectorType":2,"DetectorName":"AWS","DecoderName":"PLAIN","Verified":false,"Raw":"AKIA%016d","RawV2":"AKIA%016d:secret-%d","Redacted":"AKIA%016d","ExtraData":{"account":"1"},"StructuredData":null}`+"\n", i, i, i+1, i, i, i, i)
	}
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "null", `{"level":"info-0","msg":"running source"}` + "\n" + `{"DetectorName":"a","Verified":true,"Raw":"abc","Redacted":"a","SourceMetadata":{"Data":{"Docker":{"image":"i","tag":"t","file":"f","line":1}}},"ExtraData":{"rotation_guide":"https://example.com"}}`,
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
