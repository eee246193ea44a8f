// SPDX-License-Identifier: Apache-2.0

package jsonstream_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// walk records the calls of a Reader for a document {"list": […], …}.
func walk(in io.Reader, limits finding.Limits) (string, error) {
	var out strings.Builder
	r := jsonstream.NewReader(in, limits)
	err := r.Object(func(key string) error {
		kind, err := r.Kind()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s is %s\n", key, kind)
		if key != "list" {
			return nil
		}
		return r.Array(func(i int) error {
			v, err := r.Value()
			fmt.Fprintf(&out, "  %d: %s\n", i, finding.ToString(v))
			return err
		})
	})
	if err == nil {
		err = r.End()
	}
	return out.String(), err
}

func TestReader(t *testing.T) {
	tests := map[string]struct{ in, want, fail string }{
		"Empty":           {"", "", "is nothing, must be an object"},
		"Spaces":          {" \n", "", "the input ends too early"},
		"Null":            {"null", "", "is null, must be an object"},
		"EmptyObject":     {"{}", "", ""},
		"Skipped":         {`{"a":[1,{"b":"\ud800"}],"list":[],"c":null}`, "a is an array\nlist is an array\nc is null\n", ""},
		"Elements":        {`{"list":["x",2,null,[1,2],{"a":1}]}`, "list is an array\n  0: x\n  1: 2\n  2: null\n  3: 1,2\n  4: [object Object]\n", ""},
		"Mark":            {"\uFEFF{\"list\":[true]}\r\n", "list is an array\n  0: true\n", ""},
		"InvalidUTF8":     {"{\"list\":[\"a\xffb\"]}", "list is an array\n  0: a\uFFFDb\n", ""},
		"NotAList":        {`{"list":{}}`, "list is an object\n", "at /list: is an object, must be an array"},
		"HTML":            {"<!DOCTYPE html>", "", "byte 0: the input is not JSON: invalid character '<'"},
		"Twice":           {`{"list":[],"list":[]}`, "list is an array\n", `key "list" appears twice`},
		"Trailing":        {"{} {}", "", "data after the end"},
		"TrailingText":    {"{}x", "", "invalid character 'x'"},
		"EndsInElement":   {`{"list":[1,{"a"`, "list is an array\n  0: 1\n", "at /list/1/a: the input ends too early"},
		"EndsAfterComma":  {`{"list":[1,`, "list is an array\n  0: 1\n", "the input ends too early"},
		"EndsInKey":       {`{"li`, "", "the input ends too early"},
		"EndsInSkipped":   {`{"a":"`, "a is a string\n", "the input ends too early"},
		"BadElement":      {`{"list":[1,x]}`, "list is an array\n  0: 1\n", "at /list/1: invalid character 'x'"},
		"BadSkipped":      {`{"a":[01]}`, "a is an array\n", "invalid character '1'"},
		"MissingColon":    {`{"a" 1}`, "", "invalid character '1'"},
		"TrailingComma":   {`{"list":[1,]}`, "list is an array\n  0: 1\n", "at /list: invalid character"},
		"ControlInString": {"{\"list\":[\"a\nb\"]}", "list is an array\n", "invalid character '\\n' in string"},
		"LargeElement":    {`{"list":["` + strings.Repeat("x", 200) + `"]}`, "list is an array\n", "element too large: more than 100 bytes"},
		"DeepElement":     {`{"list":[` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `]}`, "list is an array\n", "nested deeper than 10 levels"},
	}
	limits := finding.Limits{MaxElement: 100, MaxDepth: 10}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := walk(strings.NewReader(tt.in), limits)
			check(t, got, tt.want, err, tt.fail)
			pieces, err := walk(iotest.OneByteReader(strings.NewReader(tt.in)), limits)
			check(t, pieces, tt.want, err, tt.fail)
		})
	}
}

func check(t *testing.T, got, want string, err error, fail string) {
	t.Helper()
	if !strings.HasPrefix(got, want) || fail == "" && got != want { // a failing element may have been begun
		t.Errorf("want %q, got %q", want, got)
	}
	if (err == nil) != (fail == "") || err != nil && !strings.Contains(err.Error(), fail) {
		t.Errorf("want error %q, got %v", fail, err)
	}
}

func TestErrorsStay(t *testing.T) {
	r := jsonstream.NewReader(strings.NewReader(`[1`), finding.Limits{})
	first := r.Array(func(int) error { return nil })
	if !errors.Is(first, finding.ErrTruncated) {
		t.Fatalf("got %v", first)
	}
	_, kind := r.Kind()
	_, value := r.Value()
	for _, again := range []error{kind, value, r.Skip(), r.End()} {
		if !errors.Is(again, first) {
			t.Errorf("want %v, got %v", first, again)
		}
	}
}

