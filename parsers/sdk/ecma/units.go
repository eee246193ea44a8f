// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Unit is one UTF-16 unit, what ECMAScript counts texts in.
type Unit uint16

// String returns the unit as a text. Half of a surrogate pair becomes what package finding decodes and writes it as:
// the three bytes that a character of its number would have.
func (u Unit) String() string { return text([]Unit{u}) }

// Units splits a text into its UTF-16 units.
func Units(s string) []Unit {
	units := make([]Unit, 0, len(s))
	for s != "" {
		r, size := decode(s)
		s = s[size:]
		if r >= 0x10000 {
			high, low := utf16.EncodeRune(r)
			units = append(units, Unit(high), Unit(low))
			continue
		}
		units = append(units, Unit(r))
	}
	return units
}

// Length is s.length.
func Length(s string) int {
	n := 0
	for s != "" {
		r, size := decode(s)
		s = s[size:]
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

// Substring is s.substring(from, to), for from up to to.
func Substring(s string, from, to int) string {
	units := Units(s)
	to = min(to, len(units))
	return text(units[min(from, to):to])
}

// text joins units; the halves of a pair find each other.
func text(units []Unit) string {
	var out []byte
	for i := 0; i < len(units); i++ {
		r := rune(units[i])
		if i+1 < len(units) {
			if pair := utf16.DecodeRune(r, rune(units[i+1])); pair != utf8.RuneError {
				out = utf8.AppendRune(out, pair)
				i++
				continue
			}
		}
		if utf16.IsSurrogate(r) {
			out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// decode reads one character, or half of a surrogate pair.
func decode(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 && len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 {
		return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, size
}
