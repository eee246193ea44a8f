// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// IsSpace reports what trim() removes and \s matches: white space and line ends, including U+FEFF.
func IsSpace(r rune) bool { return isSpace(r) }

// ToUpper is s.toUpperCase(), which can make a text longer: ß becomes SS.
func ToUpper(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return cases.Upper(language.Und).String(s)
		}
	}
	return strings.ToUpper(s)
}
