// SPDX-License-Identifier: Apache-2.0

package findingpostprocessing

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/match"
)

// Rule says what to change in which findings.
type Rule struct {
	anyOf    []any
	override finding.Object
}

// ParseRules reads a JSON list of rules.
func ParseRules(text string) ([]Rule, error) {
	value, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("want a JSON list of rules")
	}
	rules := make([]Rule, 0, len(list))
	for i, entry := range list {
		r, err := parseRule(entry)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(entry any) (Rule, error) {
	object, ok := entry.(finding.Object)
	if !ok {
		return Rule{}, errors.New("it is not an object")
	}
	matches, err := member(object, "matches")
	if err != nil {
		return Rule{}, err
	}
	value, ok := matches.Get("anyOf")
	if !ok {
		return Rule{}, errors.New("matches.anyOf is missing")
	}
	anyOf, ok := value.([]any)
	if !ok {
		return Rule{}, errors.New("matches.anyOf is not a list")
	}
	for i, condition := range anyOf {
		if _, ok := condition.(finding.Object); !ok {
			return Rule{}, fmt.Errorf("matches.anyOf[%d] is not an object", i)
		}
	}
	override, err := member(object, "override")
	if err != nil {
		return Rule{}, err
	}
	return Rule{anyOf: anyOf, override: override}, nil
}

// member is an object below a key.
func member(o finding.Object, key string) (finding.Object, error) {
	value, ok := o.Get(key)
	if !ok {
		return nil, fmt.Errorf("%s is missing", key)
	}
	object, ok := value.(finding.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", key)
	}
	return object, nil
}

func (r Rule) matches(value any) bool {
	for _, condition := range r.anyOf {
		if match.Partial(value, condition) {
			return true
		}
	}
	return false
}

// merge puts an override over a value and returns the result. The override itself is never part of a result that a later
// merge could change.
func merge(value, override any) any {
	switch override := override.(type) {
	case finding.Object:
		if list, ok := value.([]any); ok {
			return mergeByKey(list, override)
		}
		object, ok := value.(finding.Object)
		if !ok {
			object = finding.Object{}
		}
		for _, m := range override {
			own, _ := object.Get(m.Key)
			object.Set(m.Key, merge(own, m.Value))
		}
		return object
	case []any:
		list, ok := value.([]any)
		if !ok {
			list = []any{}
		}
		for i, e := range override {
			if i == len(list) {
				list = append(list, nil)
			}
			list[i] = merge(list[i], e)
		}
		return list
	}
	return override
}

// maxIndex bounds how long an override may make a list.
const maxIndex = 9999

// mergeByKey lets an object set elements of a list, by keys that are numbers. Other keys have no place in a list.
func mergeByKey(list []any, override finding.Object) []any {
	for _, m := range override {
		i, err := strconv.Atoi(m.Key)
		if err != nil || i < 0 || i > maxIndex || strconv.Itoa(i) != m.Key {
			continue
		}
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = merge(list[i], m.Value)
	}
	return list
}
