// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

// The codes of warnings that come from the asking.
const (
	NoHead         = "NoHead"
	RepositoryGone = "RepositoryGone"
	// OverQuota is the reason of a tag whose images the namespace may not have: who stores the Result writes that.
	OverQuota = "QuotaExceeded"
)

// Source is where a repository is; *distribution.Client is one. Its errors are those of the Client.
type Source interface {
	Tags(ctx context.Context, repository, cursor string, take func(distribution.Page) error) (distribution.Listing, error)
	Tag(ctx context.Context, repository, tag string, known distribution.Pointer) (distribution.Pointer, bool, error)
	Manifest(ctx context.Context, repository, digest string) (manifest.Document, bool, error)
	Config(ctx context.Context, repository, digest string) (manifest.Document, bool, error)
	NoHead() bool
}

// Store keeps what was learned. An error of its ends the discovery.
type Store interface {
	Checkpoint(ctx context.Context, c Checkpoint) error
}

// Checkpoint is what a discovery goes on with: as Input.Known and Input.Cursor.
type Checkpoint struct {
	// Tags are all that are known, those of this discovery with Seen.
	Tags   []Tag
	Cursor string
}

// Tag is what is known of a tag.
type Tag struct {
	// Name is "" for an image that repositories names by digest alone.
	Name, Digest, MediaType, ETag string
	// Created is the date of the images, FirstSeen when discovery first saw the digest.
	Created, FirstSeen time.Time
	// Platforms are all that the tag has, selected or not, canonical and sorted.
	Platforms []string
	Selected  bool
	// Reason is why the tag is not selected: a filter.Reason, or a manifest.Reason where it has no image.
	Reason string
	// Images are those of a selected tag.
	Images []Image
	// Seen is set in checkpoints alone: the discovery that was broken off has seen the tag, and the next one need not ask again.
	Seen bool
}

// Image is an image of a tag.
type Image struct{ Digest, Platform string }

// Input is a repository to look at.
type Input struct {
	// Registry is the host, Repository the name as it is listed.
	Registry, Repository string
	Filter               *filter.Compiled
	// ImmutableTags are patterns of tags that are asked for once.
	ImmutableTags []string
	MaxImageBytes int64
	// Force reads known digests again. FilterChanged: Known is of another filter.
	Force, FilterChanged bool
	Known                []Tag
	// Cursor is where the list of a discovery that was broken off goes on; "" begins at the first tag.
	Cursor string
	// Parallel is how many requests are under way at once.
	Parallel int
	// Now gives the time.
	Now func() time.Time
}

// Result is what a repository has.
type Result struct {
	// Selected: the filter takes the repository. Rule is the one in force, Name the name under which the repository is stored.
	Selected   bool
	Rule, Name string
	// Tags are in the order of their names.
	Tags []Tag
	// Gone are the known tags that the registry has no more.
	Gone []Tag
	// Complete: the list was read to its end.
	Complete bool
	// Resolved has what was read of digests that were not known.
	Resolved map[string]manifest.Answer
	Warnings []filter.Warning
}

// Discover looks at a repository. A list that breaks off gives a Result beside its error; after another error there is no Result. In
// both cases the last checkpoint tells where to go on. A filter that fails on a tag gives a *filter.Error.
func Discover(ctx context.Context, in Input, source Source, store Store) (Result, error) {
	immutable, err := compileGlobs(in.ImmutableTags)
	if err != nil {
		return Result{}, err
	}
	d := in.Filter.Demand(in.Registry, in.Repository)
	r := &run{
		Input: in, source: source, store: store, demand: d, immutable: immutable, tags: map[string]Tag{}, old: map[string]Tag{},
		digests: map[string]resolved{}, answers: map[string]manifest.Answer{}, documents: map[string]manifest.Document{}, now: in.Now(), cursor: in.Cursor,
	}
	if !d.Selected {
		return Result{Rule: d.Rule, Name: d.Name, Complete: true, Gone: in.Known}, nil
	}
	r.remember()
	r.written = r.now
	complete, listErr := r.list(ctx)
	if errors.Is(listErr, errStep) {
		return Result{}, r.breakOff(ctx, listErr)
	}
	if distribution.ReasonOf(listErr) == distribution.RepositoryGone {
		r.warn(RepositoryGone, "", "the registry has no repository of this name any more")
		complete, listErr = true, nil
	}
	result, err := r.finish(ctx, complete)
	switch {
	case err != nil:
		return Result{}, r.breakOff(ctx, errors.Join(listErr, err))
	case listErr != nil:
		return result, r.breakOff(ctx, listErr)
	}
	return result, nil
}

// breakOff writes what was learned, so that the next try goes on there. What ended the discovery may have ended its context, too.
func (r *run) breakOff(ctx context.Context, err error) error {
	return errors.Join(err, r.save(context.WithoutCancel(ctx)))
}

