// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError is a mistake in an expression.
type SyntaxError struct {
	Position int    // of the character, from 1
	Message  string // what was expected, and found
}

// Error returns the mistake with its position.
func (e *SyntaxError) Error() string { return fmt.Sprintf("position %d: %s", e.Position, e.Message) }

type tokenKind int

const (
	end    tokenKind = iota
	word             // letters, digits and _, not beginning with a digit
	text             // in quotes
	number           // digits, a sign before, a point within
	sign             // operators and brackets
)

type token struct {
	kind     tokenKind
	text     string // of a text: what it says
	position int
}

// String is the token as messages show it.
func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case text:
		return "a text"
	default:
		return quote(t.text)
	}
}

// signs are in an order in which no sign begins with one before it.
var signs = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", "."}

// lexer cuts an expression into tokens.
type lexer struct {
	rest     string
	position int // of the rest's first character, from 1
}

func (l *lexer) take(bytes int) (taken string) {
	taken, l.rest = l.rest[:bytes], l.rest[bytes:]
	l.position += utf8.RuneCountInString(taken)
	return taken
}

func (l *lexer) fail(format string, args ...any) error {
	return &SyntaxError{Position: l.position, Message: fmt.Sprintf(format, args...)}
}

func (l *lexer) next() (token, error) {
	l.take(len(l.rest) - len(strings.TrimLeft(l.rest, " \t\r\n")))
	t := token{position: l.position}
	if l.rest == "" {
		return t, nil
	}
	first := l.rest[0]
	switch {
	case first == '\'' || first == '"':
		said, err := l.quoted()
		t.kind, t.text = text, said
		return t, err
	case isLetter(first):
		t.kind, t.text = word, l.take(span(l.rest, func(c byte) bool { return isLetter(c) || isDigit(c) }))
		return t, nil
	case isDigit(first), first == '-' && len(l.rest) > 1 && isDigit(l.rest[1]):
		t.kind, t.text = number, l.take(1+span(l.rest[1:], func(c byte) bool { return isDigit(c) || c == '.' }))
		return t, nil
	}
	for _, s := range signs {
		if strings.HasPrefix(l.rest, s) {
			t.kind, t.text = sign, l.take(len(s))
			return t, nil
		}
	}
	found, _ := utf8.DecodeRuneInString(l.rest)
	return t, l.fail("expected a field, a value or an operator, found %q", found)
}

// quoted reads a text in quotes.
func (l *lexer) quoted() (string, error) {
	begin := l.position
	mark := l.take(1)[0]
	var said strings.Builder
	for l.rest != "" {
		c, size := utf8.DecodeRuneInString(l.rest)
		switch {
		case c == utf8.RuneError && size == 1, c == 0:
			return "", l.fail("expected valid UTF-8 without NUL")
		case l.rest[0] == mark:
			l.take(1)
			return said.String(), nil
		case c == '\\':
			escaped, ok := unescape(l.rest)
			if !ok {
				return "", l.fail(`expected one of \\ \' \" \n \r \t: a backslash escapes`)
			}
			said.WriteByte(escaped)
			l.take(2)
		default:
			said.WriteString(l.take(size))
		}
	}
	return "", l.fail("expected %c, which ends the text that begins at position %d, found the end", mark, begin)
}

func unescape(rest string) (byte, bool) {
	if len(rest) < 2 {
		return 0, false
	}
	switch c := rest[1]; c {
	case '\\', '\'', '"':
		return c, true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// span is the length of the beginning whose bytes all fit.
func span(s string, fits func(byte) bool) int {
	for i := range len(s) {
		if !fits(s[i]) {
			return i
		}
	}
	return len(s)
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
