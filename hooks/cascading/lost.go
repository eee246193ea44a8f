// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/hooks/sdk"
)

const (
	// ConditionMatched is the condition of a Scan that is False where hooks may have taken away what rules match. The operator is
	// told it, or it is written by this hook, and only when there is something to say.
	ConditionMatched = "CascadingRulesMatched"
	// ReasonCategoryMissing surfaces when rules need a category that no finding has, and hooks that write findings ran
	// before. Give cascading-scans a higher priority than those hooks, or let the rules match what they write.
	ReasonCategoryMissing = "CategoryMissing"
	// ReasonChildrenLeftOut surfaces when matching findings have started nothing: there is a bound on how many Scans one
	// may start, or a finding would have chosen an option of the scanner. Raise maxScans of the Scan's spec.cascades, or
	// mend the rule that the message names.
	ReasonChildrenLeftOut = "ChildrenLeftOut"
	// ReasonCategoriesFound surfaces when that is over, after the hook was run again.
	ReasonCategoriesFound = "CategoriesFound"
)

// tellLost warns of rules that may have lost their match to a hook that ran before. What the findings were before is not known
// any more, so this is a suspicion and fails nothing.
func (h *handler) tellLost(ctx context.Context, s *sdk.Session, scan finding.Object, outcomes []plan.Outcome) {
	status, reason := outcome.False, ReasonCategoryMissing
	message := lostMessage(writers(scan), outcomes)
	if left := leftOutMessage(outcomes); left != "" {
		reason, message = ReasonChildrenLeftOut, strings.TrimSpace(left+" "+message)
	}
	switch {
	case message != "":
		s.Notef("warning: %s", message)
	case hasCondition(scan):
		status, reason = outcome.True, ReasonCategoriesFound
		message = "Every rule that needs a category finds it, or no hook has written findings, and no Scan is left out."
	default:
		return
	}
	err := s.ReportCondition(outcome.Condition{Type: ConditionMatched, Status: status, Reason: reason, Message: message})
	if errors.Is(err, sdk.ErrNotHandedOver) {
		err = h.setCondition(ctx, scan, string(status), reason, message)
	}
	if err != nil {
		s.Notef("warning: %v", err)
	}
}

// leftOutMessage says how many children each rule has not started, and why; nothing where all are.
func leftOutMessage(outcomes []plan.Outcome) string {
	var rules []string
	held, refused := 0, 0
	for _, o := range outcomes {
		held, refused = held+o.Held, refused+o.Refused
		if o.Held+o.Refused > 0 {
			rules = append(rules, fmt.Sprintf("%s (%d)", o.Rule, o.Held+o.Refused))
		}
	}
	var parts []string
	if held > 0 {
		parts = append(
			parts,
			fmt.Sprintf("%d Scans were not started, since there is a bound: spec.cascades.maxScans of the Scan, or the hook's CASCADE_MAX_CHILDREN.", held),
		)
	}
	if refused > 0 {
		parts = append(parts, fmt.Sprintf("%d Scans were not started, since a finding would have chosen an option of the scanner.", refused))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, " ") + " By rule: " + list(rules) + "."
}

// lostMessage names the rules, what they need and the hooks; nothing if there is nothing to say.
func lostMessage(hooks []string, outcomes []plan.Outcome) string {
	var rules, categories []string
	for _, o := range outcomes {
		if len(o.Categories) == 0 {
			continue
		}
		rules = append(rules, o.Rule)
		for _, c := range o.Categories {
			if quoted := strconv.Quote(c); !slices.Contains(categories, quoted) {
				categories = append(categories, quoted)
			}
		}
	}
	if len(hooks) == 0 || len(rules) == 0 {
		return ""
	}
	return fmt.Sprintf("No finding has category %s, which rules %s need. Hooks that write findings ran before and may have changed it: %s. "+
		"A higher priority of cascading-scans lets it see what the parser found.",
		list(categories), list(rules), list(hooks))
}

// maxNamed is how many names a message lists.
const maxNamed = 10

func list(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// writers are the hooks that have written findings of the Scan.
func writers(scan finding.Object) []string {
	var names []string
	groups, _ := objectAt(scan, "status").Get("orderedHookStatuses")
	outer, _ := groups.([]any)
	for _, group := range outer {
		hooks, _ := group.([]any)
		for _, hook := range hooks {
			status, _ := hook.(finding.Object)
			kind, _ := status.Text("type").Get()
			state, _ := status.Text("state").Get()
			if name, _ := status.Text("hookName").Get(); kind == "ReadAndWrite" && state == "Completed" {
				names = append(names, name)
			}
		}
	}
	return names
}

func hasCondition(scan finding.Object) bool {
	conditions, _ := objectAt(scan, "status").Get("conditions")
	list, _ := conditions.([]any)
	return slices.ContainsFunc(list, func(c any) bool {
		condition, _ := c.(finding.Object)
		kind, _ := condition.Text("type").Get()
		return kind == ConditionMatched
	})
}

// setCondition writes this one condition and leaves those of the operator alone. It is for operators that hand nothing over.
func (h *handler) setCondition(ctx context.Context, scan finding.Object, status, reason, message string) error {
	metadata := objectAt(scan, "metadata")
	name, _ := metadata.Text("name").Get()
	condition := finding.Object{
		{Key: "type", Value: ConditionMatched},
		{Key: "status", Value: status},
		{Key: "reason", Value: reason},
		{Key: "message", Value: message},
		{Key: "lastTransitionTime", Value: h.now().UTC().Format(time.RFC3339)},
	}
	if generation, ok := metadata.Get("generation"); ok {
		condition.Set("observedGeneration", generation)
	}
	err := h.cluster.apply(ctx, h.cluster.inNamespace(executionAPI, "scans").Join(name, "status"), finding.Object{
		{Key: "apiVersion", Value: "execution.securecodebox.io/v1"},
		{Key: "kind", Value: "Scan"},
		{Key: "metadata", Value: finding.Object{{Key: "name", Value: name}, {Key: "namespace", Value: h.cluster.namespace}}},
		{Key: "status", Value: finding.Object{{Key: "conditions", Value: []any{condition}}}},
	})
	if err != nil {
		return fmt.Errorf("set condition %s: %w", ConditionMatched, err)
	}
	return nil
}
