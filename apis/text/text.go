// SPDX-License-Identifier: Apache-2.0

// Package text makes texts of others short and flat enough for a condition, a log line or a field with a bound.
//
// What it decides: a text is never cut inside a character, a text that was cut ends in "…", and that mark is within the
// bound. One line has no control characters and none that turn the direction of writing.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const mark = "…"

// Cut shortens a text to a number of bytes.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := max(most-len(mark), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// CutRunes shortens a text to a number of characters, for fields whose bound is not in bytes.
func CutRunes(s string, most int) string {
	if len(s) <= most { // a character has a byte at least
		return s
	}
	last := 0 // where the last character that fits begins
	for n := range s {
		if most--; most == 0 {
			last = n
		} else if most < 0 {
			return s[:last] + mark
		}
	}
	return s
}

// Line makes one line of a text: white space of any length is one space, control characters and those that turn the
// direction of writing are dropped, and bytes that are not a character become U+FFFD.
func Line(s string) string {
	var b strings.Builder
	space := false
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case unicode.IsSpace(c):
			space = b.Len() > 0
			continue
		case unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c):
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(c)
	}
	return b.String()
}

// First is the first line of a text that has something in it, without white space around it.
func First(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
