// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// previousFindings presigns the findings of the previous run, so that hooks can find what is new; ""
// if there is none. The previous run is the last successful run of the same ScheduledScan, and
// otherwise the last successful Scan of the same target.
func (r *Reconciler) previousFindings(ctx context.Context, scan *executionv1.Scan) (string, error) {
	if schedule := executionv1.ScheduleOf(scan); schedule != nil {
		link, err := r.previousRun(ctx, scan, schedule)
		if link != "" || err != nil {
			return link, err
		}
	}
	previous, found, err := r.previousRuns.before(ctx, scan)
	if err != nil || !found {
		return "", err
	}
	return r.store.PresignDownload(ctx, previous, executionv1.FindingsFile, r.expiry.Hook)
}

func (r *Reconciler) previousRun(ctx context.Context, scan *executionv1.Scan, schedule *metav1.OwnerReference) (string, error) {
	var runs executionv1.ScanList
	err := r.client.List(ctx, &runs, client.InNamespace(scan.Namespace), client.MatchingFields{indexSchedule: string(schedule.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return "", fmt.Errorf("list runs of the ScheduledScan: %w", err)
	}
	previous := lastBefore(scan, runs.Items)
	if previous == nil {
		return "", nil
	}
	return r.store.PresignDownload(ctx, store.OwnerOf(previous), executionv1.FindingsFile, r.expiry.Hook)
}

// lastBefore returns the run that was created last before a Scan, succeeded and is not being
// deleted; nil if there is none.
func lastBefore(scan *executionv1.Scan, runs []executionv1.Scan) *executionv1.Scan {
	var last *executionv1.Scan
	for i := range runs {
		run := &runs[i]
		switch {
		case run.UID == scan.UID, !isComparable(run):
		case !run.CreationTimestamp.Before(&scan.CreationTimestamp):
		case last == nil || last.CreationTimestamp.Before(&run.CreationTimestamp):
			last = run
		}
	}
	return last
}

// IsCompared says whether hooks of coming runs may compare with the findings of a Scan: it went well, and no later run of
// its target, or of its ScheduledScan, has. A later run counts that the API server has, and not the cache alone.
func (r *Reconciler) IsCompared(ctx context.Context, scan *executionv1.Scan) (bool, error) {
	if !isComparable(scan) {
		return false, nil
	}
	later, found, err := r.previousRuns.newest(ctx, scan)
	if err != nil {
		return false, err
	}
	if !found || !later.CreationTimestamp.After(scan.CreationTimestamp.Time) {
		return true, nil
	}
	if there, err := r.isStillComparable(ctx, later); err != nil || !there {
		return true, err
	}
	schedule := executionv1.ScheduleOf(scan)
	if schedule == nil {
		return false, nil
	}
	var runs executionv1.ScanList
	err = r.client.List(ctx, &runs, client.InNamespace(scan.Namespace), client.MatchingFields{indexSchedule: string(schedule.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return false, fmt.Errorf("list runs of the ScheduledScan: %w", err)
	}
	last := scan
	for i := range runs.Items {
		if run := &runs.Items[i]; isComparable(run) && last.CreationTimestamp.Before(&run.CreationTimestamp) {
			last = run
		}
	}
	if last == scan {
		return true, nil
	}
	there, err := r.isStillComparable(ctx, store.OwnerOf(last))
	return !there, err
}

// isStillComparable asks the API server.
func (r *Reconciler) isStillComparable(ctx context.Context, o store.Owner) (bool, error) {
	live := &executionv1.Scan{}
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.UID == o.UID && isComparable(live), nil
}
