// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"maps"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

// Reason is why a tag is left out.
type Reason string

// The reasons, in the order in which they are asked.
const (
	InvalidTag          Reason = "InvalidTag"
	ReferrerTag         Reason = "ReferrerTag"
	NotListed           Reason = "NotListed"
	NotIncluded         Reason = "NotIncluded"
	Excluded            Reason = "Excluded"
	NotAVersion         Reason = "NotAVersion"
	Prerelease          Reason = "Prerelease"
	OutOfRange          Reason = "OutOfRange"
	ExpressionFalse     Reason = "ExpressionFalse"
	ExpressionError     Reason = "ExpressionError"
	PlatformNotSelected Reason = "PlatformNotSelected"
	TooOld              Reason = "TooOld"
	NotNewest           Reason = "NotNewest"
)

// The codes of warnings that are not reasons.
const (
	InvalidRepository = "InvalidRepository"
	DigestMoved       = "DigestMoved"
	CreatedInFuture   = "CreatedInFuture"
	CreatedUnknown    = "CreatedUnknown"
	NothingSelected   = "NothingSelected"
)

// Tag is what is known of a tag. Zeros are not known.
type Tag struct {
	Name, Digest string
	// Created is the date of the image, FirstSeen when discovery first saw the digest.
	Created, FirstSeen time.Time
	Platforms          []string
	// NoImage: it is known that the tag has none. It is neither selected nor left out, and takes no place of newest.
	NoImage bool
}

// Repository is what a registry has under a name.
type Repository struct {
	// Registry is the host.
	Registry, Name string
	Now            time.Time
	Tags           []Tag
}

// Answer is what of a repository is taken, and why the rest is not.
type Answer struct {
	RepositorySelected bool `json:"repositorySelected"`
	// Rule is the name of the rule in force.
	Rule string `json:"rule,omitempty"`
	// Selected are the tags in byte order.
	Selected []string          `json:"selected"`
	Skipped  map[string]Reason `json:"skipped"`
	// Platforms has the selected platforms of selected tags whose platforms are known, canonical and sorted.
	Platforms map[string][]string `json:"platforms"`
	// Warnings are in the order of their codes.
	Warnings []Warning `json:"warnings"`
	Error    *Error    `json:"error,omitempty"`
}

// Refuse is the answer where the filter is wrong.
func Refuse(err *Error) Answer {
	return Answer{Error: err, Selected: []string{}, Skipped: map[string]Reason{}, Platforms: map[string][]string{}, Warnings: []Warning{}}
}

const (
	// maxFuture is how far a date may be ahead: clocks differ.
	maxFuture = time.Hour
	// Dates before are those of reproducible builds.
	firstYear = 1990
)

// candidate is a tag with what is computed once.
type candidate struct {
	Tag

	// canonical are the platforms.
	canonical []string
	// created is zero where the date is not known or cannot be, date is created or else FirstSeen.
	created, date time.Time
	future        bool
	version       *semver.Version
}

func newCandidate(t Tag, now time.Time) candidate {
	c := candidate{Tag: t, created: t.Created, version: versionOf(t.Name)}
	if t.Created.Before(time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)) {
		c.created = time.Time{}
	} else if t.Created.Sub(now) > maxFuture {
		c.created, c.future = time.Time{}, true
	}
	c.date = c.created
	if c.date.IsZero() {
		c.date = t.FirstSeen
	}
	for _, text := range t.Platforms {
		c.canonical = append(c.canonical, platform.Parse(text).Canonical().String())
	}
	slices.Sort(c.canonical)
	c.canonical = slices.Compact(c.canonical)
	return c
}

// Select judges a repository and its tags. A tag that comes twice counts once.
func (c *Compiled) Select(r Repository) Answer { return c.answer(r, false) }

func newSelection(r Repository) *selection {
	return &selection{repository: r, name: r.Name, answer: Answer{Selected: []string{}, Skipped: map[string]Reason{}, Platforms: map[string][]string{}}}
}

