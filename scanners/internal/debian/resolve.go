// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// index is all packages of some suites for one architecture, the newest version of each.
type index struct {
	packages  map[string]*control
	providers map[string][]*control
}

func newIndex() *index { return &index{packages: map[string]*control{}} }

// add keeps a package if it is newer than the one known.
func (x *index) add(c *control) error {
	old := x.packages[c.name]
	if old == nil {
		x.packages[c.name] = c
		return nil
	}
	order, err := compare(c.version, old.version)
	if err != nil {
		return fmt.Errorf("package %s: %w", c.name, err)
	}
	if order > 0 {
		x.packages[c.name] = c
	}
	return nil
}

// finish lists who provides what, in an order that is independent of the order of the lists.
func (x *index) finish() {
	x.providers = map[string][]*control{}
	for _, name := range slices.Sorted(maps.Keys(x.packages)) {
		for _, p := range x.packages[name].provides {
			x.providers[p.name] = append(x.providers[p.name], x.packages[name])
		}
	}
}

// resolver walks dependencies. It chooses as apt does: what is chosen already, else the first alternative that
// can be had, a package of that name before one that provides it.
type resolver struct {
	index   *index
	without map[string]bool
	used    map[string]bool // of without
	chosen  map[string]*control
	queue   []*control
}

// resolve returns the packages that the wanted ones need, themselves included, sorted by name.
// Names of without that were met are noted in used.
func resolve(x *index, want []string, without map[string]string, used map[string]bool) ([]*control, error) {
	r := &resolver{index: x, without: map[string]bool{}, used: used, chosen: map[string]*control{}}
	for n := range without {
		r.without[n] = true
	}
	for _, n := range want {
		c := x.packages[n]
		if c == nil {
			return nil, fmt.Errorf("there is no package %s", n)
		}
		if r.without[n] {
			return nil, fmt.Errorf("package %s is wanted and left out", n)
		}
		r.choose(c)
	}
	for len(r.queue) > 0 {
		c := r.queue[0]
		r.queue = r.queue[1:]
		for _, g := range c.depends {
			if err := r.need(c, g); err != nil {
				return nil, err
			}
		}
	}
	all := slices.SortedFunc(maps.Values(r.chosen), func(a, b *control) int { return cmp.Compare(a.name, b.name) })
	return all, conflicts(all)
}

func (r *resolver) choose(c *control) {
	if r.chosen[c.name] == nil {
		r.chosen[c.name] = c
		r.queue = append(r.queue, c)
	}
}

// need makes sure that one alternative of a group is chosen, unless one of them is left out on purpose: then the
// others are not taken in its place.
func (r *resolver) need(by *control, g group) error {
	for _, rel := range g {
		ok, err := r.isChosen(rel)
		if ok || err != nil {
			return err
		}
	}
	for _, rel := range g {
		if r.without[rel.name] {
			r.used[rel.name] = true
			return nil
		}
	}
	for _, rel := range g {
		c, err := r.find(rel)
		if err != nil {
			return err
		}
		if c != nil {
			r.choose(c)
			return nil
		}
	}
	return fmt.Errorf("package %s needs %s, which is not there", by.name, g)
}

// isChosen reports whether a relation is fulfilled by what is chosen.
func (r *resolver) isChosen(rel relation) (bool, error) {
	if c := r.chosen[rel.name]; c != nil {
		if ok, err := rel.meets(c.version); ok || err != nil {
			return ok, err
		}
	}
	for _, p := range r.index.providers[rel.name] {
		if r.chosen[p.name] == nil {
			continue
		}
		if ok, err := p.fulfils(rel); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// find looks for a package that fulfils a relation; nil if there is none.
func (r *resolver) find(rel relation) (*control, error) {
	if c := r.index.packages[rel.name]; c != nil && !r.without[c.name] {
		if ok, err := rel.meets(c.version); err != nil || ok {
			return c, err
		}
	}
	for _, p := range r.index.providers[rel.name] {
		if r.without[p.name] {
			continue
		}
		if ok, err := p.fulfils(rel); err != nil || ok {
			return p, err
		}
	}
	return nil, nil
}

// fulfils reports whether what a package provides meets a relation.
func (c *control) fulfils(rel relation) (bool, error) {
	for _, p := range c.provides {
		if p.name != rel.name {
			continue
		}
		if ok, err := rel.meets(p.version); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// conflicts reports packages that must not be together.
func conflicts(all []*control) error {
	var errs []error
	for _, c := range all {
		for _, g := range c.conflicts {
			for _, other := range all {
				hit, err := g.hits(other)
				if err != nil {
					return err
				}
				// A package may conflict with a name that it provides itself.
				if hit && other != c {
					errs = append(errs, fmt.Errorf("packages %s and %s exclude each other (%s)", c.name, other.name, g))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// hits reports whether a package, or what it provides, is in a group.
func (g group) hits(c *control) (bool, error) {
	for _, rel := range g {
		if rel.name == c.name {
			if ok, err := rel.meets(c.version); ok || err != nil {
				return ok, err
			}
		}
		if ok, err := c.fulfils(rel); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
