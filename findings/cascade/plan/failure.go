// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strings"
)

// maxSaid is how many rules a failure names.
const maxSaid = 5

// Failure is the error that a run ends with: what is wrong with which rules. The others have started what they start. It
// is nil where all is well.
func (p *Plan) Failure(outcomes []Outcome) error {
	if p.Err() == nil {
		return nil
	}
	var said []string
	more := 0
	for _, o := range outcomes {
		switch {
		case o.Error == "":
		case len(said) == maxSaid:
			more++
		case o.Failed > 1:
			said = append(said, fmt.Sprintf("rule %s: %d Scans were not started, the first since %s", o.Rule, o.Failed, o.Error))
		default:
			said = append(said, fmt.Sprintf("rule %s: %s", o.Rule, o.Error))
		}
	}
	if more > 0 {
		said = append(said, fmt.Sprintf("and %d rules more", more))
	}
	return errors.New(strings.Join(said, "; ") + "; the other rules have started what they start")
}
