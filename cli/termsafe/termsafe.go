// SPDX-License-Identifier: Apache-2.0

package termsafe

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// isActive reports whether a terminal may act upon a character.
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

// Row is a line of columns with tabs between them. White space inside a cell that would end the cell or the line becomes a
// space; the Writer that prints the row handles all other characters.
func Row(cells ...string) string {
	flat := make([]string, len(cells))
	for i, cell := range cells {
		flat[i] = strings.Map(func(c rune) rune {
			switch c {
			case '\t', '\n', '\r', '\v', '\f', 0x85, 0x2028, 0x2029:
				return ' '
			}
			return c
		}, cell)
	}
	return strings.Join(flat, "\t")
}

// Mode is what an active character becomes.
type Mode int

const (
	// Replace writes U+FFFD in its place. Line breaks and tabs stay; a carriage return stays before a line feed.
	Replace Mode = iota
	// Escape writes the character as JSON does within strings, since only there JSON can have such characters.
	Escape
)

// Writer passes text on without active characters. It holds back the beginning of a character until the rest comes, so
// Flush it.
type Writer struct {
	to   io.Writer
	mode Mode
	mark []byte
	held []byte
	out  []byte
}

// Trust lets the character after each mark pass. A text with the mark is trusted, so the mark must be one that cannot be
// guessed; see Marked.
func (w *Writer) Trust(mark string) { w.mark = []byte(mark) }

// Marked puts the mark of a Writer before each active character of a text of our own, such as a color.
func Marked(mark, text string) string {
	if mark == "" {
		return text
	}
	var out strings.Builder
	for _, c := range text {
		if isActive(c) {
			out.WriteString(mark)
		}
		out.WriteRune(c)
	}
	return out.String()
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
		if n := w.marked(text); n > 0 {
			w.out = append(w.out, text[len(w.mark):n]...)
			text = text[n:]
			continue
		}
		if w.incomplete(text) {
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

// Flush passes on the bytes that were held back.
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

// marked is how long a mark is with the character after it, or 0.
func (w *Writer) marked(text []byte) int {
	if len(w.mark) == 0 || !bytes.HasPrefix(text, w.mark) || !utf8.FullRune(text[len(w.mark):]) {
		return 0
	}
	_, size := utf8.DecodeRune(text[len(w.mark):])
	return len(w.mark) + size
}

// incomplete says that more bytes may make another character of the text.
func (w *Writer) incomplete(text []byte) bool {
	if len(w.mark) > 0 {
		if rest, ok := bytes.CutPrefix(text, w.mark); ok {
			return !utf8.FullRune(rest)
		}
		if bytes.HasPrefix(w.mark, text) {
			return true
		}
	}
	if text[0] == '\r' {
		return w.mode == Replace && len(text) == 1
	}
	return !utf8.FullRune(text)
}

// next appends the replacement of the first character, and returns the length of that character.
func (w *Writer) next(text []byte) int {
	c, size := utf8.DecodeRune(text)
	switch {
	case c == utf8.RuneError && size < 2:
		w.out = utf8.AppendRune(w.out, utf8.RuneError)
	case !isActive(c), c == '\n', c == '\t':
		w.out = append(w.out, text[:size]...)
	case c == '\r' && w.mode == Escape:
		w.out = append(w.out, ' ') // the character is between values
	case c == '\r' && len(text) > 1 && text[1] == '\n':
		w.out = append(w.out, '\r')
	case w.mode == Escape:
		w.out = fmt.Appendf(w.out, `\u%04x`, c)
	default:
		w.out = utf8.AppendRune(w.out, utf8.RuneError)
	}
	return size
}
