// SPDX-License-Identifier: Apache-2.0

package termsafe

import "github.com/mattn/go-runewidth"

// columns counts as terminals do. What Unicode calls ambiguous is narrow, whatever the locale: tables look alike everywhere.
var columns = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many columns a text takes on a terminal.
func Width(text string) int { return columns.StringWidth(text) }

// Fit shortens a text to a number of columns of a terminal; what was cut ends in "…".
func Fit(text string, most int) string { return columns.Truncate(text, most, "…") }