// errStep marks what ended a discovery while tags were asked for, and not the list itself.
var errStep = errors.New("ask for tags")

func compileGlobs(patterns []string) ([]*regexp.Regexp, error) {
	list := make([]*regexp.Regexp, 0, len(patterns))
	for _, pattern := range patterns {
		text := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		compiled, err := regexp.Compile(`\A(?s:` + text + `)\z`)
		if err != nil {
			return nil, fmt.Errorf("read immutableTags: %w", err)
		}
		list = append(list, compiled)
	}
	return list, nil
}

// run is one discovery.
type run struct {
	Input

	source    Source
	store     Store
	demand    filter.Demand
	immutable []*regexp.Regexp
	now       time.Time
	// old are the tags that were known, tags those of this discovery.
	old, tags map[string]Tag
	// pinned are known images without a tag.
	pinned    []Tag
	digests   map[string]resolved
	answers   map[string]manifest.Answer
	documents map[string]manifest.Document
	held      int
	cursor    string
	// learned counts the tags of which something is new since the last write.
	learned  int
	written  time.Time
	warnings []filter.Warning
}

// resolved is what is known of a digest.
type resolved struct {
	created, firstSeen time.Time
	platforms          []string
	images             []Image
	// reason is why there is no image.
	reason string
	// read: date and platforms are known. stored: so are the images, or that there are none.
	read, stored bool
}

// remember takes what is known into the run.
func (r *run) remember() {
	for _, t := range r.Known {
		if t.Seen && t.Name != "" {
			r.tags[t.Name] = t
		}
		t.Seen = false
		if t.Name == "" {
			r.pinned = append(r.pinned, t)
		} else {
			r.old[t.Name] = t
		}
		if t.Digest == "" {
			continue
		}
		known := r.digests[t.Digest]
		if known.firstSeen.IsZero() || !t.FirstSeen.IsZero() && t.FirstSeen.Before(known.firstSeen) {
			known.firstSeen = t.FirstSeen
		}
		if !r.Force {
			r.recall(&known, t)
		}
		r.digests[t.Digest] = known
	}
}

// recall takes what a tag knows of its digest.
func (r *run) recall(known *resolved, t Tag) {
	if slices.Contains(healing, manifest.Reason(t.Reason)) {
		return
	}
	none := isDocumentReason(t.Reason)
	if !none && len(t.Platforms) == 0 && len(t.Images) == 0 {
		return
	}
	known.read, known.created, known.platforms = true, t.Created, t.Platforms
	switch {
	case r.FilterChanged && r.lacks(t):
	case len(t.Images) > 0:
		known.stored, known.images = true, t.Images
	case none:
		known.stored, known.reason = true, t.Reason
	}
}

// lacks tells whether the filter wants a platform of a tag that was not read.
func (r *run) lacks(t Tag) bool {
	return slices.ContainsFunc(t.Platforms, func(text string) bool {
		return r.demand.Platforms.Selects(platform.Parse(text)) && !slices.ContainsFunc(t.Images, func(i Image) bool { return i.Platform == text })
	})
}

// healing are the reasons that may be others the next time.
var healing = []manifest.Reason{manifest.ManifestMissing, manifest.ConfigMissing, manifest.DigestMismatch, OverQuota}

// reasonsOfNames are those of filters that tell nothing of a document. PlatformNotSelected is a reason of both.
var reasonsOfNames = []filter.Reason{
	"", filter.InvalidTag, filter.ReferrerTag, filter.NotListed, filter.NotIncluded, filter.Excluded, filter.NotAVersion, filter.Prerelease,
	filter.OutOfRange, filter.ExpressionFalse, filter.ExpressionError, filter.TooOld, filter.NotNewest,
}

func isDocumentReason(reason string) bool {
	return !slices.Contains(reasonsOfNames, filter.Reason(reason))
}

func (r *run) warn(code, example, message string) {
	i := slices.IndexFunc(r.warnings, func(w filter.Warning) bool { return w.Code == code })
	if i < 0 {
		i = len(r.warnings)
		r.warnings = append(r.warnings, filter.Warning{Code: code, Message: message})
	}
	w := &r.warnings[i]
	w.Count++
	const maxExamples = 5
	if example != "" && len(w.Examples) < maxExamples {
		w.Examples = append(w.Examples, example)
	}
}

// finish judges the tags, reads the images of those that are selected, and says what is gone.
func (r *run) finish(ctx context.Context, complete bool) (Result, error) {
	answer, err := r.settle(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Selected: true, Rule: r.demand.Rule, Name: r.demand.Name, Complete: complete, Resolved: r.answers, Tags: []Tag{}}
	for _, name := range slices.Sorted(maps.Keys(r.tags)) {
		result.Tags = append(result.Tags, r.place(r.tags[name], answer))
	}
	result.Tags = append(r.pins(result.Tags), result.Tags...)
	if complete {
		result.Gone = r.gone()
	}
	if r.source.NoHead() {
		r.warn(NoHead, "", "the registry does not tell digests by HEAD: each tag costs a GET")
	}
	result.Warnings = slices.Concat(answer.Warnings, r.warnings)
	slices.SortStableFunc(result.Warnings, func(a, b filter.Warning) int { return cmp.Compare(a.Code, b.Code) })
	return result, nil
}

