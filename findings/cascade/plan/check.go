// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/expression"
)

// Mistake is what is wrong with a rule.
type Mistake struct {
	// Field is where, as a path from the rule's root.
	Field string
	// Err says what.
	Err error
}

// Check finds the mistakes of a CascadingRule or ClusterCascadingRule that no finding can make good: those for which a Plan
// starts nothing of the rule.
func Check(rule finding.Object) (mistakes []Mistake) {
	r := child.NewRule(rule)
	if err := r.Refused(); err != nil {
		mistakes = append(mistakes, Mistake{"spec", err})
	}
	if err := r.Broken(); err != nil {
		mistakes = append(mistakes, Mistake{"spec", err})
	}
	if text := r.Expression(); text != "" {
		if _, err := expression.Compile(text); err != nil {
			mistakes = append(mistakes, Mistake{"spec.matches.expression", err})
		}
	}
	return mistakes
}
