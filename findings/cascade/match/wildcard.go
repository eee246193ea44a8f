// SPDX-License-Identifier: Apache-2.0

package match

import "strings"

// Wildcard reports whether a whole text matches a pattern: * is any run of characters, including line breaks, any other
// character is itself, and a leading ! negates the rest. It takes time proportional to the lengths, whatever the pattern is.
func Wildcard(text, pattern string) bool {
	if rest, negated := strings.CutPrefix(pattern, "!"); negated {
		return !fits(text, rest)
	}
	return fits(text, pattern)
}

// isLiteral says that a pattern fits exactly the text it is.
func isLiteral(pattern string) bool {
	return !strings.HasPrefix(pattern, "!") && !strings.Contains(pattern, "*")
}

// fits takes the first place for each piece between two wildcards: a later one is never better.
func fits(text, pattern string) bool {
	piece, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return text == pattern
	}
	text, ok := strings.CutPrefix(text, piece)
	if !ok {
		return false
	}
	for {
		piece, rest, wild = strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, piece)
		}
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
}
