// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"errors"
	"iter"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// place identifies a result of a report: the resource (0 in a report without) and the result of it, from 0.
type place struct{ resource, result int }

func (a place) before(b place) bool {
	return a.resource < b.resource || a.resource == b.resource && a.result < b.result
}

// ahead is another reading of the same report, which goes only as far as needed. It takes what it finds as
// it is: what is wrong there the first reading finds as well.
type ahead[T any] struct {
	next func() (place, step[T], bool)
	stop func()
	at   place
	step step[T]
	over bool
}

type step[T any] struct {
	value T
	err   error
}

// start begins to read when it is needed.
func start[T any](p *report, walk func(r *jsonstream.Reader, yield func(place, T) error) error) *ahead[T] {
	a := &ahead[T]{at: place{-1, -1}}
	a.next, a.stop = iter.Pull2(func(yield func(place, step[T]) bool) {
		err := p.read(func(r *jsonstream.Reader) error {
			return walk(r, func(at place, v T) error {
				if !yield(at, step[T]{value: v}) {
					return errStopped
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(place{}, step[T]{err: err})
		}
	})
	return a
}

var errStopped = errors.New("enough is known")

func (a *ahead[T]) close() {
	if a != nil {
		a.stop()
	}
}

// each calls one for everything that there is at a place, and forgets what comes before it.
func (a *ahead[T]) each(at place, one func(T) error) error {
	for {
		for a.at.before(at) && !a.over {
			a.advance()
		}
		if a.step.err != nil {
			return a.step.err
		}
		if a.over || a.at != at {
			return nil
		}
		if err := one(a.step.value); err != nil {
			return err
		}
		a.advance()
	}
}

func (a *ahead[T]) advance() {
	at, step, ok := a.next()
	if !ok {
		a.over = true
		return
	}
	a.at, a.step, a.over = at, step, step.err != nil
}

// result is the part of a result that is read ahead.
type result struct {
	names finding.Object // Target, Class, Type, if they are there
	// swapped says that the vulnerabilities come after the misconfigurations.
	swapped bool
}

// resultsAhead reads the names of all results, and the order of their lists.
func (p *report) resultsAhead(r *jsonstream.Reader, yield func(place, result) error) error {
	return p.eachResult(r, func(at place) error {
		res, misconfigured := result{}, false
		err := r.Object(func(key string) error {
			switch key {
			case "Target", "Class", "Type":
				return keep(r, &res.names, key)
			case misconfigurations:
				misconfigured = true
			case vulnerabilities:
				res.swapped = misconfigured
			}
			return nil
		})
		if err != nil {
			return err
		}
		return yield(at, res)
	})
}

// resourcesAhead reads the names of all resources.
func (p *report) resourcesAhead(r *jsonstream.Reader, yield func(place, finding.Object) error) error {
	return p.eachResource(r, func(index int) error {
		names := finding.Object{}
		err := r.Object(func(key string) error {
			switch key {
			case "Namespace", "Kind", "Name":
				return keep(r, &names, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return yield(place{resource: index}, names)
	})
}

// missedAhead reads the vulnerabilities of all results that have them after their misconfigurations.
func (p *report) missedAhead(r *jsonstream.Reader, yield func(place, any) error) error {
	return p.eachResult(r, func(at place) error {
		misconfigured := false
		return r.Object(func(key string) error {
			switch {
			case key == misconfigurations:
				misconfigured = true
			case key == vulnerabilities && misconfigured:
				return elements(r, key, func(int) error {
					v, err := r.Pick(wanted)
					if err != nil {
						return err
					}
					return yield(at, v)
				})
			}
			return nil
		})
	})
}

func keep(r *jsonstream.Reader, names *finding.Object, key string) error {
	v, err := r.Value()
	names.Set(key, v)
	return err
}

// eachResult visits every result that is an object.
func (p *report) eachResult(r *jsonstream.Reader, visit func(place) error) error {
	results := func(resource int) error {
		return eachObject(r, func(index int) error { return visit(place{resource, index}) })
	}
	if !p.isCluster() {
		return r.Object(func(key string) error {
			if key != resultsKey {
				return nil
			}
			return results(0)
		})
	}
	return p.eachResource(r, func(index int) error {
		return r.Object(func(key string) error {
			if key != resultsKey {
				return nil
			}
			return results(index)
		})
	})
}

// eachResource visits every resource that is an object.
func (p *report) eachResource(r *jsonstream.Reader, visit func(index int) error) error {
	return r.Object(func(key string) error {
		if key != resourcesKey {
			return nil
		}
		return eachObject(r, visit)
	})
}

// eachObject visits the objects of what may be an array.
func eachObject(r *jsonstream.Reader, visit func(index int) error) error {
	kind, err := r.Kind()
	if err != nil || kind != jsonstream.Array {
		return err
	}
	return r.Array(func(index int) error {
		kind, err := r.Kind()
		if err != nil || kind != jsonstream.Object {
			return err
		}
		return visit(index)
	})
}
