// SPDX-License-Identifier: Apache-2.0

package view

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// Reached returns the condition that says whether the scanner reached its targets; the zero condition if the parser does
// not report it.
func Reached(s *executionv1.Scan) metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionTargetReached); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Unreached returns a sentence for a Scan whose scanner reached nothing: "nothing was reached: 0 of 1 hosts answered". It
// is empty for any other Scan.
func Unreached(s *executionv1.Scan) string {
	if c := Reached(s); c.Status == metav1.ConditionFalse {
		return withReason("nothing was reached", c.Message)
	}
	return ""
}

// ReachDoubt is the same for a Scan whose result does not show it.
func ReachDoubt(s *executionv1.Scan) string {
	if c := Reached(s); c.Status == metav1.ConditionUnknown {
		return withReason("whether anything was reached is not known", c.Message)
	}
	return ""
}

// Outcome is the result of a Scan that is Done, in a line. No findings are good news only if something was reached.
func Outcome(s *executionv1.Scan) string {
	found := Findings(s.Status.Findings)
	none := s.Status.Findings.Count == nil || *s.Status.Findings.Count == 0
	switch unreached, doubt := Unreached(s), ReachDoubt(s); {
	case unreached != "" && none:
		return unreached
	case unreached != "":
		return unreached + "; " + found
	case doubt != "" && none:
		return found + "; " + doubt
	}
	return found
}

func withReason(text, reason string) string {
	if reason = termsafe.Line(reason); reason != "" {
		text += ": " + reason
	}
	return text
}
