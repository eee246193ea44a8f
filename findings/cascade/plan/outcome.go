// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/match"
)

// Outcome is what became of one rule.
type Outcome struct {
	// Rule is its name.
	Rule string `json:"rule"`
	// Matched counts the findings in scope that it matches.
	Matched int `json:"matched"`
	// Excepted counts the findings in scope that it would match without the exceptions that suppress them.
	Excepted int `json:"excepted,omitempty"`
	// Started counts its children.
	Started int `json:"started"`
	// Duplicates counts children that the chain has already.
	Duplicates int `json:"duplicates,omitempty"`
	// Held counts children for which maxScans, or the bound where nothing is said, leaves no room.
	Held int `json:"held,omitempty"`
	// Refused counts children whose finding would have chosen an option of the scanner.
	Refused int `json:"refused,omitempty"`
	// Failed counts children that could not be made.
	Failed int `json:"failed,omitempty"`
	// Skipped says why it was not used at all; empty where it was.
	Skipped Stopped `json:"-"`
	// Reason says why it has started nothing, or not everything.
	Reason string `json:"reason,omitempty"`
	// Error is set where it fails the hook.
	Error string `json:"error,omitempty"`
	// Ignored are fields of its scanSpec that have no effect, since the Scan does not ask for them.
	Ignored []string `json:"ignored,omitempty"`
	// Conditions are, for each entry of anyOf, how many findings meet each part of it. Only if the rule matches none, and only
	// on request.
	Conditions []Condition `json:"conditions,omitempty"`
	// Categories are those that it needs and no finding has; only where it matches none for that reason.
	Categories []string `json:"categories,omitempty"`
}

// Stopped is what kept children of a rule from being started.
type Stopped string

// What stops a cascade, for programs.
const (
	// StoppedScope is for findings that the scope limiter keeps out.
	StoppedScope Stopped = "scope"
	// StoppedDepth is for rules beyond maxDepth.
	StoppedDepth Stopped = "depth"
	// StoppedBudget is for children beyond maxScans, or beyond the bound where nothing is said.
	StoppedBudget Stopped = "budget"
	// StoppedDuplicate is for children, and rules, that the chain has already.
	StoppedDuplicate Stopped = "duplicate"
	// StoppedRule is for rules with a mistake, and for children that the rule would give an option that the finding chose.
	StoppedRule Stopped = "rule"
)

// Stops counts by reason the children that a rule would have started and has not. A rule that was not used counts as one.
func (o *Outcome) Stops() map[Stopped]int {
	stops := map[Stopped]int{}
	for reason, n := range map[Stopped]int{StoppedBudget: o.Held, StoppedDuplicate: o.Duplicates, StoppedRule: o.Refused + o.Failed} {
		if n > 0 {
			stops[reason] = n
		}
	}
	if o.Error != "" && stops[StoppedRule] == 0 {
		stops[StoppedRule] = 1
	}
	if o.Skipped != "" {
		stops[o.Skipped] = 1
	}
	return stops
}

// Condition is one entry of anyOf.
type Condition struct {
	// Met counts, by part of the condition, the findings that meet this part.
	Met map[string]int `json:"met"`
}

// Outcomes returns the outcome of every rule in its order, after Children.
func (p *Plan) Outcomes() []Outcome {
	outcomes := make([]Outcome, len(p.rules))
	for i, r := range p.rules {
		o := r.outcome
		if r.err != nil {
			o.Error = r.err.Error()
		}
		if !r.skipped && r.err == nil && o.Matched == 0 {
			o.Categories = p.missing(r)
			o.Reason = p.whyNone(r, o.Categories)
			if r.closest != nil && p.findings > 0 {
				o.Conditions = r.closest.conditions()
			}
		}
		switch {
		case o.Held > 0 && p.maxScans == 0:
			o.Reason = fmt.Sprintf("a Scan starts at most %d others where its spec.cascades.maxScans says nothing", p.maxChildren)
		case r.option != nil && o.Held == 0:
			o.Reason = r.option.Error()
		}
		if o.Held > 0 && p.maxScans > 0 {
			o.Reason = fmt.Sprintf("maxScans is %d and the chain has as many", p.maxScans)
		} else if o.Duplicates > 0 && o.Reason == "" {
			o.Reason = "the chain has equal Scans already"
		}
		outcomes[i] = o
	}
	return outcomes
}

