// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// glob is a pattern with * for any run of characters and ? for one character, taken apart at each *.
type glob struct{ pieces []string }

func compileGlob(pattern string) glob { return glob{strings.Split(pattern, "*")} }

// hasLiteral says whether a pattern asks for anything but a length.
func hasLiteral(pattern string) bool { return strings.Trim(pattern, "*?") != "" }

// prefix is the beginning that each text must have which the glob fits.
func (g glob) prefix() string {
	literal, _, _ := strings.Cut(g.pieces[0], "?")
	return literal
}

// fits says whether the glob fits a whole text. A piece takes the first place that there is: a later one is never better.
func (g glob) fits(text string) bool {
	first, rest := g.pieces[0], g.pieces[1:]
	n := fitsAt(text, first)
	if n < 0 {
		return false
	}
	if text = text[n:]; len(rest) == 0 {
		return text == ""
	}
	for _, piece := range rest[:len(rest)-1] {
		at, n := find(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+n:]
	}
	return fitsEnd(text, rest[len(rest)-1])
}

// fitsAt gives the bytes of text that a piece takes at its beginning, -1 where the piece does not fit.
func fitsAt(text, piece string) int {
	if !strings.Contains(piece, "?") {
		if strings.HasPrefix(text, piece) {
			return len(piece)
		}
		return -1
	}
	at := 0
	for _, want := range piece {
		got, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 || want != '?' && want != got {
			return -1
		}
		at += size
	}
	return at
}

// find gives the first place where a piece fits, and its length there.
func find(text, piece string) (at, n int) {
	if !strings.Contains(piece, "?") {
		return strings.Index(text, piece), len(piece)
	}
	for at := range text {
		if n := fitsAt(text[at:], piece); n >= 0 {
			return at, n
		}
	}
	return -1, 0
}

// fitsEnd says whether a piece fits the end of a text.
func fitsEnd(text, piece string) bool {
	if !strings.Contains(piece, "?") {
		return strings.HasSuffix(text, piece)
	}
	at := len(text)
	for range utf8.RuneCountInString(piece) {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		if size == 0 {
			return false
		}
		at -= size
	}
	return fitsAt(text[at:], piece) == len(text)-at
}

// globs are patterns of which one has to fit. The zero value fits nothing.
type globs []glob

func compileGlobs(patterns []string) globs {
	list := make(globs, 0, len(patterns))
	for _, p := range patterns {
		list = append(list, compileGlob(p))
	}
	return list
}

func (l globs) fit(text string) bool {
	return slices.ContainsFunc(l, func(g glob) bool { return g.fits(text) })
}

// prefixes are the literal beginnings, nil where one has none.
func (l globs) prefixes() []string {
	list := make([]string, 0, len(l))
	for _, g := range l {
		p := g.prefix()
		if p == "" {
			return nil
		}
		list = append(list, p)
	}
	return list
}