func (c *Compiled) answer(r Repository, namesOnly bool) Answer {
	s := newSelection(r)
	s.namesOnly = namesOnly
	for _, text := range c.invalid {
		s.warnings.add(InvalidRepository, text, invalidRepositoryText)
	}
	s.run(c)
	s.answer.Warnings = s.warnings.sorted()
	return s.answer
}

// selection is one repository while it is judged.
type selection struct {
	repository Repository
	// name is the name under which the repository is stored.
	name     string
	answer   Answer
	warnings warnings
	judgement

	// namesOnly leaves out what is not decided by names alone.
	namesOnly bool
	// whole tells whether tags are taken that no entry names; named are the entries with tags.
	whole bool
	named []entry
	// entries are all that fit the repository.
	entries []entry
	rest    []candidate
}

func (s *selection) run(c *Compiled) {
	if s.begin(c) {
		s.judgeAll()
	}
}

// begin finds what holds for the repository; false: the repository is not selected.
func (s *selection) begin(c *Compiled) bool {
	if s.name != "" && !validName(s.name) {
		s.warnings.add(InvalidRepository, s.name, invalidRepositoryText)
		return false
	}
	names := spellings(s.repository.Registry, s.name)
	s.name = names[0]
	if !s.find(c, names) || c.excluded.fit(names...) {
		return false
	}
	s.judgement = c.base
	for _, rule := range c.rules {
		if !rule.names.fit(names...) {
			continue
		}
		s.answer.Rule, s.judgement = rule.name, rule.judgement
		if rule.skip {
			return false
		}
		break
	}
	s.answer.RepositorySelected = true
	return true
}

// find looks for the entries of a repository.
func (s *selection) find(c *Compiled, names []string) bool {
	s.whole = c.all
	found := c.all
	for _, e := range c.entries {
		if !e.names.fit(names...) {
			continue
		}
		found = true
		s.entries = append(s.entries, e)
		switch {
		case e.tags != nil:
			s.named = append(s.named, e)
		case e.digest == "":
			s.whole = true
		}
	}
	return found
}

func (s *selection) judgeAll() {
	seen := make(map[string]bool, len(s.repository.Tags))
	for _, t := range s.repository.Tags {
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		candidate := newCandidate(t, s.repository.Now)
		reason, failure := s.judge(candidate)
		if failure != nil {
			refused := Refuse(failure)
			refused.RepositorySelected, refused.Rule = true, s.answer.Rule
			s.answer = refused
			return
		}
		if reason != "" {
			s.answer.Skipped[t.Name] = reason
		}
	}
	for _, candidate := range s.takeNewest() {
		s.take(candidate)
	}
	slices.Sort(s.answer.Selected)
	if len(seen) > 0 && len(s.answer.Selected) == 0 {
		s.warnings.add(NothingSelected, "", nothingSelectedText)
	}
}

// judge gives the first reason why a tag is left out; a tag that has none is taken, or waits for newest.
func (s *selection) judge(t candidate) (Reason, *Error) {
	switch {
	case !tagPattern.MatchString(t.Name):
		s.warnings.add(string(InvalidTag), t.Name, invalidTagText)
		return InvalidTag, nil
	case referrerPattern.MatchString(t.Name):
		return ReferrerTag, nil
	}
	named := s.isNamed(t)
	if !named {
		if !s.whole {
			return NotListed, nil
		}
		if reason, failure := s.judgeName(t); reason != "" || failure != nil {
			return reason, failure
		}
	}
	if s.namesOnly {
		s.take(t)
		return "", nil
	}
	if len(t.canonical) > 0 && len(s.selectedPlatforms(t)) == 0 {
		return PlatformNotSelected, nil
	}
	if named {
		s.take(t)
		return "", nil
	}
	return s.judgeAge(t), nil
}

func (s *selection) isNamed(t candidate) bool {
	named := false
	for _, e := range s.named {
		if !e.tags.fit(t.Name) {
			continue
		}
		named = true
		if e.digest != "" && t.Digest != "" && e.digest != t.Digest {
			s.warnings.add(DigestMoved, t.Name, digestMovedText)
		}
	}
	return named
}

