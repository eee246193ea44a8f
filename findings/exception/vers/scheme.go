// SPDX-License-Identifier: Apache-2.0

package vers

import (
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	gem "github.com/aquasecurity/go-gem-version"
	pep440 "github.com/aquasecurity/go-pep440-version"
	dotted "github.com/aquasecurity/go-version/pkg/version"
	apk "github.com/knqyf263/go-apk-version"
	deb "github.com/knqyf263/go-deb-version"
	rpm "github.com/knqyf263/go-rpm-version"
	mvn "github.com/masahiro331/go-mvn-version"
)

// version is one of an ecosystem, and how it compares with another one of the same.
type version struct {
	with func(other any) int
	self any
}

func (v version) compare(other version) int { return v.with(other.self) }

// parser reads a version of an ecosystem.
type parser func(text string) (version, error)

// of makes a parser from what a library has.
func of[V any](parse func(string) (V, error), compare func(a, b V) int) parser {
	return func(text string) (version, error) {
		v, err := parse(text)
		if err != nil {
			return version{}, err
		}
		return version{self: v, with: func(other any) int {
			w, ok := other.(V)
			if !ok {
				return 1 // versions of two ecosystems never meet: a range has one parser
			}
			return compare(v, w)
		}}, nil
	}
}

var (
	semantic = of(semver.NewVersion, (*semver.Version).Compare)
	parts    = of(dotted.Parse, dotted.Version.Compare)
	alpine   = of(apk.NewVersion, apk.Version.Compare)
	debian   = of(deb.NewVersion, func(a, b deb.Version) int { return a.Compare(b) })
	redhat   = of(func(text string) (rpm.Version, error) { return rpm.NewVersion(text), nil }, rpm.Version.Compare)
)

// schemes are the ecosystems by the types of package URLs.
var schemes = map[string]parser{
	"alpine":   alpine,
	"apk":      alpine,
	"cargo":    semantic,
	"composer": parts,
	"conan":    parts,
	"deb":      debian,
	"gem":      of(gem.NewVersion, gem.Version.Compare),
	"generic":  parts,
	"golang":   semantic,
	"hex":      semantic,
	"maven":    of(mvn.NewVersion, mvn.Version.Compare),
	"npm":      semantic,
	"nuget":    parts,
	"pub":      semantic,
	"pypi":     of(pep440.Parse, pep440.Version.Compare),
	"rpm":      redhat,
	"semver":   semantic,
	"swift":    semantic,
}

// Schemes are the ecosystems whose versions can be compared, in alphabetical order.
func Schemes() []string { return slices.Sorted(maps.Keys(schemes)) }
