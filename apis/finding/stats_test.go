// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestStats(t *testing.T) {
	in := []string{
		`{"severity":"HIGH","category":"a"}`,
		`{"category":"a","severity":"low"}`,
		`{"severity":"Medium"}`,
		`{"severity":"INFORMATIONAL","category":null}`,
		`{"severity":"CRITICAL","category":7}`,
		`{"severity":"LOW","category":"first","attributes":{"severity":"HIGH"},"category":"b"}`,
	}
	var raw, typed Stats
	for _, element := range in {
		if err := raw.AddRaw([]byte(element)); err != nil {
			t.Fatal(err)
		}
		var f Finding
		if err := json.Unmarshal([]byte(element), &f); err != nil {
			t.Fatal(err)
		}
		if err := typed.Add(&f); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"status":{"findings":{"count":6,"severities":{"informational":1,"low":2,"medium":1,"high":1},` +
		`"categories":{"7":1,"a":2,"b":1,"gone":null,"null":1,"undefined":1}}}}`
	for name, s := range map[string]*Stats{"Raw": &raw, "Typed": &typed} {
		if got := string(s.StatusPatch([]string{"gone", "a"})); got != want {
			t.Errorf("%s: want %s\ngot  %s", name, want, got)
		}
	}
}

func TestStatsOfNothing(t *testing.T) {
	var s Stats
	want := `{"status":{"findings":{"count":0,"severities":{"informational":0,"low":0,"medium":0,"high":0},"categories":{}}}}`
	if got := string(s.StatusPatch(nil)); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestStatsRefuses(t *testing.T) {
	var s Stats
	for _, element := range []string{`{}`, `{"severity":null}`, `{"severity":1}`} {
		if err := s.AddRaw([]byte(element)); !errors.Is(err, ErrNoSeverity) {
			t.Errorf("%s: want ErrNoSeverity, got %v", element, err)
		}
	}
	if err := s.Add(&Finding{}); !errors.Is(err, ErrNoSeverity) {
		t.Errorf("want ErrNoSeverity, got %v", err)
	}
	for _, element := range []string{`[]`, `7`, `{"severity":"LOW"} x`, `{"a":}`, ``} {
		if err := s.AddRaw([]byte(element)); err == nil {
			t.Errorf("%s was counted", element)
		}
	}
	if s.Count != 0 {
		t.Errorf("refused findings were counted: %d", s.Count)
	}
}

func TestStatsAreBounded(t *testing.T) {
	var s Stats
	long := strings.Repeat("ü", 5000)
	for i := range 10_000 {
		f := Finding{Severity: String(Low), Category: String(fmt.Sprintf("category %d %s", i, long))}
		if err := s.Add(&f); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Categories) != MaxCategories+1 || s.Categories[OtherCategory] != 10_000-MaxCategories {
		t.Errorf("%d categories, %d others", len(s.Categories), s.Categories[OtherCategory])
	}
	patch := s.StatusPatch(nil)
	if len(patch) > 64<<10 || !json.Valid(patch) {
		t.Errorf("the patch has %d bytes, valid: %t", len(patch), json.Valid(patch))
	}
	for name := range s.Categories {
		if len(name) > MaxCategoryLength || strings.ContainsRune(name, '\uFFFD') {
			t.Errorf("bad name %q", name)
		}
	}
}
