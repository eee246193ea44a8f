// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Value is what a field is compared with. The member that the field's type names is set.
type Value struct {
	Text     string        // Text and Result, never empty
	Rank     int           // Severity
	Number   float64       // Number, finite
	Time     time.Time     // Time, in UTC
	Duration time.Duration // Duration
	Flag     bool          // Flag
}

// day is what durations may count in beside the units of [time.ParseDuration].
const day = 24 * time.Hour

// valueOf reads the text of a value. Errors complete the sentence "the value …".
func valueOf(of Type, text string) (Value, error) {
	if text == "" {
		return Value{}, fmt.Errorf("must not be empty: has(field) asks whether a value is there")
	}
	switch of {
	case Severity:
		if rank := Rank(text); rank > 0 {
			return Value{Rank: rank}, nil
		}
		return Value{}, fmt.Errorf("must be one of %s", strings.Join(severities[1:], ", "))
	case Result:
		if Code(text) > 0 {
			return Value{Text: text}, nil
		}
		return Value{}, fmt.Errorf("must be one of %s", strings.Join(results[1:], ", "))
	case Number:
		return numberOf(text)
	case Time:
		return timeOf(text)
	case Duration:
		d, err := durationOf(text)
		return Value{Duration: d}, err
	case Flag:
		if text != "true" && text != "false" {
			return Value{}, fmt.Errorf("must be true or false")
		}
		return Value{Flag: text == "true"}, nil
	default:
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return Value{}, fmt.Errorf("must be valid UTF-8 without NUL")
		}
		return Value{Text: text}, nil
	}
}

// numberOf reads a decimal number. Words such as NaN and hexadecimal numbers are not valid.
func numberOf(text string) (Value, error) {
	if strings.Trim(text, "0123456789.-") == "" {
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			return Value{Number: number + 0}, nil // -0 is 0
		}
	}
	return Value{}, fmt.Errorf("must be a decimal number, such as 8.5")
}

func timeOf(text string) (Value, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			return Value{Time: t.UTC()}, nil
		}
	}
	return Value{}, fmt.Errorf("must be a time of RFC 3339 or a date, such as 2026-01-31T08:00:00Z or 2026-01-31")
}

// durationOf reads a duration of Go, or a number of days.
func durationOf(text string) (time.Duration, error) {
	const maxDays = 100_000
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil && n <= maxDays {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("must be a duration of 0 or more, such as 36h or 7d")
}

// textOf is the value as valueOf reads it.
func (v Value) textOf(of Type) string {
	switch of {
	case Severity:
		return SeverityOfRank(v.Rank)
	case Number:
		return strconv.FormatFloat(v.Number, 'f', -1, 64)
	case Time:
		return v.Time.Format(time.RFC3339Nano)
	case Duration:
		return v.Duration.String()
	case Flag:
		return strconv.FormatBool(v.Flag)
	default:
		return v.Text
	}
}

// literal is the value as an expression has it.
func (v Value) literal(of Type) string {
	text := v.textOf(of)
	if of == Number || of == Flag {
		return text
	}
	return quote(text)
}

var quoted = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func quote(text string) string { return "'" + quoted.Replace(text) + "'" }

// compare orders two values of a type: negative if a is less.
func compare(of Type, a, b Value) int {
	switch of {
	case Severity:
		return a.Rank - b.Rank
	case Number:
		switch {
		case a.Number < b.Number:
			return -1
		case a.Number > b.Number:
			return 1
		}
		return 0
	case Time:
		return a.Time.Compare(b.Time)
	case Duration:
		return int(min(max(a.Duration-b.Duration, -1), 1))
	case Flag:
		return slices.Index([]bool{false, true}, a.Flag) - slices.Index([]bool{false, true}, b.Flag)
	case Result:
		return Code(a.Text) - Code(b.Text)
	default:
		return strings.Compare(a.Text, b.Text)
	}
}
