// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// layout writes a time as tokens of Luxon say (https://moment.github.io/luxon/#/formatting): letters that repeat are a
// token, 'quoted' text and everything else stands for itself. Words are English, the zone is UTC.
type layout []func(t time.Time) string

// parseLayout reads a layout. Its error reads well after the setting's name.
func parseLayout(text string) (layout, error) {
	var l layout
	for text != "" {
		if text[0] == '\'' {
			quoted, rest, closed := strings.Cut(text[1:], "'")
			if !closed {
				return nil, fmt.Errorf("%q has a quote that does not end", text)
			}
			if quoted == "" {
				quoted = "'"
			}
			l, text = append(l, literal(quoted)), rest
			continue
		}
		run := 1
		for run < len(text) && text[run] == text[0] {
			run++
		}
		token := text[:run]
		text = text[run:]
		// These write slashes, colons and spaces, which no name of an index has.
		switch token[0] {
		case 'D', 't', 'T', 'f', 'F':
			return nil, fmt.Errorf(
				"has the token %s, a date as people of a country write it, which no index can be called; use yyyy, MM, dd, kkkk, WW, q and the like",
				token,
			)
		}
		write, known := tokens[token]
		if !known {
			write = literal(token)
		}
		l = append(l, write)
	}
	return l, nil
}

// format writes a time.
func (l layout) format(t time.Time) string {
	var out strings.Builder
	t = t.UTC()
	for _, write := range l {
		out.WriteString(write(t))
	}
	return out.String()
}

func literal(text string) func(time.Time) string {
	return func(time.Time) string { return text }
}

// padded writes a number with zeros in front.
func padded(width int, number func(time.Time) int) func(time.Time) string {
	return func(t time.Time) string { return fmt.Sprintf("%0*d", width, number(t)) }
}

func standard(layout string) func(time.Time) string {
	return func(t time.Time) string { return t.Format(layout) }
}

// tokens are all that Luxon knows but those that parseLayout refuses.
var tokens = makeTokens()

func makeTokens() map[string]func(time.Time) string {
	all := map[string]func(time.Time) string{}
	// A letter alone, and as many of it as the width with zeros in front.
	number := func(letter string, value func(time.Time) int, widths ...int) {
		for _, width := range append([]int{1}, widths...) {
			all[strings.Repeat(letter, width)] = padded(width, value)
		}
	}
	number("S", millisecond, 3)
	number("s", time.Time.Second, 2)
	number("m", time.Time.Minute, 2)
	number("h", func(t time.Time) int { return (t.Hour()+11)%12 + 1 }, 2)
	number("H", time.Time.Hour, 2)
	number("d", time.Time.Day, 2)
	number("L", month, 2)
	number("M", month, 2)
	number("y", time.Time.Year, 4, 5, 6)
	number("k", weekYear, 4)
	number("W", week, 2)
	number("o", time.Time.YearDay, 3)
	number("q", quarter, 2)
	number("E", weekday)
	number("c", weekday)
	all["yy"] = padded(2, func(t time.Time) int { return t.Year() % 100 })
	all["kk"] = padded(2, func(t time.Time) int { return weekYear(t) % 100 })
	all["u"] = padded(3, millisecond)
	all["uu"] = padded(2, func(t time.Time) int { return millisecond(t) / 10 })
	all["uuu"] = padded(1, func(t time.Time) int { return millisecond(t) / 100 })
	for _, letter := range []string{"L", "M"} {
		all[strings.Repeat(letter, 3)], all[strings.Repeat(letter, 4)] = standard("Jan"), standard("January")
		all[strings.Repeat(letter, 5)] = func(t time.Time) string { return t.Format("Jan")[:1] }
	}
	for _, letter := range []string{"E", "c"} {
		all[strings.Repeat(letter, 3)], all[strings.Repeat(letter, 4)] = standard("Mon"), standard("Monday")
		all[strings.Repeat(letter, 5)] = func(t time.Time) string { return t.Format("Mon")[:1] }
	}
	for token, text := range map[string]string{
		"Z": "+0", "ZZ": "+00:00", "ZZZ": "+0000", "ZZZZ": "UTC", "ZZZZZ": "Coordinated Universal Time", "z": "UTC",
		"G": "AD", "GG": "Anno Domini", "GGGGG": "A",
	} {
		all[token] = literal(text)
	}
	all["a"] = standard("PM")
	all["X"] = func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	all["x"] = func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	return all
}

func millisecond(t time.Time) int { return t.Nanosecond() / int(time.Millisecond) }
func month(t time.Time) int       { return int(t.Month()) }
func quarter(t time.Time) int     { return (int(t.Month()) + 2) / 3 }

func weekYear(t time.Time) int {
	year, _ := t.ISOWeek()
	return year
}

func week(t time.Time) int {
	_, number := t.ISOWeek()
	return number
}

// weekday counts from Monday.
func weekday(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }

// join leaves out empty parts.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "_")
}
