// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Build metadata follows _, as a tag cannot hold +.
var versionPattern = regexp.MustCompile(`\Av?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:-([0-9A-Za-z.-]+))?(?:_[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\z`)

// versionOf reads a tag as a version of two or three numbers; nil: the tag is none.
func versionOf(tag string) *semver.Version {
	parts := versionPattern.FindStringSubmatch(tag)
	if parts == nil {
		return nil
	}
	var numbers [3]uint64
	for i, part := range parts[1:4] {
		if part == "" {
			continue
		}
		number, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil
		}
		numbers[i] = number
	}
	if parts[4] != "" && !validPrerelease(parts[4]) {
		return nil
	}
	return semver.New(numbers[0], numbers[1], numbers[2], parts[4], "")
}

// validPrerelease holds what Semantic Versioning 2.0.0 asks in its item 9.
func validPrerelease(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		numeric := strings.Trim(part, "0123456789") == ""
		if part == "" || numeric && len(part) > 1 && part[0] == '0' {
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
