// SPDX-License-Identifier: Apache-2.0

package ecma

import "unicode/utf8"

// maxDigits is how many digits of a number count, without leading zeros.
const maxDigits = 9

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenWord
	tokenSpace
	tokenSymbol // : - + . )
	tokenOther
)

type wordKind uint8

const (
	wordUnknown wordKind = iota
	wordMonth
	wordHalf // am, pm
	wordZone
	wordT
)

// dateToken is a piece of a text that may be a date.
type dateToken struct {
	kind   tokenKind
	symbol byte
	word   wordKind
	// n is the number, or what a word stands for: a month from 1, hours.
	n int
	// length is that of a number or word.
	length int
}

func (t dateToken) is(symbol byte) bool { return t.kind == tokenSymbol && t.symbol == symbol }

func (t dateToken) isSign() bool { return t.is('+') || t.is('-') }

func (t dateToken) sign() int {
	if t.symbol == '-' {
		return -1
	}
	return 1
}

func (t dateToken) isZ() bool { return t.kind == tokenWord && t.word == wordZone && t.length == 1 }

func (t dateToken) hasDigits(n int) bool { return t.kind == tokenNumber && t.length == n }

// thousandths reads a number as what follows a decimal point.
func thousandths(t dateToken) int {
	n := t.n
	for length := t.length; length < 3; length++ {
		n *= 10
	}
	for length := min(t.length, maxDigits); length > 3; length-- {
		n /= 10
	}
	return n
}

// dateTokens cuts a text into tokens, with the next one in sight.
type dateTokens struct {
	s    string
	pos  int
	peek dateToken
}

func (d *dateTokens) next() dateToken {
	t := d.peek
	d.scan()
	return t
}

func (d *dateTokens) skip(symbol byte) bool {
	if !d.peek.is(symbol) {
		return false
	}
	d.scan()
	return true
}

// at is the byte at the position. A NUL ends the text, as its end does.
func (d *dateTokens) at() byte {
	if d.pos < len(d.s) {
		return d.s[d.pos]
	}
	return 0
}

func (d *dateTokens) scan() {
	switch c := d.at(); {
	case c == 0:
		d.peek = dateToken{}
	case isDigit(c):
		d.peek = d.number()
	case c == ':' || c == '-' || c == '+' || c == '.' || c == ')':
		d.pos++
		d.peek = dateToken{kind: tokenSymbol, symbol: c}
	case d.letter() > 0:
		d.peek = d.word()
	case c == '(':
		d.comment()
		d.peek = dateToken{kind: tokenOther}
	default:
		r, size := utf8.DecodeRuneInString(d.s[d.pos:])
		d.pos += size
		d.peek = dateToken{kind: tokenOther}
		if isDateSpace(r) {
			d.peek.kind = tokenSpace
		}
	}
}

func (d *dateTokens) number() dateToken {
	from := d.pos
	n, digits := 0, 0
	for ; isDigit(d.at()); d.pos++ {
		if digits == 0 && d.at() == '0' {
			continue
		}
		if digits < maxDigits {
			n = n*10 + int(d.at()-'0')
		}
		digits++
	}
	return dateToken{kind: tokenNumber, n: n, length: d.pos - from}
}

// letter is how many bytes of a character that words are made of come next: all from A on but white space.
func (d *dateTokens) letter() int {
	c := d.at()
	if c < 'A' {
		return 0
	}
	if c < utf8.RuneSelf {
		return 1
	}
	r, size := utf8.DecodeRuneInString(d.s[d.pos:])
	if isDateSpace(r) {
		return 0
	}
	return size
}

// isDateSpace reports white space among dates. The two separators of Unicode are letters there.
func isDateSpace(r rune) bool { return isSpace(r) && r != 0x2028 && r != 0x2029 }

func (d *dateTokens) word() dateToken {
	from := d.pos
	for size := d.letter(); size > 0; size = d.letter() {
		d.pos += size
	}
	return wordOf(d.s[from:d.pos])
}

func wordOf(word string) dateToken {
	t := dateToken{kind: tokenWord, length: len(word)}
	var lower [3]byte
	for i := range min(len(word), len(lower)) {
		lower[i] = word[i] | 0x20
	}
	start := lower[:min(len(word), len(lower))]
	if month, ok := months[string(start)]; ok { // the rest of a month's name can be anything
		t.word, t.n = wordMonth, month
	} else if known, ok := words[string(start)]; ok && len(word) <= len(lower) {
		t.word, t.n = known.kind, known.n
	}
	return t
}

// comment skips parentheses with all that is in them. The last ones need not be closed.
func (d *dateTokens) comment() {
	for open := 0; d.at() != 0; d.pos++ {
		switch d.at() {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				d.pos++
				return
			}
		}
	}
}

var months = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}

var words = map[string]struct {
	kind wordKind
	n    int
}{
	"am": {wordHalf, 0}, "pm": {wordHalf, 12}, "t": {wordT, 0},
	"ut": {wordZone, 0}, "utc": {wordZone, 0}, "z": {wordZone, 0}, "gmt": {wordZone, 0},
	"cdt": {wordZone, -5}, "cst": {wordZone, -6}, "edt": {wordZone, -4}, "est": {wordZone, -5},
	"mdt": {wordZone, -6}, "mst": {wordZone, -7}, "pdt": {wordZone, -7}, "pst": {wordZone, -8},
}
