// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

// Code names what is wrong with a filter.
type Code string

// The codes of an Error.
const (
	ExpressionInvalid Code = "ExpressionInvalid"
	// ExpressionFailed is the code where an expression ended with an error and onError is Fail.
	ExpressionFailed Code = "ExpressionError"
	RangeInvalid     Code = "RangeInvalid"
	DurationInvalid  Code = "DurationInvalid"
	NewestInvalid    Code = "NewestInvalid"
	PlatformInvalid  Code = "PlatformInvalid"
)

// Error is what is wrong with a filter, in which field.
type Error struct {
	Code    Code   `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error gives field and message.
func (e *Error) Error() string { return e.Field + ": " + e.Message }

// Compiled is a filter that is ready to use. Several goroutines may use it at once.
type Compiled struct {
	entries []entry
	// invalid are those of repositories that are not names.
	invalid  []string
	all      bool
	excluded globs
	base     judgement
	rules    []rule
}

type rule struct {
	name  string
	names globs
	skip  bool
	judgement
}

// judgement is what holds for the tags of a repository.
type judgement struct {
	platforms platform.Filter
	tags      *tags
}

// tags is a TagFilter that is ready to use. Its field is the place in the filter, for errors.
type tags struct {
	field            string
	include, exclude globs
	versions         *versions
	expression       *expression
	onError          registryv1alpha1.OnError
	maxAge           time.Duration
	newest           int
	newestBy         registryv1alpha1.NewestBy
}

// Compile makes a filter ready to use. The error names the first field that is wrong.
func Compile(f registryv1alpha1.Filter) (*Compiled, *Error) {
	c := &Compiled{all: len(f.Repositories) == 0, excluded: nameGlobs(f.ExcludeRepositories...)}
	for _, text := range f.Repositories {
		if e, valid := parseEntry(text); valid {
			c.entries = append(c.entries, e)
		} else {
			c.invalid = append(c.invalid, text)
		}
	}
	environment, err := newEnvironment()
	if err != nil {
		return nil, &Error{Code: ExpressionInvalid, Field: "tags.expression", Message: err.Error()}
	}
	base, failure := compileJudgement(environment, "", f.Platforms, f.Tags)
	if failure != nil {
		return nil, failure
	}
	c.base = base
	for i, r := range f.Rules {
		compiled, failure := compileJudgement(environment, fmt.Sprintf("rules[%d].", i), r.Platforms, r.Tags)
		if failure != nil {
			return nil, failure
		}
		// What the rule sets replaces that of the filter as a whole.
		if len(r.Platforms) == 0 {
			compiled.platforms = base.platforms
		}
		if r.Tags == nil {
			compiled.tags = base.tags
		}
		c.rules = append(c.rules, rule{name: r.Name, names: nameGlobs(r.Repositories...), skip: r.Skip, judgement: compiled})
	}
	return c, nil
}

func compileJudgement(environment *cel.Env, field string, platforms []string, f *registryv1alpha1.TagFilter) (judgement, *Error) {
	selected, err := platform.NewFilter(platforms)
	if err != nil {
		return judgement{}, &Error{Code: PlatformInvalid, Field: field + "platforms", Message: err.Error()}
	}
	if f == nil {
		f = &registryv1alpha1.TagFilter{}
	}
	compiled, failure := compileTags(environment, field+"tags", *f)
	return judgement{platforms: selected, tags: compiled}, failure
}

func compileTags(environment *cel.Env, field string, f registryv1alpha1.TagFilter) (*tags, *Error) {
	t := &tags{field: field, include: tagGlobs(f.Include...), exclude: tagGlobs(f.Exclude...), onError: f.OnError, newestBy: f.NewestBy}
	if f.Newest != nil {
		if *f.Newest < 1 {
			return nil, &Error{Code: NewestInvalid, Field: field + ".newest", Message: fmt.Sprintf("%d is too few: it must be at least 1", *f.Newest)}
		}
		t.newest = int(*f.Newest)
	}
	if t.newestBy == "" {
		t.newestBy = registryv1alpha1.NewestByCreated
	}
	rule := f.SemVer
	if rule == nil && t.newest > 0 && t.newestBy == registryv1alpha1.NewestBySemVer {
		rule = &registryv1alpha1.SemVer{}
	}
	var err error
	if rule != nil {
		if t.versions, err = newVersions(rule.Range, rule.Prereleases); err != nil {
			return nil, &Error{Code: RangeInvalid, Field: field + ".semver.range", Message: fmt.Sprintf("%q is not a range of versions: %v", rule.Range, err)}
		}
	}
	if f.Expression != "" {
		if t.expression, err = newExpression(environment, f.Expression); err != nil {
			return nil, &Error{Code: ExpressionInvalid, Field: field + ".expression", Message: err.Error()}
		}
	}
	if f.MaxAge != "" {
		if t.maxAge, err = ParseDuration(f.MaxAge); err != nil {
			return nil, &Error{Code: DurationInvalid, Field: field + ".maxAge", Message: err.Error()}
		}
	}
	return t, nil
}

var (
	durationPattern = regexp.MustCompile(`\A(?:[0-9]+(?:ms|s|m|h|d|w))+\z`)
	durationPart    = regexp.MustCompile(`([0-9]+)(ms|s|m|h|d|w)`)
	durationUnits   = map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	}
)

// ParseDuration reads numbers with units, such as 1w2d.
func ParseDuration(text string) (time.Duration, error) {
	if !durationPattern.MatchString(text) {
		return 0, fmt.Errorf("%q is not a duration: write numbers with the units ms, s, m, h, d or w, such as 14d", text)
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllStringSubmatch(text, -1) {
		number, err := strconv.ParseInt(part[1], 10, 64)
		unit := durationUnits[part[2]]
		if err != nil || number > int64((1<<63-1-sum)/unit) {
			return 0, fmt.Errorf("%q is too long: the longest duration is about 292 years", text)
		}
		sum += time.Duration(number) * unit
	}
	if sum == 0 {
		return 0, fmt.Errorf("%q is not a time at all: it must be more than zero", text)
	}
	return sum, nil
}
