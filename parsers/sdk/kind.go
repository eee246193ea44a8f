// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// AnyCategory is the Category of the Kind for findings whose category the scanner names.
const AnyCategory = "*"

// LocationWithoutLines is in an Identity the location "file:3-5" or "file:3" up to the line numbers, which shift.
const LocationWithoutLines = "location without lines"

// Kind describes one kind of finding that a parser makes. Each has a category of its own. They are what the
// reference of findings is generated from, and what fingerprints are made with; tests hold parsers to them.
type Kind struct {
	// Category is the category of the findings, or AnyCategory.
	Category string
	// When says what the scanner has seen, in a few words: "a port that is not closed".
	When string
	// Severities are those that these findings may have.
	Severities []string
	// Attributes are those that these findings may have.
	Attributes []Attribute
	// MoreAttributes says that the scanner adds attributes under names of its own.
	MoreAttributes bool
	// Identity lists the fields that distinguish these findings and stay the same from run to run: "name",
	// "location", LocationWithoutLines, "description", "attributes.file". The category always belongs to it.
	Identity []string
}

// Attribute describes one attribute of a finding.
type Attribute struct {
	Name string
	// Type holds everything that the attribute can be.
	Type Type
	// Doc says in a few words what it is, where the name does not.
	Doc string
}

// Type is a set of JSON types.
type Type uint8

// The types of attributes. Optional means that the attribute can be absent, which is not the same as Null. AsReported
// means that the value is copied from the report whatever it is there, also if it is missing; the other types say what
// the scanner is known to write.
const (
	Text Type = 1 << iota
	Number
	Bool
	List
	Map
	Null
	Optional
	AsReported
	Anything = Text | Number | Bool | List | Map | Null
)

var typeNames = []struct {
	t    Type
	name string
}{{Text, "string"}, {Number, "number"}, {Bool, "boolean"}, {List, "array"}, {Map, "object"}, {Null, "null"}}

// String lists the types for people: "string or null, optional".
func (t Type) String() string {
	var names []string
	for _, n := range typeNames {
		if t&n.t != 0 {
			names = append(names, n.name)
		}
	}
	s := strings.Join(names, " or ")
	if t&Anything == Anything {
		s = "anything"
	}
	if t&AsReported != 0 {
		s += ", as reported"
	}
	if t&Optional != 0 {
		s += ", optional"
	}
	return s
}

// Matchable reports whether cascading rules can match on the attribute: they compare texts and numbers.
func (t Type) Matchable() bool { return t&(Text|Number) != 0 }

// TypeOf returns the type of a value that was decoded from JSON.
func TypeOf(v any) Type {
	switch v.(type) {
	case nil:
		return Null
	case string:
		return Text
	case float64:
		return Number
	case bool:
		return Bool
	case []any:
		return List
	}
	return Map
}

var unreachedKind = func() *Kind { k := UnreachedKind(); return &k }()

// KindOf returns the Kind of findings of a category, or nil.
func (p *Parser) KindOf(category string) *Kind {
	if category == CategoryUnreached {
		return unreachedKind
	}
	match := slices.IndexFunc(p.Kinds, func(k Kind) bool { return k.Category == category })
	if match < 0 {
		match = slices.IndexFunc(p.Kinds, func(k Kind) bool { return k.Category == AnyCategory })
	}
	if match < 0 {
		return nil
	}
	return &p.Kinds[match]
}

// appendIdentity appends what the fingerprint is made of: a JSON array of the result type, the category and the
// values that the kind lists.
func (k *Kind) appendIdentity(dst []byte, resultType string, f *finding.Finding) ([]byte, error) {
	dst = append(dst, '[')
	dst = finding.AppendString(dst, resultType)
	dst = append(dst, ',')
	dst = finding.AppendString(dst, f.Category.Or(""))
	var err error
	for _, name := range k.Identity {
		dst = append(dst, ',')
		if dst, err = finding.AppendValue(dst, identityValue(f, name)); err != nil {
			return dst, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(dst, ']'), nil
}

func identityValue(f *finding.Finding, name string) any {
	switch name {
	case "name":
		return f.Name
	case "location":
		return f.Location
	case "description":
		return f.Description
	case LocationWithoutLines:
		return withoutLines(f.Location)
	}
	key, _ := strings.CutPrefix(name, "attributes.")
	v, _ := f.Attributes.Get(key)
	return v
}

func withoutLines(location finding.Text) finding.Text {
	s, ok := location.Get()
	i := strings.LastIndexByte(s, ':')
	if !ok || i < 0 || strings.Trim(s[i+1:], "0123456789-") != "" {
		return location
	}
	return finding.String(s[:i])
}

// CheckKinds returns what is wrong with a parser's Kinds, for tests.
func (p *Parser) CheckKinds() error {
	seen := map[string]bool{}
	for i := range p.Kinds {
		k := &p.Kinds[i]
		if k.Category == "" || k.When == "" || len(k.Severities) == 0 || seen[k.Category] {
			return fmt.Errorf("kind %d (%q) is not complete, or is there twice", i, k.Category)
		}
		seen[k.Category] = true
		for _, name := range k.Identity {
			key, isAttribute := strings.CutPrefix(name, "attributes.")
			known := slices.Contains([]string{"name", "location", LocationWithoutLines, "description"}, name)
			if isAttribute {
				known = k.attribute(key) != nil
			}
			if !known {
				return fmt.Errorf("kind %q: identity %q is not of this kind", k.Category, name)
			}
		}
	}
	if len(p.Kinds) == 0 {
		return fmt.Errorf("the parser for %s does not say which findings it makes", p.ResultType)
	}
	return nil
}

func (k *Kind) attribute(name string) *Attribute {
	i := slices.IndexFunc(k.Attributes, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &k.Attributes[i]
}

// CheckFinding returns what a finding, read back from JSON, has that its Kind does not list, for tests.
func (p *Parser) CheckFinding(f *finding.Finding) error {
	category, ok := f.Category.Get()
	if !ok {
		return nil // the schema covers that
	}
	k := p.KindOf(category)
	if k == nil {
		return fmt.Errorf("category %q is not listed", category)
	}
	if s, ok := f.Severity.Get(); ok && !slices.Contains(k.Severities, s) && slices.Contains(severities, s) {
		return fmt.Errorf("category %q: severity %s is not listed", category, s)
	}
	for _, m := range f.Attributes {
		a := k.attribute(m.Key)
		switch {
		case a == nil && !k.MoreAttributes:
			return fmt.Errorf("category %q: attribute %q is not listed", category, m.Key)
		case a != nil && a.Type&(TypeOf(m.Value)|AsReported) == 0:
			return fmt.Errorf("category %q: attribute %q is %v, listed as %v", category, m.Key, TypeOf(m.Value), a.Type)
		}
	}
	for _, a := range k.Attributes {
		if _, ok := f.Attributes.Get(a.Name); !ok && a.Type&(Optional|AsReported) == 0 {
			return fmt.Errorf("category %q: attribute %q is missing, and not listed as optional", category, a.Name)
		}
	}
	return nil
}

var severities = []string{finding.Informational, finding.Low, finding.Medium, finding.High}
