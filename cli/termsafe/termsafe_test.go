// SPDX-License-Identifier: Apache-2.0

package termsafe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Plain":     {"Open Port: 22 (ssh) é 漢", "Open Port: 22 (ssh) é 漢"},
		"Lines":     {"  a\r\n\t b\u2028c ", "a b c"},
		"Colour":    {"\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"},
		"Title":     {"\x1b]0;owned\x07", "\ufffd]0;owned\ufffd"},
		"C1":        {"a\u009b31mb", "a\ufffd31mb"},
		"Delete":    {"ab\x7f\b", "ab\ufffd\ufffd"},
		"Direction": {"exe.\u202efdp", "exe.\ufffdfdp"},
		"NoUTF8":    {"a\x9bb", "a\ufffdb"},
		"Null":      {"a\x00", "a\ufffd"},
		"Empty":     {" \n", ""},
	}
	for name, c := range cases {
		if got := Line(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWriter writes each text whole, and byte by byte.
func TestWriter(t *testing.T) {
	cases := map[string]struct {
		mode       Mode
		text, want string
	}{
		"Plain":        {Replace, "a\tb\r\nc é 漢\n", "a\tb\r\nc é 漢\n"},
		"Colour":       {Replace, "x\x1b[2Jy", "x\ufffd[2Jy"},
		"LoneReturn":   {Replace, "seen\rhidden", "seen\ufffdhidden"},
		"ReturnAtEnd":  {Replace, "seen\r", "seen\ufffd"},
		"C1":           {Replace, "a\u009bb\x85c", "a\ufffdb\ufffdc"},
		"Cut":          {Replace, "a\xe2\x80", "a\ufffd\ufffd"},
		"JSON":         {Escape, "{\"a\":\"\u009b\u202e\x7f\"}\n", "{\"a\":\"\\u009b\\u202e\\u007f\"}\n"},
		"JSONPretty":   {Escape, "{\r\n\t}", "{ \n\t}"},
		"JSONNoUTF8":   {Escape, "\"\xff\"", "\"\ufffd\""},
		"DirectionTxt": {Replace, "a\u2066b", "a\ufffdb"},
	}
	for name, c := range cases {
		for _, step := range []int{1, 2, 1000} {
			var out bytes.Buffer
			w := NewWriter(&out, c.mode)
			for text := []byte(c.text); len(text) > 0; {
				n := min(step, len(text))
				if _, err := w.Write(text[:n]); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s in steps of %d (-want +got):\n%s", name, step, diff)
			}
		}
	}
}

// TestMarks: sequences of our own pass, in whatever pieces they come; those of others do not, nor do bare marks.
func TestMarks(t *testing.T) {
	const mark = "\x00secret"
	cases := map[string]struct{ text, want string }{
		"Colour":     {Marked(mark, "\x1b[31m") + "a\x1b[31mb" + Marked(mark, "\x1b[0m"), "\x1b[31ma\ufffd[31mb\x1b[0m"},
		"Return":     {Marked(mark, "\r\x1b[K") + "50 %", "\r\x1b[K50 %"},
		"Null":       {"a\x00b\x00", "a\ufffdb\ufffd"},
		"PartOfMark": {"\x00sec\x1b", "\ufffdsec\ufffd"},
		"AtEnd":      {"a" + mark, "a\ufffdsecret"},
		"Wide":       {mark + "漢", "漢"},
	}
	for name, c := range cases {
		for _, step := range []int{1, 2, 1000} {
			var out bytes.Buffer
			w := NewWriter(&out, Replace)
			w.Trust(mark)
			for text := []byte(c.text); len(text) > 0; text = text[min(step, len(text)):] {
				if _, err := w.Write(text[:min(step, len(text))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s in steps of %d (-want +got):\n%s", name, step, diff)
			}
		}
	}
}

func TestRow(t *testing.T) {
	if got, want := Row("a\tb", "c\nd\u2028e", "\x1b"), "a b\tc d e\t\x1b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterReportsErrors(t *testing.T) {
	w := NewWriter(full{}, Replace)
	if _, err := w.Write([]byte("a")); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v", err)
	}
}

// FuzzWriter holds that nothing active comes through, and that JSON means the same.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b[0m\u009b", 1)
	f.Add("a\r\nb\r", 2)
	f.Fuzz(func(t *testing.T, text string, step int) {
		step = max(1, step%7)
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []Mode{Replace, Escape} {
			in := []byte(text)
			if mode == Escape {
				in = quoted
			}
			var out bytes.Buffer
			w := NewWriter(&out, mode)
			for rest := in; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				if _, err := w.Write(rest[:min(step, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if !utf8.Valid(out.Bytes()) {
				t.Fatalf("%q is no UTF-8", out.String())
			}
			for _, c := range out.String() {
				if isActive(c) && !strings.ContainsRune("\r\n\t", c) {
					t.Fatalf("%q came through in %q", c, out.String())
				}
			}
			if mode != Escape {
				continue
			}
			var want, got string
			if json.Unmarshal(quoted, &want) != nil || json.Unmarshal(out.Bytes(), &got) != nil || want != got {
				t.Fatalf("%q means %q, want %q", out.String(), got, want)
			}
		}
	})
}
