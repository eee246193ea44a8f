// SPDX-License-Identifier: Apache-2.0

package termsafe

import "strings"

// Wrap breaks a text at spaces into lines of at most a number of columns of a terminal; 0 columns have room for everything. A word
// that is wider has a line of its own and stays whole, so that it can be copied.
func Wrap(text string, most int) []string {
	if most <= 0 || Width(text) <= most {
		return []string{text}
	}
	var lines []string
	line, width, begun := "", 0, false
	for word := range strings.SplitSeq(text, " ") {
		w := Width(word)
		if begun && width+1+w > most {
			lines = append(lines, line)
			begun = false
		}
		if begun {
			line, width = line+" "+word, width+1+w
		} else {
			line, width, begun = word, w, true
		}
	}
	return append(lines, line)
}
