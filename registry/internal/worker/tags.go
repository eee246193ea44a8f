// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/results"
)

// remembered gives what is stored of tags to discovery. The first seen ones were seen by the discovery that was broken off. Images whose
// object is gone are not known: their digests are read again.
func remembered(stored []reportsv1.Tag, images map[string]*reportsv1.Image, seen int64) []discovery.Tag {
	tags := make([]discovery.Tag, 0, len(stored))
	for i, s := range stored {
		t := discovery.Tag{
			Name: s.Tag, Digest: s.Digest, MediaType: s.MediaType, ETag: s.ETag, Created: timeOf(s.Created), FirstSeen: timeOf(s.FirstSeen), Platforms: s.Platforms,
			Selected: s.Selected, Reason: s.Reason, Seen: int64(i) < seen,
		}
		for _, name := range s.Images {
			if image := images[name]; image != nil {
				t.Images = append(t.Images, discovery.Image{Digest: image.Spec.Digest, Platform: image.Spec.Platform})
			}
		}
		tags = append(tags, t)
	}
	return tags
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func metaTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// stored gives tags to the reports API: those that this discovery has seen stand first. names are those of the Images of an image.
func stored(tags []discovery.Tag, nameOf func(tag discovery.Tag, image discovery.Image) string) (list []reportsv1.Tag, seen int64) {
	ordered := slices.Clone(tags)
	slices.SortStableFunc(ordered, func(a, b discovery.Tag) int {
		switch {
		case a.Seen == b.Seen:
			return 0
		case a.Seen:
			return -1
		}
		return 1
	})
	for _, t := range ordered {
		if t.Seen {
			seen++
		}
		s := reportsv1.Tag{
			Tag: t.Name, Digest: t.Digest, MediaType: t.MediaType, ETag: t.ETag, Created: metaTime(t.Created), FirstSeen: metaTime(t.FirstSeen), Platforms: t.Platforms,
			Selected: t.Selected, Reason: t.Reason,
		}
		for _, image := range t.Images {
			s.Images = append(s.Images, nameOf(t, image))
		}
		list = append(list, s)
	}
	return list, seen
}

// nameIn gives the names of Images of a repository.
func nameIn(registryUID, repository string) func(discovery.Tag, discovery.Image) string {
	return func(t discovery.Tag, i discovery.Image) string {
		return results.ImageName(registryUID, results.ImageID{Repository: repository, Tag: t.Name, Digest: i.Digest, Platform: i.Platform})
	}
}

// doneStatus is the status of a repository that has been read.
func doneStatus(before reportsv1.RepositoryStatus, found discovery.Result, generation int64, now time.Time) reportsv1.RepositoryStatus {
	status := reportsv1.RepositoryStatus{
		State: reportsv1.RepositoryDone, Tags: &reportsv1.TagCounts{}, DiscoveredAt: metaTime(now), FilterGeneration: generation, ETag: before.ETag,
		Warnings: warningsOf(found.Warnings),
	}
	for _, t := range found.Tags {
		status.Tags.Listed++
		if t.Selected {
			status.Tags.Selected++
			continue
		}
		status.Tags.Skipped++
		if status.ByReason == nil {
			status.ByReason = map[string]int64{}
		}
		status.ByReason[t.Reason]++
	}
	for _, w := range found.Warnings {
		if w.Code == discovery.RepositoryGone {
			status.Reason, status.Message = w.Code, w.Message
		}
	}
	if !found.Selected {
		status.Reason = results.ReasonNotSelected
	}
	return status
}

// maxWarnings are kept.
const maxWarnings = 20

func warningsOf(warnings []filter.Warning) []reportsv1.RepositoryWarning {
	var list []reportsv1.RepositoryWarning
	for _, w := range warnings[:min(len(warnings), maxWarnings)] {
		list = append(list, reportsv1.RepositoryWarning{Code: w.Code, Count: int64(w.Count), Examples: w.Examples})
	}
	return list
}
