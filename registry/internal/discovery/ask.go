// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

const (
	// A checkpoint is written after that many tags of which something is new, or after that time.
	checkpointTags = 1000
	checkpointTime = 30 * time.Second
	// maxHeld bounds the documents that are kept because HEAD is refused; the others are fetched again.
	maxHeld = 16 << 20

	annotationCreated = "org.opencontainers.image.created"
)

// list asks for the tags of the repository, page by page. complete: to the end of the list.
func (r *run) list(ctx context.Context) (complete bool, err error) {
	if !r.demand.List {
		return true, r.take(ctx, r.named())
	}
	listing, err := r.source.Tags(ctx, r.Repository, r.Cursor, func(p distribution.Page) error {
		if err := r.take(ctx, p.Names); err != nil {
			return err
		}
		r.cursor = p.Cursor
		return r.checkpoint(ctx)
	})
	if listing.Code != "" {
		r.warn(listing.Code, "", "the list of tags ended early: nothing is taken for gone")
	}
	return listing.Complete, err
}

// named gives the tags that repositories names, where nothing else is wanted.
func (r *run) named() []string {
	names := slices.Clone(r.demand.Tags)
	for _, pin := range r.demand.Pins {
		if pin.Tag != "" {
			names = append(names, pin.Tag)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// take looks at tags of a page, a thousand at a time. Who called writes what was learned of the last ones.
func (r *run) take(ctx context.Context, names []string) error {
	for part := range slices.Chunk(names, checkpointTags) {
		if err := r.checkpoint(ctx); err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(part), func(name string) bool {
			_, done := r.tags[name]
			return done
		})
		if err := r.ask(ctx, fresh); err != nil {
			return fmt.Errorf("%w: %w", errStep, err)
		}
	}
	return nil
}

// ask finds out where tags point to, and what is there if the filter needs that.
func (r *run) ask(ctx context.Context, names []string) error {
	repository := filter.Repository{Registry: r.Registry, Name: r.Repository, Now: r.now}
	for _, name := range names {
		repository.Tags = append(repository.Tags, filter.Tag{Name: name})
	}
	answer := r.Filter.ByName(repository)
	// A filter that fails says so again at the end, where the Result tells it.
	var wanted []string
	for _, name := range names {
		old := r.old[name]
		reason, skipped := answer.Skipped[name]
		switch {
		case skipped || answer.Error != nil:
			r.note(Tag{Name: name, Reason: string(reason)})
		case old.Digest != "" && !r.Force && r.isImmutable(name):
			r.note(Tag{Name: name, Digest: old.Digest, MediaType: old.MediaType, ETag: old.ETag})
		default:
			wanted = append(wanted, name)
		}
	}
	if err := r.point(ctx, wanted); err != nil {
		return err
	}
	if !r.demand.Images {
		return nil
	}
	var digests []string
	for _, name := range wanted {
		digests = append(digests, r.tags[name].Digest)
	}
	return r.resolve(ctx, digests, func(known resolved) bool { return known.read })
}

func (r *run) isImmutable(name string) bool {
	for _, glob := range r.immutable {
		if glob.MatchString(name) {
			return true
		}
	}
	return false
}

// point asks where tags point to.
func (r *run) point(ctx context.Context, names []string) error {
	var mutex sync.Mutex
	return Each(ctx, r.Parallel, names, func(ctx context.Context, name string) error {
		old := r.old[name]
		pointer, found, err := r.source.Tag(ctx, r.Repository, name, distribution.Pointer{Digest: old.Digest, MediaType: old.MediaType, ETag: old.ETag})
		if err != nil || !found {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		r.note(Tag{Name: name, Digest: pointer.Digest, MediaType: pointer.MediaType, ETag: pointer.ETag})
		if pointer.Document != nil && r.held+len(pointer.Document.Body) <= maxHeld && !r.digests[pointer.Digest].read {
			r.documents[pointer.Digest] = *pointer.Document
			r.held += len(pointer.Document.Body)
		}
		return nil
	})
}

// note takes a tag into this discovery.
func (r *run) note(t Tag) {
	t.Seen = true
	old, known := r.old[t.Name]
	if !known || old.Digest != t.Digest {
		r.learned++
	}
	r.tags[t.Name] = t
	if t.Digest != "" && r.digests[t.Digest].firstSeen.IsZero() {
		d := r.digests[t.Digest]
		d.firstSeen = r.now
		r.digests[t.Digest] = d
	}
}

// resolve reads the images of digests of which not enough is known.
func (r *run) resolve(ctx context.Context, digests []string, enough func(resolved) bool) error {
	digests = slices.DeleteFunc(slices.Clone(digests), func(digest string) bool { return digest == "" || enough(r.digests[digest]) })
	slices.Sort(digests)
	var mutex sync.Mutex
	for part := range slices.Chunk(slices.Compact(digests), checkpointTags) {
		if err := r.checkpoint(ctx); err != nil {
			return err
		}
		err := Each(ctx, r.Parallel, part, func(ctx context.Context, digest string) error {
			mutex.Lock()
			document, held := r.documents[digest]
			delete(r.documents, digest)
			r.held -= len(document.Body)
			mutex.Unlock()
			answer, annotations, err := r.read(ctx, digest, document, held)
			if err != nil {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			r.answers[digest] = answer
			r.digests[digest] = summary(answer, annotations, digest, cmp.Or(r.digests[digest].firstSeen, r.now))
			r.learned++
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read walks from a digest to its images, and gives the dates that annotations tell.
func (r *run) read(ctx context.Context, top string, held manifest.Document, isHeld bool) (manifest.Answer, map[string]time.Time, error) {
	annotations := map[string]time.Time{}
	limits := manifest.Limits{Platforms: r.demand.Platforms, MaxImageBytes: r.MaxImageBytes}
	answer, err := manifest.Images(top, limits, func(part manifest.Part, digest string) (manifest.Document, bool, error) {
		if part == manifest.Blobs {
			return r.source.Config(ctx, r.Repository, digest)
		}
		document, found := held, isHeld && digest == top
		if !found {
			var err error
			if document, found, err = r.source.Manifest(ctx, r.Repository, digest); err != nil {
				return document, found, err
			}
		}
		if date := annotated(document.Body); !date.IsZero() {
			annotations[digest] = date
		}
		return document, found, nil
	})
	return answer, annotations, err
}

// annotated gives the date in the annotations of an index or a manifest; zero: there is none.
func annotated(body []byte) time.Time {
	var document struct {
		Annotations map[string]any `json:"annotations"`
	}
	if len(body) > manifest.MaxDocument || json.Unmarshal(body, &document) != nil {
		return time.Time{}
	}
	text, _ := document.Annotations[annotationCreated].(string)
	date, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return date
}

// summary keeps of an answer what the next discovery needs.
func summary(answer manifest.Answer, annotations map[string]time.Time, top string, firstSeen time.Time) resolved {
	s := resolved{read: true, stored: true, firstSeen: firstSeen}
	platforms := map[string]bool{}
	var annotation time.Time
	for _, image := range answer.Images {
		s.images = append(s.images, Image{Digest: image.Digest, Platform: image.Platform})
		platforms[image.Platform] = true
		if date, err := time.Parse(time.RFC3339Nano, image.Created); err == nil {
			s.created = latest(s.created, date)
		}
		annotation = latest(annotation, annotations[image.Digest])
	}
	s.created = cmp.Or(s.created, annotation, annotations[top])
	for _, skipped := range answer.Skipped {
		if skipped.Platform != "" {
			platforms[skipped.Platform] = true
		}
	}
	s.platforms = slices.Sorted(maps.Keys(platforms))
	if len(answer.Images) == 0 {
		s.reason = reasonOf(answer.Skipped)
	}
	return s
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// reasonOf says why a reference has no image: by the first entry that is not a mere attestation.
func reasonOf(skipped []manifest.Skipped) string {
	for _, s := range skipped {
		if s.Reason != manifest.Attestation {
			return string(s.Reason)
		}
	}
	if len(skipped) > 0 {
		return string(skipped[0].Reason)
	}
	// An index without entries.
	return string(manifest.Artifact)
}

// checkpoint writes what was learned if that is enough.
func (r *run) checkpoint(ctx context.Context) error {
	if r.learned < checkpointTags && r.Now().Sub(r.written) < checkpointTime {
		return nil
	}
	if err := r.save(ctx); err != nil {
		return fmt.Errorf("%w: %w", errStep, err)
	}
	return nil
}

// save writes what was learned, with what was known before of tags that were not looked at yet.
func (r *run) save(ctx context.Context) error {
	c := Checkpoint{Cursor: r.cursor, Tags: slices.Clone(r.pinned)}
	for name, old := range r.old {
		if _, seen := r.tags[name]; !seen {
			c.Tags = append(c.Tags, old)
		}
	}
	for _, t := range r.tags {
		known := r.digests[t.Digest]
		reason := t.Reason
		t = r.describe(t)
		if t.Reason = reason; reason == "" && len(known.images) == 0 {
			t.Reason = known.reason
		}
		if _, fresh := r.answers[t.Digest]; fresh {
			// Nobody has stored these images yet: who goes on reads them again.
			t.Images = nil
		}
		c.Tags = append(c.Tags, t)
	}
	slices.SortFunc(c.Tags, func(a, b Tag) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest)) })
	if err := r.store.Checkpoint(ctx, c); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	r.learned, r.written = 0, r.Now()
	return nil
}

// Each does something for all items, some at once. The first error ends all.
func Each[T any](ctx context.Context, parallel int, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan T)
	var group sync.WaitGroup
	for range min(max(parallel, 1), len(items)) {
		group.Go(func() {
			for item := range next {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
