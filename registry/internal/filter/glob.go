// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"regexp"
	"slices"
	"strings"
)

// globs are patterns of which one has to fit.
type globs []*regexp.Regexp

func (g globs) fit(texts ...string) bool {
	return slices.ContainsFunc(g, func(pattern *regexp.Regexp) bool { return slices.ContainsFunc(texts, pattern.MatchString) })
}

// nameGlobs are patterns of the names of repositories: * is any run without /, ? is one that is no /, ** is any run.
func nameGlobs(patterns ...string) globs { return compileGlobs(patterns, "[^/]*", "[^/]") }

// tagGlobs are patterns of tags, which have no /.
func tagGlobs(patterns ...string) globs { return compileGlobs(patterns, ".*", ".") }

func compileGlobs(patterns []string, run, one string) globs {
	replacer := strings.NewReplacer(`\*\*`, ".*", `\*`, run, `\?`, one)
	compiled := make(globs, 0, len(patterns))
	for _, pattern := range patterns {
		compiled = append(compiled, regexp.MustCompile(`\A(?s:`+replacer.Replace(regexp.QuoteMeta(pattern))+`)\z`))
	}
	return compiled
}

// NamePattern tells which names of repositories fit a pattern, as repositories of a Registry has them.
func NamePattern(pattern string) func(name string) bool {
	compiled := nameGlobs(pattern)
	return func(name string) bool { return compiled.fit(name) }
}
