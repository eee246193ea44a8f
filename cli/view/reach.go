// SPDX-License-Identifier: Apache-2.0

package view

import (
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Unreached is a sentence for a Scan whose scanner reached nothing, safe for a terminal; empty for any other Scan.
func Unreached(s *executionv1.Scan) string { return termsafe.Line(scanview.Unreached(s)) }

// ReachDoubt is the same for a Scan whose result does not show it.
func ReachDoubt(s *executionv1.Scan) string { return termsafe.Line(scanview.ReachDoubt(s)) }

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