// settle asks the filter, and reads the images of what is selected, until nothing is selected that was not read: what turns out to
// have no image makes place for another one.
func (r *run) settle(ctx context.Context) (filter.Answer, error) {
	for {
		answer := r.judge()
		if answer.Error != nil {
			return answer, answer.Error
		}
		var wanted []string
		for _, name := range answer.Selected {
			if !slices.ContainsFunc(r.demand.Pins, func(p filter.Pin) bool { return p.Tag == name }) {
				wanted = append(wanted, r.tags[name].Digest)
			}
		}
		for _, pin := range r.demand.Pins {
			wanted = append(wanted, pin.Digest)
		}
		wanted = slices.DeleteFunc(wanted, func(digest string) bool { return digest == "" || r.digests[digest].stored })
		if len(wanted) == 0 {
			return answer, nil
		}
		if err := r.resolve(ctx, wanted, func(known resolved) bool { return known.stored }); err != nil {
			return answer, err
		}
	}
}

// judge asks the filter.
func (r *run) judge() filter.Answer {
	repository := filter.Repository{Registry: r.Registry, Name: r.Repository, Now: r.now}
	for _, name := range slices.Sorted(maps.Keys(r.tags)) {
		t := r.tags[name]
		known := r.digests[t.Digest]
		tag := filter.Tag{
			Name: name, Digest: t.Digest, Created: known.created, FirstSeen: known.firstSeen, Platforms: known.platforms, NoImage: known.reason != "",
		}
		if t.Digest == "" {
			tag.FirstSeen = time.Time{}
		}
		repository.Tags = append(repository.Tags, tag)
	}
	return r.Filter.Select(repository)
}

// place writes what was decided into a tag.
func (r *run) place(t Tag, answer filter.Answer) Tag {
	t = r.describe(t)
	t.Selected, t.Seen = true, false
	if reason, skipped := answer.Skipped[t.Name]; skipped {
		t.Selected, t.Reason, t.Images = false, string(reason), nil
		return t
	}
	return r.imagesOf(t)
}

// describe writes what is known of its digest into a tag.
func (r *run) describe(t Tag) Tag {
	known := r.digests[t.Digest]
	t.Created, t.FirstSeen, t.Platforms, t.Images, t.Reason = known.created, known.firstSeen, known.platforms, nil, ""
	for _, image := range known.images {
		if r.demand.Platforms.Selects(platform.Parse(image.Platform)) {
			t.Images = append(t.Images, image)
		}
	}
	return t
}

// imagesOf makes a tag without images a tag that is left out.
func (r *run) imagesOf(t Tag) Tag {
	if len(t.Images) > 0 {
		return t
	}
	t.Selected, t.Reason = false, r.digests[t.Digest].reason
	if t.Reason == "" {
		t.Reason = string(manifest.PlatformNotSelected)
	}
	switch manifest.Reason(t.Reason) {
	case manifest.PlatformNotSelected, manifest.Attestation, manifest.Artifact, manifest.Referrer:
	default:
		r.warn(t.Reason, cmp.Or(t.Name, t.Digest), "documents of the registry are not as the OCI Image Specification wants them, or not there")
	}
	return t
}

// pins gives the images that repositories names by digest alone, and sets the digests of those that it names with a tag.
func (r *run) pins(tags []Tag) []Tag {
	var list []Tag
	for _, pin := range r.demand.Pins {
		t := r.describe(Tag{Name: pin.Tag, Digest: pin.Digest, Selected: true})
		t = r.imagesOf(t)
		i := slices.IndexFunc(tags, func(known Tag) bool { return pin.Tag != "" && known.Name == pin.Tag })
		if i >= 0 {
			tags[i] = t
		} else {
			list = append(list, t)
		}
	}
	return list
}

// gone gives the known tags that this discovery has not seen.
func (r *run) gone() []Tag {
	var list []Tag
	for _, name := range slices.Sorted(maps.Keys(r.old)) {
		if _, there := r.tags[name]; !there && !slices.ContainsFunc(r.demand.Pins, func(p filter.Pin) bool { return p.Tag == name }) {
			list = append(list, r.old[name])
		}
	}
	for _, t := range r.pinned {
		if !slices.ContainsFunc(r.demand.Pins, func(p filter.Pin) bool { return p.Tag == "" && p.Digest == t.Digest }) {
			list = append(list, t)
		}
	}
	return list
}
