// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

// maxPrefix is how many bytes of a glob's literal beginning are looked up.
const maxPrefix = 48

// Selection are the exceptions that hold for one Scan. It is for one goroutine.
type Selection struct {
	entries []*entry
	// Each entry is in one index, where a finding that meets the entry is sure to find it.
	fingerprints, references    map[string][]int
	names, categories, location beginnings
	rest                        []int
	subject                     subject
	candidates                  []int
	owned                       map[string][]int // made when it is asked for
}

// beginnings finds entries by the beginning of a text.
type beginnings struct {
	byText  map[string][]int
	lengths []int // of the beginnings that there are
}

func (b *beginnings) add(prefixes []string, entry int) {
	if b.byText == nil {
		b.byText = map[string][]int{}
	}
	for _, p := range prefixes {
		p = p[:min(len(p), maxPrefix)]
		if !slices.Contains(b.byText[p], entry) {
			b.byText[p] = append(b.byText[p], entry)
		}
		if !slices.Contains(b.lengths, len(p)) {
			b.lengths = append(b.lengths, len(p))
		}
	}
}

func (b *beginnings) find(text string, into []int) []int {
	for _, n := range b.lengths {
		if n <= len(text) {
			into = append(into, b.byText[text[:n]]...)
		}
	}
	return into
}

// For takes the exceptions that hold for a Scan.
func (m *Matcher) For(scan Scan) *Selection {
	var reaching []*entry
	for _, e := range m.entries {
		if e.owner.reaches(&scan) == "" {
			reaching = append(reaching, e)
		}
	}
	return newSelection(reaching)
}

func newSelection(entries []*entry) *Selection {
	s := &Selection{entries: entries, fingerprints: map[string][]int{}, references: map[string][]int{}}
	for i, e := range entries {
		s.put(e, i)
	}
	return s
}

// put chooses the index of an entry: what fewest findings share comes first.
func (s *Selection) put(e *entry, i int) {
	switch {
	case e.fingerprints != nil:
		for key := range e.fingerprints {
			s.fingerprints[key] = append(s.fingerprints[key], i)
		}
	case e.references != nil:
		for key := range e.references {
			s.references[key] = append(s.references[key], i)
		}
	case len(e.names.prefixes()) > 0:
		s.names.add(e.names.prefixes(), i)
	case len(e.locations.prefixes()) > 0:
		s.location.add(e.locations.prefixes(), i)
	case len(e.categories.prefixes()) > 0:
		s.categories.add(e.categories.prefixes(), i)
	default:
		s.rest = append(s.rest, i)
	}
}

// IsEmpty says that no exception holds for the Scan: nothing need be asked.
func (s *Selection) IsEmpty() bool { return s == nil || len(s.entries) == 0 }

// Match gives what a finding is marked with, and whether it is excepted at all. The finding is one of finding.DecodeValue.
func (s *Selection) Match(f finding.Object) (Mark, bool) {
	if s.IsEmpty() {
		return Mark{}, false
	}
	x := &s.subject
	x.read(f)
	for _, at := range s.candidatesOf(x) {
		if s.entries[at].fails(x) == "" {
			return s.entries[at].mark(), true
		}
	}
	return Mark{}, false
}

// candidatesOf are the entries that a finding may meet, in the order in which they win.
func (s *Selection) candidatesOf(x *subject) []int {
	c := s.candidates[:0]
	c = append(c, s.rest...)
	if x.fingerprint != "" {
		c = append(c, s.fingerprints[x.fingerprint]...)
	}
	for _, r := range x.references {
		c = append(c, s.references[r]...)
	}
	c = s.names.find(x.name, c)
	c = s.categories.find(x.category, c)
	c = s.location.find(x.location, c)
	slices.Sort(c)
	s.candidates = slices.Compact(c)
	return s.candidates
}

func (e *entry) mark() Mark {
	x := &e.owner.exception
	return Mark{
		Name: x.Name, Kind: x.Kind(), Status: x.Spec.Status, Justification: x.Spec.Justification, Reason: x.Spec.Reason, ExpiresAt: x.Spec.ExpiresAt,
	}
}
