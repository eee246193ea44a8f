// SPDX-License-Identifier: Apache-2.0

package inert

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// isActive tells the characters that a terminal may act upon.
func isActive(c rune) bool {
	switch {
	case c < ' ', c >= 0x7f && c <= 0x9f:
		return true
	case c == 0x061c, c == 0x200e, c == 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
		return true // direction
	}
	return false
}

// Line is a text in one line: white space of any length is one space.
func Line(text string) string {
	var out strings.Builder
	space := false
	for _, c := range text {
		switch {
		case c == ' ', c == '\t', c == '\n', c == '\r', c == 0x2028, c == 0x2029, c == 0x85:
			space = out.Len() > 0
			continue
		case isActive(c):
			c = utf8.RuneError
		}
		if space {
			out.WriteByte(' ')
			space = false
		}
		out.WriteRune(c)
	}
	return out.String()
}

// Mode says what becomes of an active character.
type Mode int

const (
	// Replace writes U+FFFD in its place. Line breaks and tabs stay; a carriage return stays before a line feed.
	Replace Mode = iota
	// Escape writes it as JSON does within strings, where alone it can stand in JSON.
	Escape
)

// Writer passes text on without active characters. It holds back the beginning of a character until the rest comes, so
// Flush it.
type Writer struct {
	to   io.Writer
	mode Mode
	held []byte
	out  []byte
}

// NewWriter wraps a writer.
func NewWriter(to io.Writer, mode Mode) *Writer { return &Writer{to: to, mode: mode} }

// Write passes text on.
func (w *Writer) Write(p []byte) (int, error) {
	text := p
	if len(w.held) > 0 {
		text = slices.Concat(w.held, p)
		w.held = nil
	}
	w.out = w.out[:0]
	for len(text) > 0 {
		if n := calm(text); n > 0 {
			w.out = append(w.out, text[:n]...)
			text = text[n:]
			continue
		}
		if incomplete(text, w.mode) {
			w.held = append(w.held[:0:0], text...)
			break
		}
		text = text[w.next(text):]
	}
	if err := w.pass(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush passes on what was held back.
func (w *Writer) Flush() error {
	w.out = w.out[:0]
	for text := w.held; len(text) > 0; {
		text = text[w.next(text):]
	}
	w.held = nil
	return w.pass()
}

func (w *Writer) pass() error {
	if len(w.out) == 0 {
		return nil
	}
	if _, err := w.to.Write(w.out); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// calm counts the bytes at the beginning that are plain ASCII, which is most of any text.
func calm(text []byte) int {
	for i, b := range text {
		if (b < ' ' && b != '\n' && b != '\t') || b >= 0x7f {
			return i
		}
	}
	return len(text)
}

// incomplete says that what is there may become another character with what comes.
func incomplete(text []byte, mode Mode) bool {
	if text[0] == '\r' {
		return mode == Replace && len(text) == 1
	}
	return !utf8.FullRune(text)
}

// next appends what becomes of the first character, and returns how long it was.
func (w *Writer) next(text []byte) int {
	c, size := utf8.DecodeRune(text)
	switch {
	case c == utf8.RuneError && size < 2:
		w.out = utf8.AppendRune(w.out, utf8.RuneError)
	case !isActive(c), c == '\n', c == '\t':
		w.out = append(w.out, text[:size]...)
	case c == '\r' && w.mode == Escape:
		w.out = append(w.out, ' ') // it stands between values
	case c == '\r' && len(text) > 1 && text[1] == '\n':
		w.out = append(w.out, '\r')
	case w.mode == Escape:
		w.out = fmt.Appendf(w.out, `\u%04x`, c)
	default:
		w.out = utf8.AppendRune(w.out, utf8.RuneError)
	}
	return size
}
