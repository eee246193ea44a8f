// SPDX-License-Identifier: Apache-2.0

package findingpostprocessing

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	Rules    json.RawMessage `json:"rules"`
	Findings json.RawMessage `json:"findings"`
	Expected struct {
		Updated  bool            `json:"updated"`
		Findings json.RawMessage `json:"findings"`
		Error    any             `json:"error"`
	} `json:"expected"`
}

func TestFixtureFindingPostProcessing(t *testing.T) {
	sdktest.Cases(t, "finding-post-processing", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Objects["/findings.json"] = c.Findings
		got := w.Run(t, Hook(), map[string]string{"RULES": string(c.Rules)})
		// Findings of some cases have no severity. These are written and then cannot be counted, which no hook decides.
		failed := got.ExitCode != 0 && !strings.Contains(got.Stderr, "count findings: ")
		if failed != (c.Expected.Error != nil) {
			t.Fatalf("exit code %d: %s", got.ExitCode, got.Stderr)
		}
		findings, updated := c.Findings, false
		for _, o := range got.Operations {
			if o.Method == http.MethodPut {
				findings, updated = o.Body, true
			}
		}
		if updated != c.Expected.Updated {
			t.Fatalf("written back: %t, want %t: %s", updated, c.Expected.Updated, got.Stderr)
		}
		if c.Expected.Error != nil {
			return
		}
		if diff := cmp.Diff(sdktest.JSON(t, c.Expected.Findings), sdktest.JSON(t, findings)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}

// TestMergeAsLodash compares with a table whose results lodash.merge gave.
func TestMergeAsLodash(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "lodash.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Value, Override finding.Object
		Want            json.RawMessage
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		before, err := finding.AppendValue(nil, r.Override)
		if err != nil {
			t.Fatal(err)
		}
		got, err := finding.AppendValue(nil, merge(r.Value, r.Override))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sdktest.JSON(t, r.Want), sdktest.JSON(t, got)); diff != "" {
			t.Errorf("row %d, override %s (-want +got):\n%s", i, before, diff)
		}
		if after, err := finding.AppendValue(nil, r.Override); err != nil || string(after) != string(before) {
			t.Errorf("row %d: the override became %s, was %s (%v)", i, after, before, err)
		}
	}
}

func TestOverridesAreNotShared(t *testing.T) {
	rules, err := ParseRules(`[{"matches":{"anyOf":[{}]},"override":{"attributes":{"tags":["a"]}}},
		{"matches":{"anyOf":[{"name":"one"}]},"override":{"attributes":{"tags":["b","c"]}}}]`)
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{rules: rules}
	for in, want := range map[string]string{
		`{"name":"one"}`: `{"name":"one","attributes":{"tags":["b","c"]}}`,
		`{"name":"two"}`: `{"name":"two","attributes":{"tags":["a"]}}`,
	} {
		for range 2 {
			if got, _, err := h.edit([]byte(in)); err != nil || string(got) != want {
				t.Errorf("%s became %s (%v), want %s", in, got, err, want)
			}
		}
	}
}

func TestUnmatchedKeepsItsBytes(t *testing.T) {
	w := sdktest.New(t)
	w.Objects["/findings.json"] = []byte(`[{"id":"1", "n":1e400 ,"severity":"LOW","category":"c"},{"id":"2","severity":"LOW","category":"c"}]`)
	got := w.Run(t, Hook(), map[string]string{"RULES": `[{"matches":{"anyOf":[{"id":"2"}]},"override":{"severity":"HIGH"}}]`})
	want := `[{"id":"1", "n":1e400 ,"severity":"LOW","category":"c"},{"id":"2","severity":"HIGH","category":"c"}]`
	var put, patch string
	for _, o := range got.Operations {
		switch o.Method {
		case http.MethodPut:
			put = string(o.Body)
		case http.MethodPatch:
			patch = string(o.Body)
		}
	}
	if put != want {
		t.Errorf("wrote %s, want %s", put, want)
	}
	if !strings.Contains(patch, `"high":1`) || !strings.Contains(patch, `"low":1`) {
		t.Errorf("the counters are %s", patch)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct{ rules, says string }{
		"Missing":          {"", "RULES is not set"},
		"NoJSON":           {"[", "RULES: invalid JSON"},
		"NoList":           {"{}", "RULES: want a JSON list of rules"},
		"RuleNoObject":     {"[7]", "RULES: rule 0: it is not an object"},
		"NoMatches":        {`[{"override":{}}]`, "RULES: rule 0: matches is missing"},
		"MatchesNoObject":  {`[{"matches":[],"override":{}}]`, "RULES: rule 0: matches is not an object"},
		"NoAnyOf":          {`[{"matches":{"anyof":[]},"override":{}}]`, "RULES: rule 0: matches.anyOf is missing"},
		"AnyOfNoList":      {`[{"matches":{"anyOf":{}},"override":{}}]`, "RULES: rule 0: matches.anyOf is not a list"},
		"ConditionNoOject": {`[{"matches":{"anyOf":[null]},"override":{}}]`, "RULES: rule 0: matches.anyOf[0] is not an object"},
		"NoOverride":       {`[{"matches":{"anyOf":[]},"override":{}},{"matches":{"anyOf":[{}]}}]`, "RULES: rule 1: override is missing"},
		"OverrideNoObject": {`[{"matches":{"anyOf":[{}]},"override":"HIGH"}]`, "RULES: rule 0: override is not an object"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			got := w.Run(t, Hook(), map[string]string{"RULES": c.rules})
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.says) {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.says)
			}
			if len(got.Operations) > 0 {
				t.Errorf("%d requests were made", len(got.Operations))
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":null}]}}`, `{"a":{"b":{"1":[]}}}`)
	f.Fuzz(func(t *testing.T, value, override string) {
		v, err := finding.DecodeValue([]byte(value), 20)
		if err != nil {
			return
		}
		o, err := finding.DecodeValue([]byte(override), 20)
		if err != nil {
			return
		}
		once, err := finding.AppendValue(nil, merge(v, o))
		if err != nil {
			t.Fatal(err)
		}
		// An override that is applied again changes nothing.
		v, err = finding.DecodeValue(once, 0)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := finding.AppendValue(nil, merge(v, o))
		if err != nil {
			t.Fatal(err)
		}
		if string(once) != string(twice) {
			t.Errorf("%s, then %s", once, twice)
		}
	})
}
