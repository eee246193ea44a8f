// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"maps"
	"slices"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// maxPreview are told, of each list.
const maxPreview = 100

// forgetful stores nothing.
type forgetful struct{}

// Checkpoint implements discovery.Store.
func (forgetful) Checkpoint(context.Context, discovery.Checkpoint) error { return nil }

// dryRun looks at all repositories of a job, writes nothing, and tells the controller what the filter takes.
func (w *Worker) dryRun(ctx context.Context, d *queue.Delivery, a around) (back bool) {
	e := endedOf(d, d.Items[0].Name)
	c := a.circumstances(d, w.Clock.Now())
	if c.registryGone || a.task.gone || a.task.cancel {
		e.Outcome, e.Row = queue.Passed, "Deleted"
		w.say(e)
		return false
	}
	status, err := w.preview(ctx, d, a)
	v := judge(err, context.Cause(ctx))
	e.Row, e.Outcome, e.Reason, e.Host = "DryRun", outcomes[v.outcome], v.reason, hostOf(a.registry)
	e.RetryAfterSeconds = int64(v.waitUntil(w.Clock.Now()).Seconds())
	if err != nil {
		w.Log.Info("a dry run has not ended well", "job", d.Job.Name, "namespace", d.Namespace, "error", err)
	}
	// What was found before a failure is told, too.
	e.Preview = status
	w.say(e)
	return v.outcome == item.GivenBack && w.isDraining()
}

func (w *Worker) preview(ctx context.Context, d *queue.Delivery, a around) (*registryv1alpha1.DiscoveryJobStatus, error) {
	compiled, err := a.filterOf()
	if err != nil {
		return nil, err
	}
	s, err := w.open(ctx, a.registry, d)
	if err != nil {
		return nil, err
	}
	defer s.close()
	status := &registryv1alpha1.DiscoveryJobStatus{
		Repositories: &registryv1alpha1.RepositoryCounts{}, Tags: &registryv1alpha1.TagCounts{ByReason: map[string]int64{}},
		Images: &registryv1alpha1.FoundImages{}, Preview: &registryv1alpha1.Preview{},
	}
	warnings := map[string]*registryv1alpha1.Warning{}
	found, err := w.namesOf(ctx, s, a.registry, a.task.repositories, compiled)
	if err != nil {
		return status, err
	}
	status.Repositories.Total = int64(len(found.listed))
	// A catalogue has any order, and previews are compared.
	for _, name := range slices.Sorted(slices.Values(found.listed)) {
		result, err := discovery.Discover(ctx, discovery.Input{
			Registry: s.host, Repository: name, Filter: compiled, ImmutableTags: a.registry.Spec.ImmutableTags,
			MaxImageBytes: limitsOf(a.registry).CompressedBytes, Parallel: parallel, Now: w.Clock.Now,
		}, s, forgetful{})
		if ctx.Err() != nil {
			return status, err
		}
		if err != nil {
			status.Repositories.Failed++
			addWarning(warnings, filter.Warning{Code: judge(err, nil).reason, Count: 1, Examples: []string{name}})
			continue
		}
		status.Repositories.Done++
		addPreview(status, name, result)
		for _, warning := range result.Warnings {
			addWarning(warnings, warning)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(warnings)) {
		if len(status.Warnings) < maxWarnings {
			status.Warnings = append(status.Warnings, *warnings[code])
		}
	}
	status.Requests = &registryv1alpha1.RequestCounts{Head: s.heads.Load(), Get: s.gets.Load()}
	return status, nil
}

func addWarning(warnings map[string]*registryv1alpha1.Warning, w filter.Warning) {
	if warnings[w.Code] == nil {
		warnings[w.Code] = &registryv1alpha1.Warning{Code: w.Code}
	}
	const maxExamples = 5
	into := warnings[w.Code]
	into.Count += int64(w.Count)
	into.Examples = append(into.Examples, w.Examples[:min(len(w.Examples), maxExamples-len(into.Examples))]...)
}

// addPreview adds what was found in a repository.
func addPreview(status *registryv1alpha1.DiscoveryJobStatus, name string, found discovery.Result) {
	for _, t := range found.Tags {
		status.Tags.Listed++
		reference := name + ":" + t.Name
		if t.Name == "" {
			reference = name + "@" + t.Digest
		}
		if t.Selected {
			status.Tags.Selected++
			status.Images.Found += int64(len(t.Images))
			if len(status.Preview.Selected) < maxPreview {
				status.Preview.Selected = append(status.Preview.Selected, reference)
			}
			continue
		}
		status.Tags.Skipped++
		status.Tags.ByReason[t.Reason]++
		if len(status.Preview.Skipped) < maxPreview {
			status.Preview.Skipped = append(status.Preview.Skipped, registryv1alpha1.SkippedTag{Tag: reference, Reason: t.Reason})
		}
	}
}

// sorted are the keys in their order.
func sorted[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