func (s *selection) judgeName(t candidate) (Reason, *Error) {
	switch rule := s.tags; {
	case len(rule.include) > 0 && !rule.include.fit(t.Name):
		return NotIncluded, nil
	case rule.exclude.fit(t.Name):
		return Excluded, nil
	}
	if s.tags.versions != nil {
		if reason := s.tags.versions.judge(t.version); reason != "" {
			return reason, nil
		}
	}
	if s.tags.expression == nil || s.namesOnly && s.tags.expression.asks(wordsOfImages...) {
		return "", nil
	}
	holds, err := s.tags.expression.holds(s.repository, s.name, t)
	if err == nil {
		if holds {
			return "", nil
		}
		return ExpressionFalse, nil
	}
	switch s.tags.onError {
	case registryv1alpha1.OnErrorFail:
		return "", &Error{Code: ExpressionFailed, Field: s.tags.field + ".expression", Message: "tag " + t.Name + ": " + err.Error()}
	case registryv1alpha1.OnErrorSelect:
		s.warnings.add(string(ExpressionError), t.Name, err.Error())
		return "", nil
	case registryv1alpha1.OnErrorSkip:
	}
	s.warnings.add(string(ExpressionError), t.Name, err.Error())
	return ExpressionError, nil
}

func (s *selection) judgeAge(t candidate) Reason {
	rule := s.tags
	if rule.maxAge > 0 || rule.newest > 0 && rule.newestBy == registryv1alpha1.NewestByCreated {
		if t.future {
			s.warnings.add(CreatedInFuture, t.Name, createdInFutureText)
		}
		if t.date.IsZero() {
			s.warnings.add(CreatedUnknown, t.Name, createdUnknownText)
		}
	}
	if rule.maxAge > 0 && !t.date.IsZero() && s.repository.Now.Sub(t.date) > rule.maxAge {
		return TooOld
	}
	if t.NoImage {
		return ""
	}
	s.rest = append(s.rest, t)
	return ""
}

func (s *selection) selectedPlatforms(t candidate) []string {
	return slices.DeleteFunc(slices.Clone(t.canonical), func(text string) bool { return !s.platforms.Selects(platform.Parse(text)) })
}

func (s *selection) take(t candidate) {
	s.answer.Selected = append(s.answer.Selected, t.Name)
	if len(t.canonical) > 0 {
		s.answer.Platforms[t.Name] = s.selectedPlatforms(t)
	}
}

// Warning is something odd that does not end anything.
type Warning struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
	// Examples are the first ones, 5 at most.
	Examples []string `json:"examples,omitempty"`
	Message  string   `json:"message,omitempty"`
}

const maxExamples = 5

const (
	invalidRepositoryText = "no name of a repository: write name, name:tag or name@sha256:…, in lower case"
	invalidTagText        = "the registry lists tags that the OCI Distribution Specification does not allow"
	digestMovedText       = "the tag points to another digest than the filter says: the image of that digest is taken"
	createdInFutureText   = "the images are dated more than an hour ahead: these dates are not used"
	createdUnknownText    = "the images have no date: they count as the oldest, and none of them is too old"
	nothingSelectedText   = "there are tags, and the filter leaves all of them out: see why in skipped"
)

// warnings are counted by code.
type warnings map[string]*Warning

func (w *warnings) add(code, example, message string) {
	if *w == nil {
		*w = warnings{}
	}
	known := (*w)[code]
	if known == nil {
		known = &Warning{Code: code, Message: message}
		(*w)[code] = known
	}
	known.Count++
	if example != "" && len(known.Examples) < maxExamples {
		known.Examples = append(known.Examples, example)
	}
}

func (w warnings) sorted() []Warning {
	list := make([]Warning, 0, len(w))
	for _, code := range slices.Sorted(maps.Keys(w)) {
		list = append(list, *w[code])
	}
	return list
}
