// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testdata/paths.json is what lodash 4 itself answers for `set(in, path, "v")`, for every pair of 8 documents and 64 paths.
func TestSetEqualsLodash(t *testing.T) {
	text, err := os.ReadFile("testdata/paths.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Path string          `json:"path"`
		In   json.RawMessage `json:"in"`
		Want any             `json:"want"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 500 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%03d", i), func(t *testing.T) {
			path, err := ParsePath(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			out, err := path.Set(c.In, json.RawMessage(`"v"`))
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%s is not JSON: %v", out, err)
			}
			if diff := cmp.Diff(c.Want, got); diff != "" {
				t.Errorf("set(%s, %q) (-lodash +ours):\n%s", c.In, c.Path, diff)
			}
		})
	}
}

func TestSetKeepsTheRest(t *testing.T) {
	cases := map[string]struct{ path, in, want, reason string }{
		"NumbersKeepTheirDigits": {
			"category", `{"n": 12345678901234567890.10, "e":1e400, "category":"x"}`, `{"n": 12345678901234567890.10, "e":1e400, "category":"v"}`,
			"a number beyond 64 bits would lose digits in a float",
		},
		"OrderAndUnknownMembersStay": {
			"attributes.b", `{"z":1,"attributes":{"y":2,"b":3,"a":4},"own":{"k":[ 1 ]}}`, `{"z":1,"attributes":{"y":2,"b":"v","a":4},"own":{"k":[ 1 ]}}`,
			"what lies off the path keeps its bytes",
		},
		"TextIsNotEscapedForHTML": {"b", `{"a<b>&":"<&>"}`, `{"a<b>&":"<&>","b":"v"}`, "findings are not a web page"},
		"LastOfTwinMembersWins":   {"a", `{"a":1,"b":2,"a":3}`, `{"a":1,"b":2,"a":"v"}`, "as every JSON reader has it"},
		"EscapedNameIsTheSame":    {"ab", `{"\u0061b":1}`, `{"\u0061b":"v"}`, "escapes are only spelling"},
		"BracketsInTextAreText":   {"b.c", `{"a":"}]\"{","b" : {"c" : [ {} ] , "d":"\\"}}`, `{"a":"}]\"{","b" : {"c" : "v" , "d":"\\"}}`, "strings hide structure"},
		"AddedToAnEmptyObject":    {"a.b", `{"a":{ }}`, `{"a":{ "b":"v"}}`, "no comma before the first member"},
		"AddedToAList":            {"a[2]", `{"a":[ 1 ]}`, `{"a":[ 1 ,null,"v"]}`, "gaps are null"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := ParsePath(c.path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := path.Set(json.RawMessage(c.in), json.RawMessage(`"v"`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestPathBounds(t *testing.T) {
	if _, err := ParsePath(strings.Repeat("a.", 40) + "[0][1][2][3][4][5][6][7][8][9]" + strings.Repeat(".b", 20)); err == nil {
		t.Error("70 levels: want an error")
	}
	if _, err := ParsePath(strings.Repeat("a", maxPathLength+1)); err == nil {
		t.Error("long name: want an error")
	}
	for path, in := range map[string]string{"a[10000]": `{"a":[]}`, "a[99999999999999999999]": `{}`, "a.length": `{"a":[1]}`} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Set(json.RawMessage(in), json.RawMessage(`"v"`)); err == nil {
			t.Errorf("set(%s, %q) = %s, want an error", in, path, got)
		}
	}
	p, err := ParsePath("a.20260101")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Set(json.RawMessage(`{"a":{}}`), json.RawMessage(`"v"`)); err != nil || string(got) != `{"a":{"20260101":"v"}}` {
		t.Errorf("a large number is a fine member of an object: %s, %v", got, err)
	}
}

// FuzzParsePath holds that any field name either is refused or sets valid JSON, and that setting twice is setting once.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"a.b", "a[0]['x.y']", "..", "[", "]", "a[\"\\\\\"]", "attributes.ip_addresses[0]", "a[]."} {
		f.Add(seed, `{"a":{"b":[1,null]},"attributes":{"ip_addresses":["10.0.0.1"]}}`)
	}
	f.Fuzz(func(t *testing.T, text, document string) {
		path, err := ParsePath(text)
		if err != nil || !json.Valid([]byte(document)) {
			return
		}
		once, err := path.Set(json.RawMessage(document), json.RawMessage(`"v"`))
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("set(%s, %q) = %s, no JSON", document, text, once)
		}
		twice, err := path.Set(once, json.RawMessage(`"v"`))
		if err != nil {
			t.Fatalf("second set(%s, %q): %v", once, text, err)
		}
		if string(once) != string(twice) {
			t.Fatalf("set(%s, %q): once %s, twice %s", document, text, once, twice)
		}
	})
}
