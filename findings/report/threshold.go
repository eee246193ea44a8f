// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/findings/rating"
)

// Threshold says which findings are bad enough: those of a severity and of worse ones, or those that are critical. Critical
// is none of the four severities of findings: their scanners or their scores say so (package rating).
type Threshold struct {
	least    Severity
	critical bool
}

// AtLeast is reached by findings of a severity and of worse ones.
func AtLeast(s Severity) Threshold { return Threshold{least: s} }

// Critical is reached by findings that are critical.
func Critical() Threshold { return Threshold{critical: true} }

const criticalWord = "critical"

// shortest is how many letters of a severity are enough.
const shortest = 3

// ParseThreshold reads a severity or the word critical, in letters of any case; their first three letters are enough.
func ParseThreshold(text string) (Threshold, error) {
	word := strings.ToUpper(strings.TrimSpace(text))
	if len(word) >= shortest {
		if name := strings.ToUpper(criticalWord); strings.HasPrefix(name, word) {
			return Critical(), nil
		}
		for s, name := range severityNames {
			if strings.HasPrefix(name, word) {
				return AtLeast(Severity(s)), nil
			}
		}
	}
	return Threshold{}, fmt.Errorf("severity %q is none of %s", text, strings.Join(Thresholds(), ", "))
}

// Thresholds are the words that ParseThreshold reads, the worst first.
func Thresholds() []string {
	words := []string{criticalWord}
	for _, name := range severityNames {
		words = append(words, strings.ToLower(name))
	}
	return words
}

// IsCritical says whether the threshold asks more of a finding than its severity, so that findings have to be read.
func (t Threshold) IsCritical() bool { return t.critical }

// Least is the severity that findings have to have.
func (t Threshold) Least() Severity { return t.least }

// Reached says whether a finding is bad enough. Exceptions are not looked at.
func (t Threshold) Reached(e *Entry) bool {
	if t.critical {
		return rating.IsCritical(e.Attributes)
	}
	return e.Severity <= t.least
}

// String is the word of the threshold, such as high.
func (t Threshold) String() string {
	if t.critical {
		return criticalWord
	}
	return strings.ToLower(t.least.String())
}
