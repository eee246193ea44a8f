// SPDX-License-Identifier: Apache-2.0

package finding_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
)

func TestDecoder(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i%150, i)
	}
	d := finding.NewDecoder(5)
	for _, in := range []string{
		`{"a":1,"b":[1,[2],{"a":3}],"a":{"b":{}}}`, `[]`, `{}`, `[[[[1]]]]`, `[[[[[1]]]]]`, `{"a":[1,{"b":`, `{"a":1}x`, ``, `"a"`,
		`{"":1,"\u0061":2,"a":3,"` + strings.Repeat("k", 100) + `":4}`, `{` + strings.Join(many, ",") + `}`, `[0,-0,123456789012345,1234567890123456,1e3,01]`,
		`{"a":1,"b":[1,[2],{"a":3}],"a":{"b":{}}}`,
	} {
		want, wantErr := finding.DecodeValue([]byte(in), 5)
		got, err := d.Value([]byte(in))
		if !reflect.DeepEqual(want, got) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%.50s: want %v, %v, got %v, %v", in, want, wantErr, got, err)
		}
	}
}

func TestDecoderPick(t *testing.T) {
	wanted := map[string]bool{"a": true, "b": true, "missing": true}
	tests := map[string]struct {
		in   string
		want any
		fail string
	}{
		"Some":        {`{"x":{"a":1},"a":{"x":2},"b":null,"y":[1]}`, finding.Object{{Key: "a", Value: finding.Object{{Key: "x", Value: 2.0}}}, {Key: "b"}}, ""},
		"None":        {`{"x":1}`, finding.Object{}, ""},
		"Twice":       {`{"a":1,"x":2,"a":3}`, finding.Object{{Key: "a", Value: 3.0}}, ""},
		"Escaped":     {`{"\u0061":1,"\u0078":2}`, finding.Object{{Key: "a", Value: 1.0}}, ""},
		"NoObject":    {`[{"x":1}]`, []any{finding.Object{{Key: "x", Value: 1.0}}}, ""},
		"LeftOutBad":  {`{"x":[1,}`, nil, "byte 8"},
		"LeftOutDeep": {`{"x":` + strings.Repeat("[", 600), nil, "nested deeper"},
	}
	d := finding.NewDecoder(0)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := d.Pick([]byte(tt.in), wanted)
			if !reflect.DeepEqual(tt.want, got) {
				t.Errorf("want %v, got %v", tt.want, got)
			}
			if (err == nil) != (tt.fail == "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("want %q, got %v", tt.fail, err)
			}
		})
	}
}

// TestDecoderHoldsNothing asks that what was decoded stays as it is when the bytes change.
func TestDecoderHoldsNothing(t *testing.T) {
	data := []byte(`{"key":"value","list":["a"]}`)
	d := finding.NewDecoder(0)
	got, err := d.Value(data)
	clear(data)
	want := finding.Object{{Key: "key", Value: "value"}, {Key: "list", Value: []any{"a"}}}
	if !reflect.DeepEqual(any(want), got) || err != nil {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
}

// FuzzDecoder asks that a Decoder that has decoded other things says what DecodeValue says.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{"", "null", `{"a":[1,{"a":"\ud800"}],"a":2}`, `[1,2`, `{"a":{"b":[`, `{"\u0061":1e999}`} {
		f.Add([]byte(seed), []byte(`{"a":1}`))
	}
	f.Fuzz(func(t *testing.T, before, data []byte) {
		d := finding.NewDecoder(0)
		if _, err := d.Pick(before, map[string]bool{"a": true}); err != nil {
			t.Log(err)
		}
		want, wantErr := finding.DecodeValue(data, 0)
		got, err := d.Value(data)
		if !reflect.DeepEqual(want, got) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("want %v, %v, got %v, %v", want, wantErr, got, err)
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	data := []byte(`{"template-id":"rule-1","info":{"name":"a name","author":["alice","bob"],"tags":["x","y"],"severity":"low","metadata":{"max-request":1}},` +
		`"type":"http","host":"https://app.example.com","matched-at":"https://app.example.com/path","matcher-status":true}`)
	d := finding.NewDecoder(0)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Value(data); err != nil {
			b.Fatal(err)
		}
	}
}
