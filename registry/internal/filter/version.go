// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// versionOf reads a tag as a version of two or three numbers; nil: the tag is none. It reads by hand: most of the time of a filter went to
// a regular expression here.
func versionOf(tag string) *semver.Version {
	// Build metadata follows _, as a tag cannot hold +.
	rest, build, isBuilt := strings.Cut(strings.TrimPrefix(tag, "v"), "_")
	core, prerelease, isPrerelease := strings.Cut(rest, "-")
	if isBuilt && !validIdentifiers(build) || isPrerelease && !validPrerelease(prerelease) {
		return nil
	}
	var numbers [3]uint64
	i := 0
	for part := range strings.SplitSeq(core, ".") {
		number, err := strconv.ParseUint(part, 10, 64) // it takes digits alone: no sign, no underscore
		if err != nil || i == len(numbers) {
			return nil
		}
		numbers[i] = number
		i++
	}
	if i < minNumbers {
		return nil
	}
	return semver.New(numbers[0], numbers[1], numbers[2], prerelease, "")
}

// minNumbers are the numbers that a version has at least.
const minNumbers = 2

// validIdentifiers holds what Semantic Versioning 2.0.0 asks of build metadata: parts of letters, digits and hyphens, none empty.
func validIdentifiers(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			return false
		}
	}
	return true
}

// validPrerelease holds what Semantic Versioning 2.0.0 asks in its item 9.
func validPrerelease(text string) bool {
	if !validIdentifiers(text) {
		return false
	}
	for part := range strings.SplitSeq(text, ".") {
		numeric := strings.Trim(part, "0123456789") == ""
		if numeric && len(part) > 1 && part[0] == '0' {
			return false
		}
	}
	return true
}

// versions is the rule semver of a filter, ready to use.
type versions struct {
	constraint  *semver.Constraints
	prereleases bool
}

func newVersions(text string, prereleases bool) (*versions, error) {
	if strings.TrimSpace(text) == "" {
		text = "*"
	}
	constraint, err := semver.NewConstraint(text)
	if err != nil {
		return nil, err
	}
	constraint.IncludePrerelease = true // they are compared in order; whether they are taken is asked before
	return &versions{constraint: constraint, prereleases: prereleases}, nil
}

// judge gives the reason why a tag is left out; "": the tag is taken.
func (v *versions) judge(version *semver.Version) Reason {
	switch {
	case version == nil:
		return NotAVersion
	case version.Prerelease() != "" && !v.prereleases:
		return Prerelease
	case !v.constraint.Check(version):
		return OutOfRange
	}
	return ""
}
