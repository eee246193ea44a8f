// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Findings is the number of findings in words: "5 findings (1 high, 4 low)".
func Findings(f executionv1.FindingStats) string {
	if f.Count == nil {
		return "no findings yet"
	}
	text := Plural(*f.Count, "finding")
	var parts []string
	for i, n := range scanview.Counts(f) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(scanview.Severities[i])))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// Plural is a number with its noun.
func Plural(n int64, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}

// AtOrAbove counts the findings of a severity and of those above it.
func AtOrAbove(f executionv1.FindingStats, severity string) int64 {
	var n int64
	counts := scanview.Counts(f)
	for i := range slices.Index(scanview.Severities, severity) + 1 {
		n += counts[i]
	}
	return n
}

// Short is a duration for people: "12s", "3m", "2h5m".
func Short(d time.Duration) string { return duration.HumanDuration(d.Round(time.Second)) }
