// SPDX-License-Identifier: Apache-2.0

package cascading_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/findings/cascade/scope"
	"github.com/scanyard/scanyard/findings/cascade/selector"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type cascadingCase struct {
	ParentScan      finding.Object    `json:"parentScan"`
	Findings        []json.RawMessage `json:"findings"`
	CascadingRules  []finding.Object  `json:"cascadingRules"`
	StartedBy       finding.Object    `json:"parentCascadedRule"`
	ParseDefinition finding.Object    `json:"parseDefinition"`
	Expected        struct {
		Scans []json.RawMessage `json:"scans"`
		Error any               `json:"error"`
	} `json:"expected"`
}

func TestFixtureCascading(t *testing.T) {
	sdktest.Cases(t, "cascading", func(t *testing.T, c cascadingCase) {
		scans, err := cascade(c)
		if c.Expected.Error != nil {
			if err == nil || len(scans) > 0 {
				t.Fatalf("error %v with %d scans, want an error and none", err, len(scans))
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(scans) != len(c.Expected.Scans) {
			t.Fatalf("%d scans, want %d", len(scans), len(c.Expected.Scans))
		}
		names := map[string]bool{}
		for i, scan := range scans {
			if names[scan.Name] || len(scan.Name) > 63 {
				t.Errorf("scan %d has the name %q, which another has or is too long", i, scan.Name)
			}
			names[scan.Name] = true
			raw, err := finding.AppendValue(nil, scan.Scan)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(comparable(t, c.Expected.Scans[i]), comparable(t, raw)); diff != "" {
				t.Errorf("scan %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// cascade does what the hook does, without a cluster.
func cascade(c cascadingCase) ([]plan.Child, error) {
	p, err := plan.New(plan.Input{
		Scan: c.ParentScan, StartedBy: c.StartedBy, ParseDefinition: c.ParseDefinition, Rules: c.CascadingRules,
	})
	if err != nil {
		return nil, err
	}
	for _, f := range c.Findings {
		if err := p.Add(f); err != nil {
			return nil, err
		}
	}
	var scans []plan.Child
	err = p.Children(nil, func(c plan.Child) (plan.Result, error) {
		scans = append(scans, c)
		return plan.Started, nil
	})
	if err == nil {
		err = p.Err()
	}
	return scans, err
}

// comparable leaves out what does not count: absent, null and empty are the same, but for tolerations and affinity. The
// name is ours and compared elsewhere; what kubectl notes is not handed on, on purpose.
func comparable(t *testing.T, raw []byte) any {
	t.Helper()
	scan, ok := sdktest.JSON(t, raw).(map[string]any)
	if !ok {
		t.Fatalf("%s is not an object", raw)
	}
	if metadata, ok := scan["metadata"].(map[string]any); ok {
		delete(metadata, "name")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	prune(scan)
	return scan
}

func prune(o map[string]any) {
	for key, value := range o {
		switch v := value.(type) {
		case nil:
			delete(o, key)
		case []any:
			for _, e := range v {
				if e, ok := e.(map[string]any); ok {
					prune(e)
				}
			}
			if len(v) == 0 && key != "tolerations" {
				delete(o, key)
			}
		case map[string]any:
			if prune(v); len(v) == 0 && key != "affinity" {
				delete(o, key)
			}
		}
	}
}

type scopeCase struct {
	ScopeLimiter json.RawMessage `json:"scopeLimiter"`
	Annotations  finding.Object  `json:"annotations"`
	Finding      finding.Object  `json:"finding"`
	Aliases      finding.Object  `json:"scopeLimiterAliases"`
	Expected     struct {
		InScope bool `json:"inScope"`
		Error   any  `json:"error"`
	} `json:"expected"`
}

func TestFixtureScopeLimiter(t *testing.T) {
	sdktest.Cases(t, "scope-limiter", func(t *testing.T, c scopeCase) {
		var limiter any
		if len(c.ScopeLimiter) > 0 && !bytes.Equal(c.ScopeLimiter, []byte("null")) {
			var err error
			if limiter, err = finding.DecodeValue(c.ScopeLimiter, 0); err != nil {
				t.Fatal(err)
			}
		}
		got := false
		l, err := scope.New(scope.Settings{Limiter: limiter, Annotations: c.Annotations, Aliases: c.Aliases})
		if err == nil {
			got, _, err = l.Allows(c.Finding)
		}
		if wantError := c.Expected.Error != nil; (err != nil) != wantError {
			t.Fatalf("error %v, want one: %t (%v)", err, wantError, c.Expected.Error)
		}
		if got != c.Expected.InScope {
			t.Errorf("in scope: %t, want %t", got, c.Expected.InScope)
		}
	})
}

type textCase struct {
	Selector finding.Object `json:"selector"`
	Expected struct {
		Selector string `json:"selector"`
		Error    any    `json:"error"`
	} `json:"expected"`
}

func TestFixtureLabelSelector(t *testing.T) {
	sdktest.Cases(t, "label-selector", func(t *testing.T, c textCase) {
		got, err := selector.Text(c.Selector)
		if wantError := c.Expected.Error != nil; (err != nil) != wantError {
			t.Fatalf("error %v, want one: %t", err, wantError)
		}
		if got != c.Expected.Selector {
			t.Errorf("got %q, want %q", got, c.Expected.Selector)
		}
	})
}

type selectionCase struct {
	Cascades finding.Object `json:"cascades"`
	Rules    []struct {
		Name   string          `json:"name"`
		Labels json.RawMessage `json:"labels"`
	} `json:"rules"`
	Expected struct {
		Selector string   `json:"selector"`
		Selected []string `json:"selected"`
		Error    any      `json:"error"`
	} `json:"expected"`
}

func TestFixtureRuleSelection(t *testing.T) {
	sdktest.Cases(t, "rule-selection", func(t *testing.T, c selectionCase) {
		text, err := selector.Text(c.Cascades)
		if c.Expected.Error != nil {
			if err == nil {
				t.Fatalf("selector %q, want an error", text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if text != c.Expected.Selector {
			t.Errorf("selector %q, want %q", text, c.Expected.Selector)
		}
		s, err := selector.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		selected := []string{}
		for _, r := range c.Rules {
			if len(r.Labels) == 0 {
				r.Labels = []byte("null")
			}
			rule := decode(t, `{"metadata":{"labels":`+string(r.Labels)+`}}`)
			if s.Selects(rule) {
				selected = append(selected, r.Name)
			}
		}
		if diff := cmp.Diff(append([]string{}, c.Expected.Selected...), selected); diff != "" {
			t.Errorf("selected (-want +got):\n%s", diff)
		}
	})
}

func decode(t testing.TB, text string) finding.Object {
	t.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	object, ok := v.(finding.Object)
	if !ok {
		t.Fatalf("%s is not an object", text)
	}
	return object
}
