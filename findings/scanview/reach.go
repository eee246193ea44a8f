// SPDX-License-Identifier: Apache-2.0

package scanview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Reached is the condition that says whether the scanner reached its targets; the zero condition if the parser does not
// report it.
func Reached(s *executionv1.Scan) metav1.Condition {
	return condition(s, executionv1.ConditionTargetReached)
}

// Unreached is a sentence for a Scan whose scanner reached nothing: "nothing was reached: 0 of 1 hosts answered". It is
// empty for any other Scan.
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

func withReason(text, reason string) string {
	if reason != "" {
		text += ": " + reason
	}
	return text
}
