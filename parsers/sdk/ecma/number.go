// SPDX-License-Identifier: Apache-2.0

package ecma

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
)

// ParseInt is parseInt(s, 10): leading white space, a sign and digits; NaN where there is no digit.
func ParseInt(s string) float64 {
	s = TrimLeft(s)
	end := signLength(s)
	digits := end
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	if end == digits {
		return math.NaN()
	}
	return double(s[:end])
}

// ParseFloat is parseFloat(s): the longest prefix that is a decimal number or Infinity; NaN where there is none.
func ParseFloat(s string) float64 {
	s = TrimLeft(s)
	end := signLength(s)
	if strings.HasPrefix(s[end:], "Infinity") {
		return double(s[:end] + "Inf")
	}
	whole := digitsFrom(s, end)
	fraction := 0
	next := end + whole
	if next < len(s) && s[next] == '.' {
		fraction = digitsFrom(s, next+1)
		if whole+fraction > 0 {
			next += 1 + fraction
		}
	}
	if whole+fraction == 0 {
		return math.NaN()
	}
	if next < len(s) && (s[next] == 'e' || s[next] == 'E') {
		digits := next + 1
		digits += signLength(s[digits:])
		if n := digitsFrom(s, digits); n > 0 {
			next = digits + n
		}
	}
	return double(s[:next])
}

// double reads a text that is known to be a number. Out of range is infinite, as in ECMAScript.
func double(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

func signLength(s string) int {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return 1
	}
	return 0
}

func digitsFrom(s string, from int) int {
	n := from
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n - from
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// TrimLeft drops leading white space and line ends, of ECMAScript's kinds.
func TrimLeft(s string) string {
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		if !isSpace(r) {
			break
		}
		s = s[size:]
	}
	return s
}

func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xA0, 0xFEFF, 0x2028, 0x2029:
		return true
	}
	return r > 0xFF && unicode.Is(unicode.Zs, r)
}

// Number is String(f): "80", "2.5", "1e+21", "NaN".
func Number(f float64) string { return finding.ToString(f) }
