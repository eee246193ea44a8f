// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// requirement compares one annotation with rendered values.
type requirement struct {
	key, operator string
	annotation    string
	values        []value
	strict        bool
	// bad is the mistake in it that shows before values are rendered, late the one that shows after.
	bad, late error
	test      test
	// scopes and scope are the annotation, read when it is first needed: a mistake in it counts only then.
	scopes []netip.Prefix
	scope  domain
	// tested is the verdict for the values of last, since adjacent findings often have the same values.
	last   []string
	tested verdict
}

// test compares the annotation, which it has prepared, with the values.
type test func(values []string) (verdict, error)

func newRequirement(entry any, s Settings, strict bool) *requirement {
	r := &requirement{strict: strict}
	spec, ok := entry.(finding.Object)
	if !ok {
		r.bad = errors.New("a requirement is not an object")
		return r
	}
	r.key, _ = spec.Text("key").Get()
	r.operator, _ = spec.Text("operator").Get()
	if !strings.HasPrefix(r.key, Domain) {
		r.bad = fmt.Errorf("key %q does not start with %s", r.key, Domain)
		return r
	}
	if r.bad = r.readValues(spec, s.Aliases); r.bad != nil {
		return r
	}
	annotation, ok := s.Annotations.Text(r.key).Get()
	if !ok {
		r.late = fmt.Errorf("operator %s: the Scan has no annotation %s", r.operator, r.key)
	}
	r.annotation = annotation
	if r.test = r.newTest(); r.test == nil {
		r.bad = fmt.Errorf("there is no operator %q; there are In, NotIn, Contains, DoesNotContain, InCIDR, NotInCIDR, SubdomainOf and NotSubdomainOf", r.operator)
	}
	return r
}

func (r *requirement) readValues(spec, aliases finding.Object) error {
	given, _ := spec.Get("values")
	list, ok := given.([]any)
	if !ok {
		return fmt.Errorf("operator %s: the requirement has no values", r.operator)
	}
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("operator %s: values[%d] is not text", r.operator, i)
		}
		prepared, err := newValue(text, aliases)
		if err != nil {
			return fmt.Errorf("operator %s: values[%d]: %w", r.operator, i, err)
		}
		r.values = append(r.values, prepared)
	}
	return nil
}

// text says in words what a requirement that is in the way wants.
func (r *requirement) text(v verdict) string {
	short := r.operator + " " + strings.TrimPrefix(r.key, Domain)
	switch v {
	case yes:
		return short + " holds"
	case unknown:
		return short + " is unknown"
	default:
		return short + " does not hold"
	}
}

// render makes texts of the values. It is incomplete when one of them renders to nothing.
func (r *requirement) render(view finding.Object) (values []string, complete bool, err error) {
	if r.bad != nil {
		return nil, false, r.bad
	}
	complete = true
	for _, v := range r.values {
		rendered, err := v.render(view)
		if err != nil {
			return nil, false, fmt.Errorf("operator %s: %w", r.operator, err)
		}
		complete = complete && !slices.Contains(rendered, "")
		values = append(values, rendered...)
	}
	return values, complete, nil
}

// evaluate asks the test.
func (r *requirement) evaluate(values []string) (verdict, error) {
	if r.late != nil {
		return no, r.late
	}
	if r.strict && len(values) == 0 {
		return unknown, nil
	}
	if r.last != nil && slices.Equal(r.last, values) {
		return r.tested, nil
	}
	v, err := r.test(values)
	if err != nil {
		return no, fmt.Errorf("operator %s: %w", r.operator, err)
	}
	r.last, r.tested = append([]string{}, values...), v
	return v, nil
}

// newTest returns the test of the operator, nil if there is no such operator.
func (r *requirement) newTest() test {
	switch r.operator {
	case "In":
		return r.in
	case "NotIn":
		return negated(r.in)
	case "Contains":
		return r.contains
	case "DoesNotContain":
		return negated(r.contains)
	case "InCIDR":
		return r.inCIDR
	case "NotInCIDR":
		return negated(r.inCIDR)
	case "SubdomainOf":
		return r.subdomainOf
	case "NotSubdomainOf":
		return negated(r.subdomainOf)
	}
	return nil
}

// negated negates the result as a whole, not for each value.
func negated(t test) test {
	return func(values []string) (verdict, error) {
		v, err := t(values)
		switch v {
		case yes:
			return no, err
		case no:
			return yes, err
		default:
			return v, err
		}
	}
}

func resultOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

func (r *requirement) in(values []string) (verdict, error) {
	return resultOf(slices.Contains(values, r.annotation)), nil
}

func (r *requirement) contains(values []string) (verdict, error) {
	listed := strings.Split(r.annotation, ",")
	for _, v := range values {
		if !slices.Contains(listed, v) {
			return no, nil
		}
	}
	return yes, nil
}

// inCIDR stops at the first value outside, as every other test does: what follows is not looked at.
func (r *requirement) inCIDR(values []string) (verdict, error) {
	scopes, err := r.networks()
	if err != nil {
		return no, err
	}
	result := yes
	for _, v := range values {
		network, err := parseNetwork(v)
		if err != nil {
			return no, err
		}
		family := false
		inside := false
		for _, scope := range scopes {
			if sameFamily(network, scope) {
				family = true
				inside = inside || within(network, scope)
			}
		}
		switch {
		case inside:
		case family:
			return no, nil
		case r.strict:
			result = unknown
		}
	}
	return result, nil
}

func (r *requirement) networks() ([]netip.Prefix, error) {
	if r.scopes != nil {
		return r.scopes, nil
	}
	texts := []string{r.annotation}
	if r.strict {
		texts = strings.Split(r.annotation, ",")
	}
	scopes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		if r.strict {
			text = strings.TrimSpace(text)
		}
		scope, err := parseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", r.key, err)
		}
		scopes = append(scopes, scope)
	}
	r.scopes = scopes
	return scopes, nil
}

func (r *requirement) subdomainOf(values []string) (verdict, error) {
	if r.scope == nil {
		var err error
		if r.scope, err = parseDomain(r.annotation); err != nil {
			return no, fmt.Errorf("annotation %s: %w", r.key, err)
		}
	}
	for _, v := range values {
		name, err := parseDomain(v)
		if err != nil {
			return no, err
		}
		if !name.within(r.scope) {
			return no, nil
		}
	}
	return yes, nil
}
