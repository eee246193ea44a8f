// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/package-url/packageurl-go"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/cascade/expression"
	"github.com/scanyard/scanyard/findings/exception/vers"
)

// entry is one of spec.match.anyOf. A field that is nil asks for nothing.
type entry struct {
	owner                        *compiled
	index                        int
	fingerprints, references     map[string]bool
	names, categories, locations globs
	severities                   []string
	packages                     []pack
	products                     globs
	attributes                   []attribute
	expression                   *expression.Expression
}

// attribute is a value that the finding must have at a path below attributes.
type attribute struct {
	key   string
	path  []string
	value any // a string, a float64 or a bool
}

// pack is a package, all or some of its versions.
type pack struct {
	purl     packageurl.PackageURL
	versions *vers.Range
}

var (
	errEmpty     = errors.New("entry must have a field: an empty one would match every finding")
	errTwoRanges = errors.New("a package URL has a version or the qualifier vers, not both")
	errNoScalar  = errors.New("must be a text, a number, true or false")
	errBroad     = errors.New("a glob of * alone is allowed only in a ClusterFindingException whose entry names a reference or a fingerprint")
)

// compileEntry gives the entry with this index, or the field that is wrong.
func compileEntry(c *compiled, index int) (*entry, string, error) {
	from := &c.exception.Spec.Match.AnyOf[index]
	path := fmt.Sprintf("spec.match.anyOf[%d]", index)
	e := &entry{
		owner: c, index: index, severities: from.Severities,
		fingerprints: setOf(from.Fingerprints, nil), references: setOf(from.References, strings.ToUpper),
		names: compileGlobs(from.Names), categories: compileGlobs(from.Categories), locations: compileGlobs(from.Locations),
		products: compileGlobs(from.Products),
	}
	if e.isEmpty(from) {
		return nil, path, errEmpty
	}
	broad := c.exception.Namespace == "" && (e.fingerprints != nil || e.references != nil)
	for field, patterns := range map[string][]string{
		"names": from.Names, "categories": from.Categories, "locations": from.Locations, "products": from.Products,
	} {
		if i := slices.IndexFunc(patterns, func(p string) bool { return !hasLiteral(p) }); i >= 0 && !broad {
			return nil, fmt.Sprintf("%s.%s[%d]", path, field, i), errBroad
		}
	}
	for i, text := range from.Packages {
		p, err := compilePackage(text)
		if err != nil {
			return nil, fmt.Sprintf("%s.packages[%d]", path, i), err
		}
		e.packages = append(e.packages, p)
	}
	for key, value := range from.Attributes {
		v, err := finding.DecodeValue([]byte(value.Raw()), 1)
		if err != nil || !isScalar(v) {
			return nil, path + ".attributes." + key, errNoScalar
		}
		e.attributes = append(e.attributes, attribute{key, strings.Split(key, "."), v})
	}
	slices.SortFunc(e.attributes, func(a, b attribute) int { return strings.Compare(a.key, b.key) })
	if from.Expression != "" {
		x, err := expression.Compile(from.Expression)
		if err != nil {
			return nil, path + ".expression", err
		}
		e.expression = x
	}
	return e, "", nil
}

func (e *entry) isEmpty(from *settingsv1alpha2.ExceptionEntry) bool {
	return e.fingerprints == nil && e.references == nil && len(from.Names)+len(from.Categories)+len(from.Locations)+len(from.Severities)+
		len(from.Packages)+len(from.Products)+len(from.Attributes) == 0 && from.Expression == ""
}

func isScalar(v any) bool {
	switch v.(type) {
	case string, float64, bool:
		return true
	}
	return false
}

// setOf is nil for an empty list.
func setOf(list []string, change func(string) string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[string]bool, len(list))
	for _, text := range list {
		if change != nil {
			text = change(text)
		}
		set[text] = true
	}
	return set
}

func compilePackage(text string) (pack, error) {
	purl, err := packageurl.FromString(text)
	if err != nil {
		return pack{}, err
	}
	p := pack{purl: purl}
	at := slices.IndexFunc(purl.Qualifiers, func(q packageurl.Qualifier) bool { return q.Key == "vers" })
	if at < 0 {
		return p, nil
	}
	if purl.Version != "" {
		return pack{}, errTwoRanges
	}
	if p.versions, err = vers.Parse(purl.Qualifiers[at].Value); err != nil {
		return pack{}, err
	}
	p.purl.Qualifiers = slices.Delete(slices.Clone(purl.Qualifiers), at, at+1)
	return p, nil
}

// fits says whether a package of a finding is meant: what the exception says of it has to be equal, versions by the range.
func (p *pack) fits(other *packageurl.PackageURL) bool {
	if p.purl.Type != other.Type || p.purl.Namespace != other.Namespace || p.purl.Name != other.Name ||
		p.purl.Version != "" && p.purl.Version != other.Version || p.purl.Subpath != "" && p.purl.Subpath != other.Subpath {
		return false
	}
	for _, q := range p.purl.Qualifiers {
		if !slices.Contains(other.Qualifiers, q) {
			return false
		}
	}
	if p.versions == nil {
		return true
	}
	in, err := p.versions.Contains(other.Version)
	return err == nil && in // a version that cannot be compared is in no range
}

// fails gives the first field of the entry that a finding does not meet, "" where it meets all. Cheap fields come first.
func (e *entry) fails(s *subject) string {
	switch {
	case e.fingerprints != nil && !e.fingerprints[s.fingerprint]:
		return "fingerprints"
	case e.references != nil && !slices.ContainsFunc(s.references, func(r string) bool { return e.references[r] }):
		return "references"
	case e.severities != nil && !slices.Contains(e.severities, s.severity):
		return "severities"
	case len(e.categories) > 0 && !e.categories.fit(s.category):
		return "categories"
	case len(e.names) > 0 && !e.names.fit(s.name):
		return "names"
	case len(e.locations) > 0 && !e.locations.fit(s.location):
		return "locations"
	case len(e.products) > 0 && !slices.ContainsFunc(s.products(), e.products.fit):
		return "products"
	case e.packages != nil && !s.inPackages(e.packages):
		return "packages"
	}
	for _, a := range e.attributes {
		if !s.hasAttribute(a) {
			return "attributes." + a.key
		}
	}
	if e.expression != nil {
		if met, err := e.expression.Matches(s.object); err != nil || !met {
			return "expression"
		}
	}
	return ""
}
