// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitAndJoin(t *testing.T) {
	for name, c := range map[string]struct{ object, path, head, payload, reason string }{
		"Last":      {`{"a":1,"results":[1,2]}`, "results", `{"a":1}`, `[1,2]`, "the comma before goes with it"},
		"First":     {`{"results":[1,2],"a":1}`, "results", `{"a":1}`, `[1,2]`, "the comma behind goes with it"},
		"Only":      {`{"results":[]}`, "results", `{}`, `[]`, "there is no comma"},
		"Absent":    {`{"a":{"results":1}}`, "results", `{"a":{"results":1}}`, ``, "only the member of the object itself counts"},
		"Nested":    {`{"report":{"results":[{"x":"}]"}],"a":"\"{"},"z":1}`, "report.results", `{"report":{"a":"\"{"},"z":1}`, `[{"x":"}]"}]`, "braces in strings are text"},
		"NoParent":  {`{"report":null}`, "report.results", `{"report":null}`, ``, "what is not an object has no members"},
		"WithSpace": {"{ \"a\" : 1 ,\n \"results\" : [ 1 ] }\n", "results", "{ \"a\" : 1 }\n", `[ 1 ]`, "space is allowed everywhere"},
	} {
		t.Run(name, func(t *testing.T) {
			head, payload, err := split([]byte(c.object), c.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.head, c.payload}, []string{string(head), string(payload)}); diff != "" {
				t.Errorf("%s:\n%s", c.reason, diff)
			}
			if payload == nil {
				return
			}
			joined, err := join(head, payload, c.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, []byte(c.object)), parsed(t, joined)); diff != "" {
				t.Errorf("joined:\n%s", diff)
			}
		})
	}
}

func parsed(t testing.TB, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func TestCanonical(t *testing.T) {
	for name, c := range map[string]struct{ in, want, reason string }{
		"Sorted":  {`{"b":1,"a":{"d":2,"c":[ {"y":1,"x":2} , null ]}}`, `{"a":{"c":[{"x":2,"y":1},null],"d":2},"b":1}`, "members are sorted at every level, lists are not"},
		"Numbers": {` [1.0, 1e3, -0] `, `[1.0,1e3,-0]`, "numbers stay as they were sent"},
		"Strings": {`["\u0041 {\"", " "]`, `["\u0041 {\""," "]`, "strings stay as they were sent"},
		"Empty":   {`[ { } , [ ] ]`, `[{},[]]`, "space goes"},
		"Deep":    {strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 500) + strings.Repeat("]", 500), "depth is bounded, not refused"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := canonical([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("%s:\n%s", c.reason, diff)
			}
		})
	}
}

// Whatever is valid JSON keeps its content; nothing makes the scanner read beyond the text.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`{"a":1,"results":[1,{"b":"}"}]}`, `{"results":"\\\""}`, `{`, `{"results"`, `{"a":[}`, `{"results":tru}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		head, payload, err := split(text, "results")
		if err != nil || payload == nil || !json.Valid(text) {
			return
		}
		whole := map[string]json.RawMessage{}
		if json.Unmarshal(text, &whole) != nil || strings.Count(string(text), `"results"`) != 1 {
			return // of two members with one name, parsers take the last
		}
		sorted, err := canonical(payload)
		if err != nil {
			t.Fatal(err)
		}
		joined, err := join(head, sorted, "results")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parsed(t, text), parsed(t, joined)); diff != "" {
			t.Error(diff)
		}
	})
}
