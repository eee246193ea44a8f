// SPDX-License-Identifier: Apache-2.0

package match

import (
	"github.com/scanyard/scanyard/apis/finding"
)

// Partial says whether value has everything that wanted has.
func Partial(value, wanted any) bool { return topLevel(value, wanted, false) }

// PartialWild is Partial with wildcards in the texts of wanted.
func PartialWild(value, wanted any) bool { return topLevel(value, wanted, true) }

// Alternative says whether a finding fits one entry of anyOf: literally, or with wildcards.
func Alternative(value, wanted any) bool {
	return Partial(value, wanted) || PartialWild(value, wanted)
}

// topLevel compares a finding with a condition. Without keys a condition is met by everything, even by null.
func topLevel(value, wanted any, wild bool) bool {
	condition, ok := wanted.(finding.Object)
	if !ok || len(condition) == 0 {
		return keyless(wanted)
	}
	object, ok := value.(finding.Object)
	return ok && members(object, condition, wild)
}

// keyless says whether a condition that is not an object, or an empty one, names nothing. A list or a text names its elements,
// which no finding has.
func keyless(wanted any) bool {
	switch w := wanted.(type) {
	case []any:
		return len(w) == 0
	case string:
		return w == ""
	}
	return true
}

func members(object, wanted finding.Object, wild bool) bool {
	for _, m := range wanted {
		value, ok := object.Get(m.Key)
		if !ok || !equal(value, m.Value, wild) {
			return false
		}
	}
	return true
}

// equal compares a value with a wanted one somewhere inside: texts by wildcard where those are on.
func equal(value, wanted any, wild bool) bool {
	if text, ok := wanted.(string); ok {
		other, ok := value.(string)
		return ok && (wild && Wildcard(other, text) || !wild && other == text)
	}
	return contains(value, wanted, wild)
}

// contains compares without a wildcard at this level.
func contains(value, wanted any, wild bool) bool {
	switch wanted := wanted.(type) {
	case finding.Object:
		object, ok := value.(finding.Object)
		return ok && members(object, wanted, wild)
	case []any:
		list, ok := value.([]any)
		return ok && len(wanted) <= len(list) && elements(list, wanted, wild)
	}
	return sameScalar(value, wanted)
}

// elements finds for each wanted element another one of the list. The first that fits is taken and not given back,
// as lodash does. With wildcards on, a text that meets a text at its own place is decided there.
func elements(list, wanted []any, wild bool) bool {
	var taken []bool // of the list, made when it is needed
	for i, want := range wanted {
		if text, ok := want.(string); ok && wild {
			if other, ok := list[i].(string); ok {
				if !Wildcard(other, text) {
					return false
				}
				continue
			}
		}
		if taken == nil {
			taken = make([]bool, len(list))
		}
		if !take(list, taken, want, wild) {
			return false
		}
	}
	return true
}

// take finds an element that was not taken yet, and takes it.
func take(list []any, taken []bool, want any, wild bool) bool {
	for i, value := range list {
		if !taken[i] && contains(value, want, wild) {
			taken[i] = true
			return true
		}
	}
	return false
}

// sameScalar compares what has no parts. Containers are never the same as a scalar.
func sameScalar(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	return false
}

// Equal says whether two values are deeply equal. The order of keys does not matter, the order of lists does.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case finding.Object:
		b, ok := b.(finding.Object)
		if !ok || len(a) != len(b) {
			return false
		}
		for _, m := range a {
			if other, ok := b.Get(m.Key); !ok || !Equal(m.Value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return sameScalar(a, b)
}
