// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// State is the state of a Scan in a word; a new Scan is "Waiting".
func State(s *executionv1.Scan) string {
	if s.DeletionTimestamp != nil {
		return "Deleting"
	}
	if s.Status.State == executionv1.ScanStateNew {
		return "Waiting"
	}
	return string(s.Status.State)
}

// Ready is the condition that sums up a Scan; the zero condition if there is none.
func Ready(s *executionv1.Scan) metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Says returns the most important sentence about a Scan now.
func Says(s *executionv1.Scan) string {
	ready := Ready(s)
	switch {
	case s.Status.State == executionv1.ScanStateErrored && s.Status.ErrorDescription != "":
		return s.Status.ErrorDescription
	case ready.Message != "":
		return ready.Message
	case s.Status.State == executionv1.ScanStateNew:
		return "It waits for the operator."
	}
	return ""
}

// Severities from the worst to the least, as the API writes them.
var Severities = []string{"HIGH", "MEDIUM", "LOW", "INFORMATIONAL"}

// Counts are the findings by severity, in the order of Severities.
func Counts(f executionv1.FindingStats) []int64 {
	out := make([]int64, len(Severities))
	for i, n := range []*int64{f.FindingSeverities.High, f.FindingSeverities.Medium, f.FindingSeverities.Low, f.FindingSeverities.Informational} {
		if n != nil {
			out[i] = *n
		}
	}
	return out
}

// Findings is the number of findings in words: "5 findings (1 high, 4 low)".
func Findings(f executionv1.FindingStats) string {
	if f.Count == nil {
		return "no findings yet"
	}
	text := Plural(*f.Count, "finding")
	var parts []string
	for i, n := range Counts(f) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(Severities[i])))
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

// ParseSeverity reads a severity as a user types it.
func ParseSeverity(text string) (string, error) {
	up := strings.ToUpper(strings.TrimSpace(text))
	for _, s := range Severities {
		if up == s || len(up) >= 3 && strings.HasPrefix(s, up) {
			return s, nil
		}
	}
	return "", fmt.Errorf("severity %q is none of high, medium, low, informational", text)
}

// AtOrAbove counts the findings of a severity and of those above it.
func AtOrAbove(f executionv1.FindingStats, severity string) int64 {
	var n int64
	counts := Counts(f)
	for i := range slices.Index(Severities, severity) + 1 {
		n += counts[i]
	}
	return n
}

// Short is a duration for people: "12s", "3m", "2h5m".
func Short(d time.Duration) string { return duration.HumanDuration(d.Round(time.Second)) }

// Lifetime is how long a Scan has taken from the start of its scanner, or takes until now; 0 if it has
// not started.
func Lifetime(s *executionv1.Scan, now time.Time) time.Duration {
	if s.Status.StartedAt == nil {
		return 0
	}
	if s.Status.FinishedAt != nil {
		return max(0, s.Status.FinishedAt.Sub(s.Status.StartedAt.Time))
	}
	return max(0, now.Sub(s.Status.StartedAt.Time))
}