// whyNone says why a rule that was used matched nothing.
func (p *Plan) whyNone(r *rule, categories []string) string {
	anyOf, given := r.AnyOf()
	switch {
	case p.findings == 0:
		return "there are no findings"
	case len(anyOf) == 0 && (given || r.expression == nil):
		return "its matches.anyOf is empty, which no finding matches"
	case p.outOfScope == p.findings:
		return fmt.Sprintf("all %d findings are out of scope (%s)", p.findings, p.mostRefused())
	}
	if r.outcome.Excepted > 0 {
		return fmt.Sprintf("the %d findings that it matches are excepted", r.outcome.Excepted)
	}
	reason := fmt.Sprintf("it matches none of %d findings", p.findings)
	if p.outOfScope > 0 {
		reason = fmt.Sprintf("it matches none of the %d findings in scope; %d more are out of scope (%s)",
			p.findings-p.outOfScope, p.outOfScope, p.mostRefused())
	}
	if len(categories) > 0 {
		reason += "; none has category " + strings.Join(quoted(categories), " or ")
	}
	return reason
}

// mostRefused is the requirement that kept out the most findings.
func (p *Plan) mostRefused() string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(p.refusals)), func(a, b string) int { return p.refusals[a] - p.refusals[b] })
}

func quoted(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = fmt.Sprintf("%q", t)
	}
	return out
}

// missing are the categories without which none of a rule's conditions can be met, if none of them is there.
func (p *Plan) missing(r *rule) []string {
	anyOf, _ := r.AnyOf()
	if len(p.categories) >= maxCategories {
		return nil
	}
	var missing []string
	for _, condition := range anyOf {
		object, _ := condition.(finding.Object)
		wanted, ok := object.Text("category").Get()
		if !ok {
			return nil
		}
		for category := range p.categories {
			if category == wanted || match.Wildcard(category, wanted) {
				return nil
			}
		}
		if !slices.Contains(missing, wanted) {
			missing = append(missing, wanted)
		}
	}
	return missing
}

// closest counts for each part of each condition the findings that meet it.
type closest struct {
	parts [][]part
	seen  int
}

type part struct {
	name      string
	condition finding.Object
	met       int
}

// maxDiagnosed is how many findings are looked at for how close they come.
const maxDiagnosed = 10_000

func newClosest(anyOf []any) *closest {
	c := &closest{}
	for _, condition := range anyOf {
		object, _ := condition.(finding.Object)
		var parts []part
		for _, m := range object {
			inner, isObject := m.Value.(finding.Object)
			if !isObject || len(inner) == 0 {
				parts = append(parts, part{name: m.Key, condition: finding.Object{m}})
				continue
			}
			for _, n := range inner {
				parts = append(parts, part{name: m.Key + "." + n.Key, condition: finding.Object{{Key: m.Key, Value: finding.Object{n}}}})
			}
		}
		c.parts = append(c.parts, parts)
	}
	return c
}

func (c *closest) add(f finding.Object) {
	if c.seen++; c.seen > maxDiagnosed {
		return
	}
	for _, parts := range c.parts {
		for i := range parts {
			if match.Alternative(f, parts[i].condition) {
				parts[i].met++
			}
		}
	}
}

func (c *closest) conditions() []Condition {
	var out []Condition
	for _, parts := range c.parts {
		met := make(map[string]int, len(parts))
		for _, p := range parts {
			met[p.name] = p.met
		}
		out = append(out, Condition{Met: met})
	}
	return out
}
