// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/text"
)

// Bounds of what a Scan's status holds about categories, so that no scanner's output can make the object too large
// for the API server.
const (
	// MaxCategories is how many categories are counted by name. Findings of further ones count under OtherCategory.
	MaxCategories = 200
	// MaxCategoryLength is how many bytes of a category's name are kept; a cut name ends in "…".
	MaxCategoryLength = 200
	// OtherCategory counts the findings of categories beyond MaxCategories.
	OtherCategory = "(other categories)"
	// MissingCategory counts findings without a category. The word is what clients of this format know.
	MissingCategory = "undefined"
)

// ErrNoSeverity says that a finding has no severity, or one that is not a string, so that it cannot be counted.
var ErrNoSeverity = errors.New("finding has no severity")

// Stats counts findings for the Scan's status. The zero Stats is ready to use.
type Stats struct {
	// Count is the number of all findings.
	Count int
	// Informational, Low, Medium and High count by severity, whatever its case. Another severity is in none.
	Informational, Low, Medium, High int
	// Categories counts by category, see the bounds above.
	Categories map[string]int
}

// Add counts a finding. The only error is ErrNoSeverity.
func (s *Stats) Add(f *Finding) error {
	severity, ok := f.Severity.Get()
	if !ok {
		return ErrNoSeverity
	}
	category, ok := f.Category.Get()
	if !ok {
		category = MissingCategory
		if f.Category.IsNull() {
			category = "null"
		} else if v, ok := f.Extra.Get("category"); ok {
			category = ToString(v)
		}
	}
	s.add(severity, category)
	return nil
}

// AddRaw counts one element of findings.json. It fails on an element that is not a JSON object, and with ErrNoSeverity.
func (s *Stats) AddRaw(element []byte) error {
	var severity, category any
	hasCategory := false
	d := newDecoder(element, 0)
	d.space()
	if d.peek() != '{' {
		return d.unexpected("an object")
	}
	err := d.members(0, func(key []byte, asItIs bool) error {
		var err error
		switch textOf(key, asItIs) {
		case "severity":
			severity, err = d.value(1)
		case "category":
			hasCategory = true
			category, err = d.value(1)
		default:
			err = d.skip(1)
		}
		return err
	})
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return err
	}
	word, ok := severity.(string)
	if !ok {
		return ErrNoSeverity
	}
	name := MissingCategory
	if hasCategory {
		name = ToString(category)
	}
	s.add(word, name)
	return nil
}

func (s *Stats) add(severity, category string) {
	s.Count++
	switch strings.ToUpper(severity) {
	case Informational:
		s.Informational++
	case Low:
		s.Low++
	case Medium:
		s.Medium++
	case High:
		s.High++
	}
	if s.Categories == nil {
		s.Categories = map[string]int{}
	}
	if n, ok := s.Categories[category]; ok { // the common case needs no cut
		s.Categories[category] = n + 1
		return
	}
	category = text.Cut(category, MaxCategoryLength)
	if _, ok := s.Categories[category]; !ok && len(s.Categories) >= MaxCategories {
		category = OtherCategory
	}
	s.Categories[category]++
}

// StatusPatch returns the JSON merge patch for the Scan's status: the count, all four severities, the categories,
// and null for every category in previous (the names now in the status) that has no finding any more.
func (s *Stats) StatusPatch(previous []string) []byte {
	b := append([]byte(nil), `{"status":{"findings":{"count":`...)
	b = strconv.AppendInt(b, int64(s.Count), 10)
	b = append(b, `,"severities":{"informational":`...)
	b = strconv.AppendInt(b, int64(s.Informational), 10)
	b = append(b, `,"low":`...)
	b = strconv.AppendInt(b, int64(s.Low), 10)
	b = append(b, `,"medium":`...)
	b = strconv.AppendInt(b, int64(s.Medium), 10)
	b = append(b, `,"high":`...)
	b = strconv.AppendInt(b, int64(s.High), 10)
	b = append(b, `},"categories":{`...)
	names := map[string]bool{}
	for _, name := range previous {
		names[name] = true
	}
	for name := range s.Categories {
		names[name] = true
	}
	for i, name := range slices.Sorted(maps.Keys(names)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, name)
		b = append(b, ':')
		if n := s.Categories[name]; n > 0 {
			b = strconv.AppendInt(b, int64(n), 10)
		} else {
			b = append(b, "null"...)
		}
	}
	return append(b, `}}}}`...)
}
