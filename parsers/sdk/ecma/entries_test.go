// SPDX-License-Identifier: Apache-2.0

package ecma_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

func TestEntries(t *testing.T) {
	tests := map[string]struct {
		in   string
		want string
		null bool
	}{
		"Null":         {in: `null`, want: `{}`, null: true},
		"Number":       {in: `7`, want: `{}`},
		"Bool":         {in: `true`, want: `{}`},
		"EmptyText":    {in: `""`, want: `{}`},
		"Text":         {in: `"aé"`, want: `{"0":"a","1":"é"}`},
		"Pair":         {in: `"😀"`, want: `{"0":"\ud83d","1":"\ude00"}`},
		"List":         {in: `["x",null]`, want: `{"0":"x","1":null}`},
		"Object":       {in: `{"b":1,"a":2}`, want: `{"b":1,"a":2}`},
		"IndexesFirst": {in: `{"b":1,"10":2,"a":3,"9":4,"0":5}`, want: `{"0":5,"9":4,"10":2,"b":1,"a":3}`},
		"NotIndexes": {
			in:   `{"01":1,"-1":2,"1.0":3,"1e1":4,"":5,"4294967295":6,"4294967294":7,"12345678901":8," 1":9}`,
			want: `{"4294967294":7,"01":1,"-1":2,"1.0":3,"1e1":4,"":5,"4294967295":6,"12345678901":8," 1":9}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := finding.DecodeValue([]byte(tt.in), 0)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := ecma.Entries(v)
			if ok == tt.null {
				t.Errorf("ok is %v", ok)
			}
			raw, err := finding.AppendValue(nil, got)
			if err != nil || string(raw) != tt.want {
				t.Errorf("want %s, got %s, %v", tt.want, raw, err)
			}
			after, err := finding.AppendValue(nil, v)
			if err != nil || string(after) != tt.in {
				t.Errorf("the value has become %s, %v", after, err)
			}
		})
	}
}

func TestValues(t *testing.T) {
	got, ok := ecma.Values(finding.Object{{Key: "b", Value: "x"}, {Key: "1", Value: nil}})
	if diff := cmp.Diff([]any{nil, "x"}, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}
	if got, ok := ecma.Values(nil); got != nil || ok {
		t.Errorf("got %v, %v", got, ok)
	}
}

const high, low = "\xed\xa0\xbd", "\xed\xb8\x80" // the halves of 😀

func TestSubstring(t *testing.T) {
	tests := map[string]struct {
		in       string
		from, to int
		want     string
	}{
		"Inside":      {"CWE-94: x", 4, 6, "94"},
		"AtTheEnd":    {"CWE-7", 4, 6, "7"},
		"Beyond":      {"CWE", 4, 6, ""},
		"Empty":       {"", 4, 6, ""},
		"TwoBytes":    {"éé€é", 1, 3, "é€"},
		"Pair":        {"ab😀c", 2, 4, "😀"},
		"FirstHalf":   {"ab😀c", 1, 3, "b" + high},
		"SecondHalf":  {"ab😀c", 3, 5, low + "c"},
		"LoneHalves":  {"a" + low + high + "b", 1, 3, low + high},
		"HalvesMeet":  {"a" + high + low + "b", 1, 3, "😀"},
		"InvalidUTF8": {"a\xffb", 0, 3, "a\uFFFDb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ecma.Substring(tt.in, tt.from, tt.to); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

func TestLength(t *testing.T) {
	for s, want := range map[string]int{"": 0, "a": 1, "é€": 2, "😀": 2, high: 1, "a\xffb": 3, low + high: 2} {
		if got := ecma.Length(s); got != want || len(ecma.Units(s)) != want {
			t.Errorf("%q: want %d, got %d and %d", s, want, got, len(ecma.Units(s)))
		}
	}
}
