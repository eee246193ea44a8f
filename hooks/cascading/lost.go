// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/plan"
)

const (
	// ConditionMatched is the condition of a Scan that is False where hooks may have taken away what rules match. It is written
	// by this hook, and only when there is something to say.
	ConditionMatched = "CascadingRulesMatched"
	// ReasonCategoryMissing surfaces when rules need a category that no finding has, and hooks that write findings ran
	// before. Give cascading-scans a higher priority than those hooks, or let the rules match what they write.
	ReasonCategoryMissing = "CategoryMissing"
	// ReasonCategoriesFound surfaces when that is over, after the hook was run again.
	ReasonCategoriesFound = "CategoriesFound"
)

// tellLost warns of rules that may have lost their match to a hook that ran before. What the findings were before is not known
// any more, so this is a suspicion and fails nothing.
func (h *handler) tellLost(ctx context.Context, notef func(string, ...any), scan finding.Object, outcomes []plan.Outcome) {
	status, reason := "False", ReasonCategoryMissing
	message := lostMessage(writers(scan), outcomes)
	switch {
	case message != "":
		notef("warning: %s", message)
	case hasCondition(scan):
		status, reason = "True", ReasonCategoriesFound
		message = "Every rule that needs a category finds it, or no hook has written findings."
	default:
		return
	}
	if err := h.setCondition(ctx, scan, status, reason, message); err != nil {
		notef("warning: %v", err)
	}
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

// setCondition writes this one condition and leaves those of the operator alone.
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
	err := h.cluster.apply(ctx, h.cluster.inNamespace(executionAPI, "scans")+"/"+name+"/status", finding.Object{
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
