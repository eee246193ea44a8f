// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/match"
	"github.com/scanyard/scanyard/findings/compare"
)

// Rules are those of a channel. A finding must meet all of them.
type Rules []rule

// rule is met by a finding that has one of these states and fits one of these conditions.
type rule struct {
	// states are those that the rule names; nil is any.
	states []compare.State
	// anyOf is nil where the rule is about states only.
	anyOf []any
	wild  bool
}

// Parse reads rules as they are written for secureCodeBox, with states beside anyOf. None are not rules.
func Parse(text []byte, wild bool) (Rules, error) {
	if len(text) == 0 {
		return nil, nil
	}
	value, err := finding.DecodeValue(text, 0)
	if err != nil || value == nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("want a list")
	}
	rules := make(Rules, 0, len(list))
	for i, entry := range list {
		r, err := parseRule(entry)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		r.wild = wild
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(entry any) (r rule, err error) {
	object, _ := entry.(finding.Object)
	value, _ := object.Get("matches")
	matches, ok := value.(finding.Object)
	if !ok {
		return r, errors.New("matches is missing or no object")
	}
	for _, m := range matches {
		list, ok := m.Value.([]any)
		switch {
		case m.Key != "anyOf" && m.Key != "states":
			return r, fmt.Errorf("matches knows anyOf and states, not %q", m.Key)
		case !ok:
			return r, fmt.Errorf("matches.%s is not a list", m.Key)
		case m.Key == "anyOf":
			r.anyOf = append([]any{}, list...) // never nil: an empty one fits nothing
		default:
			if r.states, err = parseStates(list); err != nil {
				return r, err
			}
		}
	}
	if r.anyOf == nil && r.states == nil {
		return r, errors.New("matches has neither anyOf nor states")
	}
	for i, condition := range r.anyOf {
		if _, ok := condition.(finding.Object); !ok {
			return r, fmt.Errorf("matches.anyOf[%d] is not an object", i)
		}
	}
	return r, nil
}

func parseStates(list []any) ([]compare.State, error) {
	states := make([]compare.State, 0, len(list))
	for _, entry := range list {
		switch state := compare.State(finding.ToString(entry)); state {
		case compare.New, compare.Known, compare.Fixed:
			states = append(states, state)
		default:
			return nil, fmt.Errorf("matches.states knows new, known and fixed, not %q", state)
		}
	}
	return states, nil
}

func (r *rule) matches(value any, state compare.State) bool {
	if r.states != nil && !slices.Contains(r.states, state) {
		return false
	}
	if r.anyOf == nil {
		return true
	}
	for _, condition := range r.anyOf {
		if match.Partial(value, condition) || r.wild && match.PartialWild(value, condition) {
			return true
		}
	}
	return false
}

// AddKeys adds the members of findings that the rules look at.
func (l Rules) AddKeys(into map[string]bool) {
	for _, r := range l {
		for _, condition := range r.anyOf {
			object, _ := condition.(finding.Object)
			for _, m := range object {
				into[m.Key] = true
			}
		}
	}
}

// Compare says that a rule asks for the previous run.
func (l Rules) Compare() bool {
	return slices.ContainsFunc(l, func(r rule) bool { return r.states != nil })
}

// Name says that a rule names a state.
func (l Rules) Name(state compare.State) bool {
	return slices.ContainsFunc(l, func(r rule) bool { return slices.Contains(r.states, state) })
}

// Match says whether a finding meets all rules. One that is gone does so only if a rule names that state.
func (l Rules) Match(value any, state compare.State) bool {
	if state == compare.Fixed && !l.Name(compare.Fixed) {
		return false
	}
	for i := range l {
		if !l[i].matches(value, state) {
			return false
		}
	}
	return true
}