func TestCallbacksErrorsComeBack(t *testing.T) {
	mine := errors.New("mine")
	r := jsonstream.NewReader(strings.NewReader(`[1,2]`), finding.Limits{})
	if err := r.Array(func(int) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}

func TestSourceErrors(t *testing.T) {
	mine := errors.New("mine")
	in := io.MultiReader(strings.NewReader(`{"list":[1,`), iotest.ErrReader(mine))
	if _, err := walk(in, finding.Limits{}); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	lines := jsonstream.NewLines(iotest.ErrReader(mine), finding.Limits{})
	if _, err := lines.Next(); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}

func TestHostileDocumentsTakeLittleMemory(t *testing.T) {
	tests := map[string]struct{ start, endless, fail string }{
		"SkippedText":  {`{"a":"`, "x", "element too large"},
		"DecodedText":  {`{"list":["`, "x", "element too large"},
		"DecodedArray": {`{"list":[[1`, ",1", "element too large"},
		"Depth":        {`{"a":`, "[", "depth"},
		"Keys":         {``, "{\"a\":", "depth"},
		"Number":       {`{"a":1`, "1", "element too large"},
		"Space":        {``, " ", "element too large"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			in := io.MultiReader(strings.NewReader(tt.start), io.LimitReader(rawgen.Endless(tt.endless), 1<<30))
			_, err := walk(in, finding.Limits{MaxElement: 1 << 20})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.fail) || len(err.Error()) > 500 {
				t.Errorf("want %q, got %v", tt.fail, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

func TestSkippedArraysAreNotHeld(t *testing.T) {
	in := io.MultiReader(strings.NewReader(`{"a":[1`), io.LimitReader(rawgen.Endless(",1"), 64<<20), strings.NewReader(`],"list":[]}`))
	got, err := walk(in, finding.Limits{MaxElement: 1 << 20})
	check(t, got, "a is an array\nlist is an array\n", err, "")
}

func TestLines(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []string
		fail string
	}{
		"Empty":   {"", nil, ""},
		"NoEnd":   {"a", []string{"a"}, ""},
		"End":     {"a\n", []string{"a"}, ""},
		"Gaps":    {"\n a\r\n\nb", []string{"", " a\r", "", "b"}, ""},
		"Mark":    {"\uFEFFa\n\uFEFFb", []string{"a", "\uFEFFb"}, ""},
		"TooLong": {"a\n" + strings.Repeat("x", 200), []string{"a"}, "line 2: element too large: more than 100 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lines := jsonstream.NewLines(strings.NewReader(tt.in), finding.Limits{MaxElement: 100})
			var got []string
			var err error
			for {
				var line []byte
				if line, err = lines.Next(); err != nil {
					break
				}
				got = append(got, string(line))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.fail == "" && !errors.Is(err, io.EOF) || tt.fail != "" && err.Error() != tt.fail {
				t.Errorf("want error %q, got %v", tt.fail, err)
			}
		})
	}
}

func TestLinesLongerThanTheBuffer(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	lines := jsonstream.NewLines(strings.NewReader(long+"\n"+long), finding.Limits{})
	for range 2 {
		if line, err := lines.Next(); err != nil || string(line) != long {
			t.Errorf("got %d bytes, %v", len(line), err)
		}
	}
}

func TestLinesDecode(t *testing.T) {
	lines := jsonstream.NewLines(strings.NewReader("{\"a\":1}\n{"), finding.Limits{})
	for i, want := range []string{"", "line 2: "} {
		line, err := lines.Next()
		if err != nil {
			t.Fatal(err)
		}
		_, err = lines.Decode(line)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("line %d: %v", i+1, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{"", `{"list":[1,{"a":[]}],"b":"\ud800"}`, "\uFEFF{}", `{"a":`, `[`, `{"list":[}`} {
		f.Add([]byte(seed))
	}
	limits := finding.Limits{MaxElement: 1 << 12, MaxDepth: 20}
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole, err := walk(strings.NewReader(string(raw)), limits)
		pieces, again := walk(iotest.OneByteReader(strings.NewReader(string(raw))), limits)
		if (err == nil) != (again == nil) || err == nil && whole != pieces {
			t.Errorf("at once: %s (%v)\nin pieces: %s (%v)", whole, err, pieces, again)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	b.SetBytes(int64(len(mustRead(b))))
	for b.Loop() {
		r := jsonstream.NewReader(rawgen.Gitleaks(10_000), finding.Limits{})
		if err := r.Array(func(int) error { _, err := r.Value(); return err }); err != nil {
			b.Fatal(err)
		}
	}
}

func mustRead(b *testing.B) []byte {
	b.Helper()
	raw, err := io.ReadAll(rawgen.Gitleaks(10_000))
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

func TestPick(t *testing.T) {
	r := jsonstream.NewReader(strings.NewReader(`[{"a":1,"b":[2],"c":{"a":3}},[{"b":1}],{"b":}]`), finding.Limits{})
	var got []string
	err := r.Array(func(int) error {
		v, err := r.Pick(map[string]bool{"a": true, "c": true})
		if err == nil {
			raw, _ := finding.AppendValue(nil, v)
			got = append(got, string(raw))
		}
		return err
	})
	if diff := cmp.Diff([]string{`{"a":1,"c":{"a":3}}`, `[{"b":1}]`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "byte 44, at /2: invalid character '}'"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("want %q, got %v", want, err)
	}
}
