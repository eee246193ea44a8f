// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

// Remains are what is left of a finding where something was made of it that does not hold all of it, such as a result of a report.
type Remains struct {
	// Finding has what is left. Its attributes may be texts that were numbers, true or false in the finding.
	Finding finding.Object
	// Lacks tells that the remains do not say whether the finding meets a field of an entry, such as names or attributes.port.
	Lacks func(field string) bool
	// Held is the exception that matched the finding as a whole, as KIND/NAME; empty for none.
	Held string
}

// MatchRemains is Match for what is left of a finding. An exception of which the remains do not tell matches where it has
// matched the whole finding, and nowhere else.
func (s *Selection) MatchRemains(r *Remains) (Mark, bool) {
	if s.IsEmpty() {
		return Mark{}, false
	}
	x := &s.subject
	x.read(r.Finding)
	x.texts = true
	candidates := s.candidatesOf(x)
	if r.Held != "" {
		candidates = append(candidates, s.named(r.Held)...)
		slices.Sort(candidates)
		candidates = slices.Compact(candidates)
	}
	for _, at := range candidates {
		e := s.entries[at]
		met, told := e.told(x, r.Lacks)
		if met && (told || e.owner.exception.String() == r.Held) {
			return e.mark(), true
		}
	}
	return Mark{}, false
}

// named are the entries of one exception.
func (s *Selection) named(name string) []int {
	if s.owned == nil {
		s.owned = map[string][]int{}
		for i, e := range s.entries {
			owner := e.owner.exception.String()
			s.owned[owner] = append(s.owned[owner], i)
		}
	}
	return s.owned[name]
}

// told says whether a finding may meet the entry, and whether its remains tell that it does.
func (e *entry) told(x *subject, lacks func(string) bool) (met, told bool) {
	left := *e
	told = left.expression == nil || !lacks("expression")
	if !told { // it may be met by what is left, and not by the whole
		left.expression = nil
	}
	for ; ; told = false {
		field := left.fails(x)
		switch {
		case field == "":
			return true, told
		case !lacks(field):
			return false, true
		}
		left.drop(field)
	}
}

// drop asks no longer for a field.
func (e *entry) drop(field string) {
	switch field {
	case "fingerprints":
		e.fingerprints = nil
	case "references":
		e.references = nil
	case "severities":
		e.severities = nil
	case "categories":
		e.categories = nil
	case "names":
		e.names = nil
	case "locations":
		e.locations = nil
	case "products":
		e.products = nil
	case "packages":
		e.packages = nil
	case "expression":
		e.expression = nil
	default:
		e.attributes = slices.DeleteFunc(slices.Clone(e.attributes), func(a attribute) bool { return "attributes."+a.key == field })
	}
}

// String is KIND/NAME.
func (e *Exception) String() string { return e.Kind() + "/" + e.Name }
