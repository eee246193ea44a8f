// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func data(t *testing.T) any {
	v, err := Data([]byte(`{"scan":{"metadata":{"name":"nmap-x"}},"findings":[
		{"name":"a \"b\" <c> & d: e","severity":"HIGH","attributes":{"port":12345678,"ratio":0.5,"big":12345678901234567890}},
		{"name":"x","severity":"LOW","attributes":{"port":443},"parsed_at":"2026-01-31T12:00:00+01:00"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestText(t *testing.T) {
	cases := map[string]struct{ template, want, reason string }{
		"Count":         {`{{len .findings}} of {{.scan.metadata.name}}`, "2 of nmap-x", ""},
		"MissingKey":    {`[{{.scan.nothing}}][{{.nothing | default "none"}}]`, "[][none]", "no <no value>"},
		"Numbers":       {`{{range .findings}}{{.attributes.port}} {{end}}{{(index .findings 0).attributes.ratio}}`, "12345678 443 0.5", "as they were written"},
		"Comparison":    {`{{range .findings}}{{if eq .attributes.port 443}}{{.name}}{{end}}{{end}}`, "x", "whole numbers compare with constants"},
		"JSON":          {`{"t":{{(index .findings 0).name | toJson}}}`, `{"t":"a \"b\" <c> & d: e"}`, "no HTML escapes in JSON"},
		"JSONInYAML":    {`{{"a\x7f\u0085\ufeffb" | toJson}}`, `"a\u007f\u0085\ufeffb"`, "characters that YAML refuses"},
		"BigNumber":     {`{{(index .findings 0).attributes.big | toJson}}`, "12345678901234567000", "beyond 64 bits as in JavaScript"},
		"Sprig":         {`{{range .findings}}{{.severity | lower | title | trunc 3}} {{end}}`, "Hig Low ", ""},
		"Repeat":        {`{{repeat 3 "ab"}}{{range until 3}}{{.}}{{end}}{{range untilStep 4 0 -2}}{{.}}{{end}}`, "ababab01242", ""},
		"Indent":        {`{{"a\nb" | nindent 2}}`, "\n  a\n  b", ""},
		"Date":          {`{{range .findings}}{{date "2006-01-02 15:04" .parsed_at}}{{end}}`, "2026-01-31 11:00", "in UTC, and nothing where there is none"},
		"Defined":       {`{{define "x"}}<{{.nope}}>{{end}}{{template "x" .scan}}`, "<>", "also in templates that are called"},
		"NoDeclaration": {`{{$x := .nothing}}{{$x = 1}}{{$x}}{{with .nope}}a{{else}}b{{end}}`, "1b", "assignments print nothing"},
		"BreakContinue": {`{{range $i, $f := .findings}}{{if $i}}{{break}}{{else}}{{$f.severity}}{{continue}}{{end}}{{end}}`, "HIGH", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := ParseText("t", c.template, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a template can be used again
				got, err := text.Render(data(t))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.reason, diff)
				}
			}
		})
	}
}

// TestTextIsBounded runs templates that would not end; the clock goes on by a millisecond each time it is asked.
func TestTextIsBounded(t *testing.T) {
	cases := map[string]struct {
		template string
		want     error
	}{
		"Output":        {`{{range until 1000}}{{repeat 1000 "x"}}{{end}}`, ErrTooLong},
		"SilentLoop":    {`{{range 9000000000000}}{{end}}`, ErrTooSlow},
		"NestedLoop":    {`{{range 1000000}}{{range 1000000}}{{if true}}{{with 1}}{{end}}{{end}}{{end}}{{end}}`, ErrTooSlow},
		"LoopInDefined": {`{{define "a"}}{{range 9000000000000}}{{end}}{{end}}{{template "a"}}`, ErrTooSlow},
		"Recursion":     {`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, ErrTooSlow},
		"Repeat":        {`{{repeat 1000000000 "x"}}`, ErrTooLong},
		"Until":         {`{{range until 1000000000}}{{end}}`, ErrTooLong},
		"Indent":        {`{{indent 1000000 (repeat 1000 "\n")}}`, ErrTooLong},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Time{}
			text, err := ParseText("t", c.template, Limits{Bytes: 100_000, Time: time.Second, Now: func() time.Time {
				now = now.Add(time.Millisecond)
				return now
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := text.Render(nil); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestTextRefuses(t *testing.T) {
	for _, function := range []string{
		"env", "expandenv", "getHostByName", "now", "ago", "randAlpha", "randInt", "shuffle", "uuidv4", "genPrivateKey", "genCA",
		"bcrypt", "derivePassword", "encryptAES", "osBase",
	} {
		if _, err := ParseText("t", "{{"+function+"}}", Limits{}); err == nil || !strings.Contains(err.Error(), "not defined") {
			t.Errorf("%s: error %v", function, err)
		}
	}
	if _, err := ParseText("t", "{{", Limits{}); err == nil {
		t.Error("a broken template is read")
	}
	text, err := ParseText("my-template", `{{.a | toJson}}{{fail "no"}}`, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := text.Render(nil); err == nil || !strings.Contains(err.Error(), "my-template") {
		t.Errorf("error %v does not name the template", err)
	}
}

func TestDataRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "{} {}"} {
		if v, err := Data([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}
