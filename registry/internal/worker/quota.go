// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/results"
)

const quotaText = "the namespace has as many as it may have: the newest ones were taken; narrow the filter, or ask for a wider quota"

// quotas of a namespace: those of the installation, or of its settings where these are tighter.
func (w *Worker) quotas(b *queue.Bounds) (repositories, images int64) {
	repositories, images = w.Config.Quotas.Repositories, w.Config.Quotas.Images
	if b == nil {
		return repositories, images
	}
	if b.Repositories > 0 {
		repositories = min(repositories, b.Repositories)
	}
	if b.Images > 0 {
		images = min(images, b.Images)
	}
	return repositories, images
}

// keepToQuota leaves out new Images that the namespace may not have: the oldest ones. Images that are there stay.
func (r *reading) keepToQuota(ctx context.Context, found *discovery.Result, changes *results.Changes) error {
	if len(changes.Create) == 0 {
		return nil
	}
	_, quota := r.w.quotas(r.h.d.Bounds)
	present, err := r.present(ctx, quota-int64(len(changes.Create)+len(changes.Change)))
	if err != nil {
		return err
	}
	for _, c := range changes.Change {
		i := slices.IndexFunc(r.images, func(known reportsv1.Image) bool { return known.Name == c.Name })
		switch was := r.images[i].Status.Presence; {
		case c.Presence == reportsv1.ImagePresent:
			present++
		case was == reportsv1.ImagePresent:
			present--
		}
	}
	room := max(quota-present, 0)
	if int64(len(changes.Create)) <= room {
		return nil
	}
	slices.SortStableFunc(changes.Create, newestFirst)
	left := changes.Create[room:]
	changes.Create = changes.Create[:room]
	warning := filter.Warning{Code: warningQuota, Count: len(left), Message: quotaText}
	out := map[string]bool{}
	for _, image := range left {
		out[image.Name] = true
		if example := image.Spec.Tag; len(warning.Examples) < maxQuotaExamples && !slices.Contains(warning.Examples, example) {
			warning.Examples = append(warning.Examples, example)
		}
	}
	found.Warnings = append(found.Warnings, warning)
	nameOf := nameIn(string(r.a.registry.UID), r.repository.Spec.Repository)
	for i := range found.Tags {
		t := &found.Tags[i]
		t.Images = slices.DeleteFunc(slices.Clone(t.Images), func(image discovery.Image) bool { return out[nameOf(*t, image)] })
		if t.Selected && len(t.Images) == 0 {
			t.Selected, t.Reason = false, discovery.OverQuota
		}
	}
	return nil
}

// present counts the Images of the namespace that registries have now. Those that have left count, too, where all together are so few.
func (r *reading) present(ctx context.Context, few int64) (int64, error) {
	count, err := r.w.Reports.Count(ctx, r.h.seen.namespace, reportsclient.Images)
	if err != nil || count <= few {
		return count, err
	}
	count = 0
	selector := reportsclient.Selector("status.presence", string(reportsv1.ImagePresent))
	err = reportsclient.List(ctx, r.w.Reports, r.h.seen.namespace, reportsclient.Images, selector, func(*metav1.PartialObjectMetadata) error {
		count++
		return nil
	})
	return count, err
}

const maxQuotaExamples = 5

// newestFirst puts images without a date last.
func newestFirst(a, b reportsv1.Image) int {
	if c := dateOf(b).Compare(dateOf(a)); c != 0 {
		return c
	}
	return strings.Compare(b.Spec.Tag, a.Spec.Tag)
}

func dateOf(i reportsv1.Image) time.Time { return timeOf(i.Spec.Created) }
