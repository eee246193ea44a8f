// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// Index knows the conditions of many rules and finds the rules that a finding fits. It is for one goroutine.
type Index struct {
	rules   int
	paths   []path
	values  []any                    // by path: what the finding has there, absent if nothing
	last    []seen                   // by path: what the last finding had there
	buckets []map[any][]*alternative // by path: the value there, and what needs it
	rest    []*alternative           // what needs no literal anywhere
	hit     []int                    // by rule: the round in which it was hit
	round   int
	hits    []int
}

// path leads to a value: a key, or a key of an object below a key.
type path struct {
	outer, inner string
	nested       bool
}

// absentValue is the value of a key that a finding does not have.
type absentValue struct{}

// alternative is one condition of one rule, taken apart.
type alternative struct {
	rule      int
	condition any
	// leaves are all of the condition, the most selective first; nil where it has other parts than scalars.
	leaves []leaf
	simple bool
	// literal and wild are the ways in which it must be compared to know.
	literal, wild bool
}

// leaf is a scalar that a condition wants at a path.
type leaf struct {
	slot   int
	wanted any
	rank   int
}

// NewIndex returns an empty Index.
func NewIndex() *Index { return &Index{} }

// Add adds a rule with its alternatives and returns its number, which counts from 0.
func (x *Index) Add(anyOf []any) int {
	rule := x.rules
	x.rules++
	x.hit = append(x.hit, 0)
	for _, condition := range anyOf {
		a := x.compile(rule, condition)
		key := slices.IndexFunc(a.leaves, func(l leaf) bool { return isLiteralValue(l.wanted) })
		if key < 0 {
			x.rest = append(x.rest, a)
			continue
		}
		bucket := x.buckets[a.leaves[key].slot]
		bucket[a.leaves[key].wanted] = append(bucket[a.leaves[key].wanted], a)
	}
	return rule
}

// compile takes a condition apart into the scalars it wants at paths.
func (x *Index) compile(rule int, condition any) *alternative {
	a := &alternative{rule: rule, condition: condition, simple: true, literal: true, wild: true}
	object, isObject := condition.(finding.Object)
	if !isObject {
		a.simple = false
		return a
	}
	for _, m := range object {
		inner, isObject := m.Value.(finding.Object)
		switch {
		case isScalar(m.Value):
			a.leaves = append(a.leaves, leaf{x.slot(path{outer: m.Key}), m.Value, rankOfKey(m.Key)})
		case isObject && len(inner) > 0:
			for _, n := range inner {
				if !isScalar(n.Value) {
					a.simple = false
					continue
				}
				at := path{outer: m.Key, inner: n.Key, nested: true}
				a.leaves = append(a.leaves, leaf{x.slot(at), n.Value, rankOfAttribute(n.Key)})
			}
		default:
			a.simple = false
		}
	}
	slices.SortStableFunc(a.leaves, func(a, b leaf) int { return cmp.Compare(b.rank, a.rank) })
	if a.simple {
		a.literal, a.wild = waysToCompare(a.leaves)
	}
	return a
}

// waysToCompare leaves out the way that cannot add anything. A text without wildcards is the same in both. A text with *
// fits itself, so what is literally equal fits with wildcards as well; with ! it may not.
func waysToCompare(leaves []leaf) (literal, wild bool) {
	negated := false
	for _, l := range leaves {
		if text, ok := l.wanted.(string); ok && !isLiteral(text) {
			wild = true
			negated = negated || strings.HasPrefix(text, "!")
		}
	}
	return !wild || negated, wild
}

func (x *Index) slot(at path) int {
	for i, p := range x.paths {
		if p == at {
			return i
		}
	}
	x.paths, x.values = append(x.paths, at), append(x.values, nil)
	x.buckets, x.last = append(x.buckets, map[any][]*alternative{}), append(x.last, seen{})
	return len(x.paths) - 1
}

// Match returns the numbers of the rules that a finding fits, each once, in no particular order. The slice is valid until the
// next call.
func (x *Index) Match(value any) []int {
	x.round++
	x.hits = x.hits[:0]
	object, _ := value.(finding.Object)
	for i, p := range x.paths {
		x.values[i] = p.lookup(object)
	}
	for i, bucket := range x.buckets {
		if len(bucket) > 0 && isScalar(x.values[i]) {
			x.try(value, bucket[x.values[i]])
		}
	}
	x.try(value, x.rest)
	return x.hits
}

func (x *Index) try(value any, alternatives []*alternative) {
	for _, a := range alternatives {
		if x.hit[a.rule] != x.round && x.fits(value, a) {
			x.hit[a.rule] = x.round
			x.hits = append(x.hits, a.rule)
		}
	}
}

func (x *Index) fits(value any, a *alternative) bool {
	if !a.simple {
		return Alternative(value, a.condition)
	}
	return a.literal && x.all(a.leaves, false) || a.wild && x.all(a.leaves, true)
}

func (x *Index) all(leaves []leaf, wild bool) bool {
	for i := range leaves {
		if !equal(x.values[leaves[i].slot], leaves[i].wanted, wild) {
			return false
		}
	}
	return true
}

// lookup returns the value at a path.
func (p path) lookup(object finding.Object) any {
	value, ok := object.Get(p.outer)
	if ok && p.nested {
		inner, isObject := value.(finding.Object)
		if !isObject {
			return absentValue{}
		}
		value, ok = inner.Get(p.inner)
	}
	if !ok {
		return absentValue{}
	}
	return value
}

func isScalar(value any) bool {
	switch value.(type) {
	case nil, string, float64, bool:
		return true
	}
	return false
}

// isLiteralValue says whether a finding that fits must have exactly this.
func isLiteralValue(wanted any) bool {
	text, isText := wanted.(string)
	return !isText || isLiteral(text)
}

// The ranks say how well a key distinguishes findings: attributes best, severities and layers worst.
func rankOfAttribute(key string) int {
	switch key {
	case "port":
		return 9
	case "service":
		return 8
	case "state", "protocol":
		return 3
	}
	return 7
}

func rankOfKey(key string) int {
	switch key {
	case "location", "name", "description":
		return 6
	case "category":
		return 5
	case "osi_layer", "severity":
		return 2
	}
	return 4
}
