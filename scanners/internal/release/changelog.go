// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNothingNew says that the changelog has nothing that a release could tell.
var ErrNothingNew = errors.New("CHANGELOG.md has nothing under \"## Unreleased\": there is nothing to release")

// section is a heading of the second level with its text, up to the next one.
var section = regexp.MustCompile(`(?m)^## .*$`)

// notes returns the text of a version's section, or false if the changelog has no section of the version.
func notes(changelog string, v Version) (string, bool) {
	for heading, text := range sections(changelog) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(heading, "## "), " "); strings.Trim(name, "[]") == v.Number() {
			return text, true
		}
	}
	return "", false
}

// sections goes through the headings of the second level and their texts.
func sections(changelog string) func(yield func(heading, text string) bool) {
	return func(yield func(heading, text string) bool) {
		at := section.FindAllStringIndex(changelog, -1)
		for i, a := range at {
			end := len(changelog)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			if !yield(changelog[a[0]:a[1]], strings.TrimSpace(changelog[a[1]:end])) {
				return
			}
		}
	}
}

// settle makes what is unreleased the section of a version, and leaves an empty Unreleased above.
func settle(changelog string, v Version, date string) (string, error) {
	for heading, text := range sections(changelog) {
		if !strings.EqualFold(strings.Trim(strings.TrimPrefix(heading, "## "), "[] "), "unreleased") {
			continue
		}
		if text == "" {
			return "", ErrNothingNew
		}
		return strings.Replace(changelog, heading, fmt.Sprintf("%s\n\n## %s - %s", heading, v.Number(), date), 1), nil
	}
	return "", ErrNothingNew
}
