// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/text"
)

func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		in         string
		most       int
		cut, runes string
	}{
		"Empty":     {"", 3, "", ""},
		"Fits":      {"abc", 3, "abc", "abc"},
		"Cut":       {"abcdef", 5, "ab…", "abcd…"},
		"Inside":    {"aäöü", 5, "a…", "aäöü"},
		"FourBytes": {"😀😀😀", 8, "😀…", "😀😀😀"},
		"Tiny":      {"abc", 1, "…", "…"},
		"Nothing":   {"abc", 0, "…", "…"},
		"Runes":     {"äöüß", 3, "…", "äö…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Cut(tc.in, tc.most); got != tc.cut {
				t.Errorf("Cut: %q, want %q", got, tc.cut)
			}
			if got := text.CutRunes(tc.in, tc.most); got != tc.runes {
				t.Errorf("CutRunes: %q, want %q", got, tc.runes)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("aäöü😀", 5)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(min(most, 1<<16), len("…"))
		s = strings.ToValidUTF8(s, "")
		cut, runes := text.Cut(s, most), text.CutRunes(s, most)
		if len(cut) > most || !utf8.ValidString(cut) || utf8.RuneCountInString(runes) > most || !utf8.ValidString(runes) {
			t.Errorf("%q cut to %d is %q and %q", s, most, cut, runes)
		}
		if (utf8.RuneCountInString(s) > most) != (runes != s) || (len(s) > most) != (cut != s) {
			t.Errorf("%q cut to %d without need: %q and %q", s, most, cut, runes)
		}
	})
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		" a \t\r\n b\u2028c\u00a0d ":   "a b c d",
		"a\x1b[31mb\x00":               "a[31mb",
		"user\u202egpj.exe\u2066":      "usergpj.exe",
		"broken \xff byte":             "broken \uFFFD byte",
		"one":                          "one",
		"\n\nfirst\nsecond\r\n third ": "first second third",
	} {
		if got := text.Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := text.First("\n first \nsecond"); got != "first" {
		t.Errorf("First: %q", got)
	}
}
