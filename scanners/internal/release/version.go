// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"regexp"
	"strings"
)

// Version is the version of a release as its tag in Git has it: v1.2.3 or v1.2.3-rc.1.
type Version string

// semver is semantic versioning 2.0.0 with a v before it, and without build metadata: tags of container registries have no "+".
var semver = regexp.MustCompile(`^v` + number + `\.` + number + `\.` + number + `(-` + word + `(\.` + word + `)*)?$`)

const (
	number = `(0|[1-9]\d*)`
	word   = `(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)`
)

// ParseVersion reads a version.
func ParseVersion(s string) (Version, error) {
	before, _, built := strings.Cut(s, "+")
	switch {
	case s == "":
		return "", fmt.Errorf("VERSION is missing: say which release this is, as in VERSION=v0.2.0")
	case semver.MatchString("v" + s):
		return "", fmt.Errorf("VERSION %q must begin with a v: VERSION=v%s", s, s)
	case built && semver.MatchString(before):
		return "", fmt.Errorf("VERSION %q must not have build metadata: tags of images have no \"+\"", s)
	case !semver.MatchString(s):
		return "", fmt.Errorf("VERSION %q must be a semantic version with a v before it, such as v0.2.0 or v0.2.0-rc.1", s)
	}
	return Version(s), nil
}

// Number is the version without the v, as charts and tags of images have it.
func (v Version) Number() string { return strings.TrimPrefix(string(v), "v") }
