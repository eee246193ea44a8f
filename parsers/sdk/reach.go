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

// Reached tells that the scanner reached at least one of the things that it was to look at. The arguments, as of
// fmt.Sprintf, say in a few words what: "2 of 3 hosts answered". Tell it when the whole result has been read; what is
// told last counts.
func (in *Input) Reached(format string, args ...any) { in.tell(outcome.True, format, args) }

// NothingReached tells that the scanner got to look at nothing, and why: "0 of 1 hosts answered". It is for results
// that say so. One that could also come of a target in good health, such as an empty list of findings, says nothing:
// that is [Input.ReachUnknown].
func (in *Input) NothingReached(format string, args ...any) { in.tell(outcome.False, format, args) }

// ReachUnknown tells that the result does not say whether anything was reached, and why not.
func (in *Input) ReachUnknown(format string, args ...any) { in.tell(outcome.Unknown, format, args) }

func (in *Input) tell(status outcome.Status, format string, args []any) {
	in.reach = outcome.Reached{
		Status: status, Message: text.Cut(text.Line(fmt.Sprintf(format, args...)), outcome.MaxMessage),
	}
}

// Reach returns what the parser has told of what was reached, in one harmless line. A parser that has told nothing
// does not know.
func (in *Input) Reach() outcome.Reached {
	if in.reach.Status == "" {
		return outcome.Reached{Status: outcome.Unknown, Message: "the parser does not tell what was reached"}
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

// emitUnreached adds the finding that a setting has asked for.
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
