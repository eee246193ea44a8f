// SPDX-License-Identifier: Apache-2.0

package vers

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// MaxConstraints is how many constraints a range may have.
const MaxConstraints = 100

// Range is a set of versions of one ecosystem. It is safe for concurrent use.
type Range struct {
	parse parser
	all   bool
	// equal and unequal are single versions, bounds the others in the order of their versions.
	equal, unequal []version
	bounds         []bound
}

// bound is a constraint that has a side: one of < <= > >=.
type bound struct {
	comparator string
	version    version
}

func (b bound) isUpper() bool { return b.comparator[0] == '<' }

// holds says whether a version meets the bound.
func (b bound) holds(v version) bool {
	order := v.compare(b.version)
	switch b.comparator {
	default:
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
}

// Parse reads a range such as vers:npm/>=4.0.0|<4.17.21.
func Parse(text string) (*Range, error) {
	rest, ok := strings.CutPrefix(text, "vers:")
	scheme, list, hasList := strings.Cut(rest, "/")
	if !ok || !hasList {
		return nil, fmt.Errorf("range %q must look like vers:npm/>=1.0.0|<2.0.0", text)
	}
	r := &Range{parse: schemes[scheme]}
	if r.parse == nil {
		return nil, fmt.Errorf("range %q: versions of %q cannot be compared; there are %s", text, scheme, strings.Join(Schemes(), ", "))
	}
	if list = strings.Map(withoutSpace, list); list == "*" {
		r.all = true
		return r, nil
	}
	constraints := strings.Split(list, "|")
	if len(constraints) > MaxConstraints {
		return nil, fmt.Errorf("range has %d constraints, %d are allowed", len(constraints), MaxConstraints)
	}
	for _, c := range constraints {
		if err := r.add(c); err != nil {
			return nil, fmt.Errorf("range %q: %w", text, err)
		}
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("range %q: %w", text, err)
	}
	return r, nil
}

func withoutSpace(r rune) rune {
	if r == ' ' || r == '\t' {
		return -1
	}
	return r
}

func (r *Range) add(constraint string) error {
	comparator := ""
	for _, c := range []string{">=", "<=", "!=", "<", ">", "="} {
		if strings.HasPrefix(constraint, c) {
			comparator = c
			break
		}
	}
	text, err := url.PathUnescape(constraint[len(comparator):])
	if err != nil {
		return fmt.Errorf("constraint %q: %w", constraint, err)
	}
	if text == "" || text == "*" {
		return fmt.Errorf("constraint %q must have a version", constraint)
	}
	v, err := r.parse(text)
	if err != nil {
		return fmt.Errorf("constraint %q: %w", constraint, err)
	}
	switch comparator {
	case "", "=":
		r.equal = append(r.equal, v)
	case "!=":
		r.unequal = append(r.unequal, v)
	default:
		r.bounds = append(r.bounds, bound{comparator, v})
	}
	return nil
}

// check puts the bounds in order. A version may stand in one constraint only: else it would be in the range and not.
func (r *Range) check() error {
	slices.SortStableFunc(r.bounds, func(a, b bound) int { return a.version.compare(b.version) })
	var all []version
	for _, b := range r.bounds {
		all = append(all, b.version)
	}
	all = append(append(all, r.equal...), r.unequal...)
	slices.SortStableFunc(all, version.compare)
	for i := 1; i < len(all); i++ {
		if all[i].compare(all[i-1]) == 0 {
			return errors.New("a version is in two constraints")
		}
	}
	return nil
}

// Contains says whether a version is in the range. An error says that the version is none of the ecosystem.
func (r *Range) Contains(text string) (bool, error) {
	if r.all {
		return true, nil
	}
	v, err := r.parse(text)
	if err != nil {
		return false, err
	}
	same := func(w version) bool { return v.compare(w) == 0 }
	switch {
	case slices.ContainsFunc(r.equal, same):
		return true, nil
	case slices.ContainsFunc(r.unequal, same):
		return false, nil
	case len(r.bounds) == 0:
		return len(r.equal) == 0, nil // only != : all others
	}
	return r.between(v), nil
}

// between says whether a version lies between the bounds. A lower bound and the upper bound that follows it enclose an
// interval; an upper bound without a lower one before it, and a lower one without an upper one after it, are open.
func (r *Range) between(v version) bool {
	for i, b := range r.bounds {
		if !b.holds(v) {
			continue
		}
		switch {
		case b.isUpper() && (i == 0 || r.bounds[i-1].isUpper()):
			return true
		case !b.isUpper() && i == len(r.bounds)-1:
			return true
		case !b.isUpper() && r.bounds[i+1].isUpper() && r.bounds[i+1].holds(v):
			return true
		}
	}
	return false
}
