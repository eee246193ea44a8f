// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"slices"
	"strings"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/exception/vers"
)

// VersionRange is a set of versions of one package, in the notation of package vers without its scheme, which is the
// type of the package: ">=2.0.0|<2.17.1". A comma may stand for |. The empty range has all versions.
type VersionRange string

func (r VersionRange) of(packageType string) (*vers.Range, error) {
	return vers.Parse("vers:" + packageType + "/" + strings.ReplaceAll(string(r), ",", "|"))
}

// Check tells what is wrong with a range of a type; without a type, of every type.
func (r VersionRange) Check(packageType string) error {
	if packageType != "" {
		return r.CheckTypes(packageType)
	}
	// Maven and RPM take any text for a version, so that a mistyped range would be one of theirs, with nothing in it.
	if !slices.ContainsFunc(r.constraints(), withoutDigit) && r.CheckTypes(vers.Schemes()...) == nil {
		return nil
	}
	return errors.New(`must be a version, or comparisons with | between them, such as ">=2.0.0|<2.17.1"`)
}

// CheckTypes tells why a range is one of none of the types; without types there is nothing to tell.
func (r VersionRange) CheckTypes(packageTypes ...string) error {
	var wrong error
	for _, packageType := range packageTypes {
		_, err := r.of(packageType)
		if err == nil {
			return nil
		}
		if wrong == nil {
			wrong = err
		}
	}
	return wrong
}

func (r VersionRange) constraints() []string {
	return strings.FieldsFunc(string(r), func(c rune) bool { return c == '|' || c == ',' })
}

func withoutDigit(text string) bool {
	return !strings.ContainsAny(text, "0123456789") && strings.TrimSpace(text) != "*"
}

// Takes returns those versions of a package's type that are in the range. Where versions of the type cannot be compared,
// or the range has versions that are none of the type, there are none.
func (r VersionRange) Takes(packageType string, versions []string) (taken []string) {
	wanted, err := r.of(packageType)
	if err != nil {
		return nil
	}
	for _, version := range versions {
		if in, err := wanted.Contains(version); err == nil && in {
			taken = append(taken, version)
		}
	}
	return taken
}

// takesRow tells whether the package of a finding is in the range.
func (r VersionRange) takesRow(row *reportsv1.FindingRow) bool {
	return r == "" || row.Package != nil && len(r.Takes(row.Package.Type, []string{row.Package.Version})) > 0
}
