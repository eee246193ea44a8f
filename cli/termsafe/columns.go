// SPDX-License-Identifier: Apache-2.0

package termsafe

import "github.com/mattn/go-runewidth"

// columns counts as terminals do. What Unicode calls ambiguous is narrow, whatever the locale: tables look alike everywhere.
var columns = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many columns a text takes on a terminal.
func Width(text string) int { return columns.StringWidth(text) }

// Fit shortens a text to a number of columns of a terminal; what was cut ends in "…".
func Fit(text string, most int) string { return columns.Truncate(text, most, "…") }

// Narrow takes width from the widest columns of a table until its rows fit into a terminal; 0 columns have room for everything.
// Columns that are kept stay as they are, and no other one gets narrower than least. gap is the space between columns.
func Narrow(widths []int, kept func(column int) bool, gap, least, columns int) {
	if columns <= 0 || len(widths) == 0 {
		return
	}
	over := gap*(len(widths)-1) - columns
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if w > least && !kept(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}
