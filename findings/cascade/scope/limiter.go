// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// Domain is what every annotation starts with that bounds a scope. Children of a Scan always have the Scan's own.
const Domain = "scope.cascading.securecodebox.io/"

// Settings are what a Limiter is made of.
type Settings struct {
	// Limiter is spec.cascades.scopeLimiter; nil or null lets everything pass.
	Limiter any
	// Annotations are the annotations of the Scan of the findings.
	Annotations finding.Object
	// Aliases are spec.scopeLimiterAliases of the ParseDefinition.
	Aliases finding.Object
}

// Limiter decides for one Scan. It is for one goroutine.
type Limiter struct {
	groups []group
	strict bool
	// onMissing is what a requirement yields when a value does not render.
	onMissing bool
	view      finding.Object
}

// group is one of allOf, anyOf, noneOf.
type group struct {
	name         string
	requirements []*requirement
}

// New reads a limiter. Mistakes in single requirements show when these are reached.
func New(s Settings) (*Limiter, error) {
	if s.Limiter == nil {
		return nil, nil // no limiter is a limiter that allows everything
	}
	spec, ok := s.Limiter.(finding.Object)
	if !ok {
		return nil, errors.New("scopeLimiter is not an object")
	}
	l := &Limiter{strict: isTrue(spec, "strict"), onMissing: isTrue(spec, "validOnMissingRender")}
	for _, name := range []string{"allOf", "anyOf", "noneOf"} {
		value, ok := spec.Get(name)
		if !ok || value == nil {
			continue
		}
		list, ok := value.([]any)
		if !ok {
			return nil, fmt.Errorf("scopeLimiter.%s is not a list", name)
		}
		g := group{name: name}
		for _, entry := range list {
			g.requirements = append(g.requirements, newRequirement(entry, s, l.strict))
		}
		if len(g.requirements) > 0 {
			l.groups = append(l.groups, g)
		}
	}
	return l, nil
}

func isTrue(o finding.Object, key string) bool {
	value, _ := o.Get(key)
	return value == true
}

// Allows says whether a finding is in scope, and if it is not, which requirement is in the way. A nil Limiter allows everything.
func (l *Limiter) Allows(f finding.Object) (allowed bool, why string, err error) {
	if l == nil || len(l.groups) == 0 {
		return true, "", nil
	}
	l.view = append(append(l.view[:0], sections...), f...)
	// All groups are looked at, even when the first has settled it: a mistake must not hide behind a refusal.
	for _, g := range l.groups {
		reason, err := l.refuses(g)
		if err != nil {
			return false, "", fmt.Errorf("scopeLimiter.%s: %w", g.name, err)
		}
		if reason != "" && why == "" {
			why = g.name + ": " + reason
		}
	}
	return why == "", why, nil
}

// refuses says why a group does not hold; nothing if it does.
func (l *Limiter) refuses(g group) (string, error) {
	var reasons []string
	for _, r := range g.requirements {
		holds, err := l.check(r)
		if err != nil {
			return "", err
		}
		switch {
		case g.name == "noneOf" && holds != no:
			return r.text(holds), nil
		case g.name == "allOf" && holds != yes:
			return r.text(holds), nil
		case g.name == "anyOf" && holds == yes:
			return "", nil
		case g.name == "anyOf":
			reasons = append(reasons, r.text(holds))
		}
	}
	return strings.Join(reasons, "; "), nil
}

// check evaluates a requirement.
func (l *Limiter) check(r *requirement) (verdict, error) {
	values, complete, err := r.render(l.view)
	if err != nil {
		return no, err
	}
	if !complete {
		switch {
		case l.onMissing:
			return yes, nil
		case l.strict:
			return unknown, nil
		}
		return no, nil
	}
	return r.evaluate(values)
}

// verdict is the result of a requirement for a finding.
type verdict int

const (
	no verdict = iota
	yes
	// unknown is a result in strict mode only. It counts against the finding whatever the group is.
	unknown
)
