// SPDX-License-Identifier: Apache-2.0

package severity

import (
	"math"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// The bands of CVSS.
const (
	highFrom   = 7.0
	mediumFrom = 4.0
	highest    = 10.0
)

// OfScore rates a CVSS score. It tells whether it is one: a number from 0 to 10.
func OfScore(score float64) (string, bool) {
	switch {
	case math.IsNaN(score) || score < 0 || score > highest:
		return "", false
	case score >= highFrom:
		return finding.High, true
	case score >= mediumFrom:
		return finding.Medium, true
	case score > 0:
		return finding.Low, true
	}
	return finding.Informational, true
}

// Score reads a CVSS score from a decoded value, a number or a text such as "7.5".
func Score(v any) (float64, bool) {
	score, ok := v.(float64)
	if text, isText := v.(string); isText {
		var err error
		score, err = strconv.ParseFloat(strings.TrimSpace(text), 64)
		ok = err == nil
	}
	if _, rated := OfScore(score); !ok || !rated {
		return 0, false
	}
	return score, true
}

var words = map[string]string{
	"critical":      finding.High,
	"important":     finding.High,
	"high":          finding.High,
	"medium":        finding.Medium,
	"moderate":      finding.Medium,
	"low":           finding.Low,
	"negligible":    finding.Informational,
	"informational": finding.Informational,
	"info":          finding.Informational,
	"none":          finding.Informational,
	"unknown":       finding.Informational,
}

// OfWord rates a word, whatever its case. It tells whether the word is known.
func OfWord(word string) (string, bool) {
	s, ok := words[strings.ToLower(strings.TrimSpace(word))]
	return s, ok
}

// OfID rates what can be rated by its name alone: MAL-… is how the OpenSSF names packages that are malicious, which
// nobody scores.
func OfID(id string) (string, bool) {
	if strings.HasPrefix(id, "MAL-") {
		return finding.High, true
	}
	return "", false
}

// All are the four, for kinds of findings that can have any.
func All() []string {
	return []string{finding.High, finding.Medium, finding.Low, finding.Informational}
}
