// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
)

// FuzzTemplates holds that built-in templates make JSON of whatever a finding says, and that nothing in it calls people.
func FuzzTemplates(f *testing.F) {
	f.Add(nasty, "a\nb", "https://x")
	f.Add("<!here>", strings.Repeat("& ", 3000), "&")
	f.Add("%s %!", "\xff\xfe", "")
	files, err := builtIn.ReadDir("templates")
	if err != nil {
		f.Fatal(err)
	}
	l := &library{env: func(string) (string, bool) { return "true", true }}
	templates := map[string]*message{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ending)
		if templates[name], err = l.builtIn(name); err != nil {
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
		s := &scan{state: "Done", decoded: map[string]any{}, severities: []any{count}, categories: []any{count}}
		fill(s.decoded, "metadata", "name", "namespace", "creationTimestamp")
		fill(s.decoded, "spec", "scanType")
		fill(s.decoded, "status")
		s.decoded.(map[string]any)["status"].(map[string]any)["errorDescription"] = description
		chosen := newSelected(maxKept)
		chosen.add(element, compare.New)
		for which, m := range templates {
			text, err := m.render(s, chosen)
			if err != nil {
				t.Fatalf("%s: %v", which, err)
			}
			value, err := object(text)
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
		l := &library{env: func(string) (string, bool) { return "", false }}
		m, err := l.find("", text)
		if text == "" || err != nil {
			return
		}
		s := &scan{decoded: map[string]any{}}
		chosen := newSelected(maxKept)
		chosen.add([]byte(`{"name":"a b c"}`), "")
		made, err := m.render(s, chosen)
		if err != nil {
			return
		}
		encoded, err := yamlToJSON(made)
		if err == nil && !json.Valid(encoded) {
			t.Errorf("%q becomes %q", made, encoded)
		}
	})
}

// FuzzRules holds that rules of any shape are read or refused, and then match or do not.
func FuzzRules(f *testing.F) {
	f.Add(`[{"matches":{"anyOf":[{"severity":"HIGH"}],"states":["new"]}}]`, `{"severity":"HIGH"}`)
	f.Add(`[{"matches":{"anyOf":[{"attributes":{"list":["*"]}}]}}]`, `{"attributes":{"list":[1]}}`)
	f.Add(`null`, `1`)
	f.Fuzz(func(t *testing.T, text, element string) {
		for _, wild := range []bool{false, true} {
			rules, err := parseRules([]byte(text), wild)
			if err != nil {
				return
			}
			value, err := finding.DecodeValue([]byte(element), 0)
			if err != nil {
				return
			}
			c := &Channel{rules: rules}
			for _, state := range []compare.State{"", compare.New, compare.Known, compare.Fixed} {
				if c.hears(value, state) && len(rules) == 0 && state == compare.Fixed {
					t.Error("without rules nobody hears of what is gone")
				}
			}
		}
	})
}
