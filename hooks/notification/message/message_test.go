// SPDX-License-Identifier: Apache-2.0

package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/compare"
)

// FuzzTemplates holds that built-in templates make JSON of whatever a finding says, and that nothing in it calls people.
func FuzzTemplates(f *testing.F) {
	f.Add(nasty, "a\nb", "https://x")
	f.Add("<!here>", strings.Repeat("& ", 3000), "&")
	f.Add("%s %!", "\xff\xfe", "")
	f.Add("\x7f", "\u0085\u009f", "\ufeff\ufffe\uffff")
	files, err := builtIn.ReadDir("templates")
	if err != nil {
		f.Fatal(err)
	}
	l := &Templates{Env: func(string) (string, bool) { return "true", true }}
	templates := map[string]*Message{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ending)
		if templates[name], err = l.BuiltIn(name); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, name, description, link string) {
		element, err := json.Marshal(map[string]any{
			"name": name, "description": description, "severity": description, "location": name,
			"attributes": map[string]any{"defectdojo.org/finding-url": link},
		})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]any{"name": name, "count": "1"}
		s := &Scan{state: "Done", decoded: map[string]any{}, severities: []any{count}, categories: []any{count}}
		fill(s.decoded, "metadata", "name", "namespace", "creationTimestamp")
		fill(s.decoded, "spec", "scanType")
		fill(s.decoded, "status")
		s.decoded.(map[string]any)["status"].(map[string]any)["errorDescription"] = description
		chosen := NewFindings(MaxKept)
		chosen.Add(element, compare.New)
		for which, m := range templates {
			text, err := m.Render(s, chosen)
			if err != nil {
				t.Fatalf("%s: %v", which, err)
			}
			value, err := ToObject(text)
			if err != nil {
				t.Fatalf("%s: %v: %s", which, err, text)
			}
			if strings.HasPrefix(which, "slack") {
				delete(value, "actions")
				encoded, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(encoded), `\u003c!`) && !strings.Contains(link, "<!") {
					t.Errorf("%s: a mention: %s", which, encoded)
				}
			}
		}
	})
}

// FuzzUserTemplate holds that a template of the user's, with whatever it makes, is an error at worst.
func FuzzUserTemplate(f *testing.F) {
	f.Add("text: {{ .scan.metadata.name }}")
	f.Add("{{ range .findings }}- {{ $.Truncate 3 .name }}\n{{ end }}")
	f.Add("a: &a [x]\nb: *a\n? 1\n: 2001-01-01")
	f.Add("{{ $.Slack 0 .scan }}{{ $.Truncate -1 1 }}")
	f.Fuzz(func(t *testing.T, text string) {
		l := &Templates{Env: func(string) (string, bool) { return "", false }}
		m, err := l.Find("", text)
		if text == "" || err != nil {
			return
		}
		s := &Scan{decoded: map[string]any{}}
		chosen := NewFindings(MaxKept)
		chosen.Add([]byte(`{"name":"a b c"}`), "")
		made, err := m.Render(s, chosen)
		if err != nil {
			return
		}
		encoded, err := ToJSON(made)
		if err == nil && !json.Valid(encoded) {
			t.Errorf("%q becomes %q", made, encoded)
		}
	})
}

// nasty has everything that YAML, JSON, HTML, Markdown or Slack take for something else.
const nasty = "- a: b # \"c\" 'd' {e} [f] & <!channel> <b>|> \\ %g @h *i* `j`\n--- \u0000\u2028 \U0001F600"

// TestLinksOfFindings: an attribute of a finding may come from what was scanned, so not every address becomes a link.
func TestLinksOfFindings(t *testing.T) {
	const home = "https://dd.example.com"
	for name, c := range map[string]struct{ link, home, want string }{
		"AsItIs":      {"https://dd.example.com/finding/42", "", "https://dd.example.com/finding/42"},
		"Home":        {"https://dd.example.com/finding/42", home, "https://dd.example.com/finding/42"},
		"HomeCapital": {"https://DD.example.com/finding/42", home + "/", "https://DD.example.com/finding/42"},
		"Elsewhere":   {"https://evil.example/finding/42", home, ""},
		"OtherPort":   {"https://dd.example.com:444/finding/42", home, ""},
		"Plain":       {"http://dd.example.com/finding/42", home, ""},
		"Prefix":      {"https://dd.example.com.evil.example/", home, ""},
		"BadHome":     {"https://evil.example/", "::", ""},
		"Script":      {"javascript:alert(1)", "", ""},
		"Httpx":       {"httpx://evil", "", ""},
		"NoHost":      {"https:///x", "", ""},
		"User":        {"https://dd.example.com@evil.example/", "", ""},
		"Break":       {"https://dd.example.com/\n[x](https://evil.example)", "", ""},
		"Backslash":   {`https://dd.example.com\@evil.example/`, "", ""},
		"Direction":   {"https://dd.example.com/\u202egnp.x", "", ""},
		"Markup":      {"https://dd.example.com/a)[x](https://evil.example", "", "https://dd.example.com/a%29[x]%28https://evil.example"},
		"SlackMarkup": {"https://dd.example.com/a|b>", "", "https://dd.example.com/a%7Cb%3E"},
	} {
		found := map[string]any{"attributes": map[string]any{linkToFinding: c.link}}
		if got := (data{}).FindingLink(found, c.home); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, found := range map[string]any{"None": nil, "NoAttributes": map[string]any{}, "NoText": map[string]any{"attributes": map[string]any{linkToFinding: 1}}} {
		if got := (data{}).FindingLink(found, nil); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTruncate(t *testing.T) {
	cases := map[string]struct {
		length int
		text   any
		want   string
	}{
		"Short":      {5, "ab", "ab"},
		"Exact":      {5, "abcde", "abcde"},
		"AtSpace":    {8, "one two three", "one two..."},
		"SpaceAfter": {7, "one two three", "one two..."},
		"NoSpace":    {3, "abcdef", "abc..."},
		"Runes":      {2, "äöü", "äö..."},
		"Lines":      {20, "a\nb", "a b"},
		"Nothing":    {20, nil, ""},
		"Number":     {20, int64(4), "4"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (data{}).Truncate(c.length, c.text); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if got := (data{}).Slack(8, "aaaaaa<b"); got != "aaaaaa…" {
		t.Errorf("%q: half an escape is left", got)
	}
}

// TestFences holds that no finding gets out of its fence.
func TestFences(t *testing.T) {
	const text = "x\n```\n@everyone\n````\n/close"
	if got, want := fenced(text), "`````text\n"+text+"\n`````\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
