// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"strconv"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/apis/text"
)

// EnvFindingWhenUnreached is the environment variable of a ParseDefinition that asks, with "true", for one more finding
// where the raw result says that nothing was reached. It holds for all parsers.
const EnvFindingWhenUnreached = "FINDING_WHEN_UNREACHED"

// CategoryUnreached is the category of that finding.
const CategoryUnreached = "Nothing Reached"

// UnreachedKind describes that finding. All parsers have it, beside their own Kinds.
func UnreachedKind() Kind {
	return Kind{
		Category: CategoryUnreached, When: "the scanner reached nothing, where " + EnvFindingWhenUnreached + " is true",
		Severities: []string{finding.Medium},
		Attributes: []Attribute{{Name: "reason", Type: Text, Doc: "in a sentence"}},
		Identity:   []string{"name"},
	}
}

// Reached reports that the scanner reached at least one of its targets. The arguments, as of fmt.Sprintf, say in a few
// words which: "2 of 3 hosts answered". Call it after the whole result was read; the last call counts.
func (in *Input) Reached(format string, args ...any) { in.setReach(outcome.True, format, args) }

// NothingReached reports that the scanner reached nothing, and why: "0 of 1 hosts answered". It is for results that say
// so. A result that a healthy target could cause too, such as an empty list of findings, does not say so: that is
// [Input.ReachUnknown].
func (in *Input) NothingReached(format string, args ...any) { in.setReach(outcome.False, format, args) }

// ReachUnknown reports that the result does not show whether anything was reached, and why not.
func (in *Input) ReachUnknown(format string, args ...any) { in.setReach(outcome.Unknown, format, args) }

func (in *Input) setReach(status outcome.Status, format string, args []any) {
	in.reach = outcome.Reached{
		Status: status, Message: text.Cut(text.Line(fmt.Sprintf(format, args...)), outcome.MaxMessage),
	}
}

// Reach returns what the parser has reported about reached targets, in one harmless line. Without a report the state is
// unknown.
func (in *Input) Reach() outcome.Reached {
	if in.reach.Status == "" {
		return outcome.Reached{Status: outcome.Unknown, Message: "the parser does not report what was reached"}
	}
	return in.reach
}

// Counted is a number with its noun: "1 host", "2 hosts".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// emitUnreached adds the finding that a setting has enabled.
func emitUnreached(in *Input, emit Emit) error {
	if in.reach.Status != outcome.False || in.Env == nil || in.Env(EnvFindingWhenUnreached) != "true" {
		return nil
	}
	return emit(&finding.Finding{
		Name:        finding.String("Nothing was reached"),
		Description: finding.String("The scanner reached nothing, so this scan says nothing about its targets: " + in.reach.Message + "."),
		Category:    finding.String(CategoryUnreached),
		OSILayer:    finding.String("NOT_APPLICABLE"),
		Severity:    finding.String(finding.Medium),
		Mitigation:  finding.String("Check that the parameters of the scan name targets that exist, and that the scanner may reach them."),
		Attributes:  finding.Object{{Key: "reason", Value: in.reach.Message}},
	})
}
