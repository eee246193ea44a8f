// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/findings/compare"
)

// pageSize is how many Scans are listed at once.
const pageSize = 500

// previousRun returns the Scan with which new findings are compared, as the operator chooses it for hooks: the last successful one
// before the Scan, of the same ScheduledScan, or else of the same target; nil if there is none.
func previousRun(ctx context.Context, c client.Client, scan *executionv1.Scan) (*executionv1.Scan, error) {
	var ofSchedule, ofTarget *executionv1.Scan
	schedule := executionv1.ScheduleOf(scan)
	page := &executionv1.ScanList{}
	for {
		err := c.List(ctx, page, client.InNamespace(scan.Namespace), client.Limit(pageSize), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("look for the previous run: %w", err)
		}
		for i := range page.Items {
			run := &page.Items[i]
			if !isGoodBefore(run, scan) {
				continue
			}
			if other := executionv1.ScheduleOf(run); schedule != nil && other != nil && other.UID == schedule.UID {
				ofSchedule = later(ofSchedule, run)
			}
			if isSameTarget(run, scan) {
				ofTarget = later(ofTarget, run)
			}
		}
		if page.Continue == "" {
			return cmp.Or(ofSchedule, ofTarget), nil
		}
	}
}

// later returns the younger of two Scans, the first of which may be nil.
func later(known, run *executionv1.Scan) *executionv1.Scan {
	if known != nil && !known.CreationTimestamp.Before(&run.CreationTimestamp) {
		return known
	}
	return run.DeepCopy()
}

// isGoodBefore reports whether a Scan succeeded, is not being deleted, and is older than another one.
func isGoodBefore(run, scan *executionv1.Scan) bool {
	return run.UID != scan.UID && run.Status.State == executionv1.ScanStateDone && run.DeletionTimestamp.IsZero() &&
		run.CreationTimestamp.Before(&scan.CreationTimestamp)
}

// isSameTarget reports whether two Scans scan the same target: they have the same label scanyard.io/target, or else equal
// fields of the spec that choose the target.
func isSameTarget(a, b *executionv1.Scan) bool {
	if a.Mode() != b.Mode() || a.Spec.ScanType != b.Spec.ScanType {
		return false
	}
	labelA, hasA := a.Labels[executionv1.LabelTarget]
	labelB, hasB := b.Labels[executionv1.LabelTarget]
	if hasA || hasB {
		return hasA == hasB && labelA == labelB
	}
	same := equality.Semantic.DeepEqual
	return same(a.Spec.Parameters, b.Spec.Parameters) && same(a.Spec.Env, b.Spec.Env) && same(a.Spec.InitContainers, b.Spec.InitContainers) &&
		same(a.Spec.Volumes, b.Spec.Volumes) && same(a.Spec.VolumeMounts, b.Spec.VolumeMounts)
}

// leanPercent is how much garbage may be made, relative to the live memory, before it is collected: the marks of a million
// findings stay in memory, and the garbage of reading must not be as large again.
const leanPercent = 30

// marksOf keeps 16 bytes for each finding of a Scan.
func marksOf(ctx context.Context, source *results.Source) (marks *compare.Set, err error) {
	debug.SetGCPercent(leanPercent)
	marks = &compare.Set{}
	if err := source.Each(ctx, marks.AddFinding); err != nil {
		return nil, err
	}
	return marks, nil
}

// compareWith makes the comparison for --new and --against; nil without these flags.
func (o *findingsOptions) compareWith(ctx context.Context, scan *executionv1.Scan) (_ *compare.Set, err error) {
	if !o.onlyNew && o.against == "" {
		return nil, nil // without --new and --against
	}
	var before *executionv1.Scan
	if o.against != "" {
		before, err = o.session.Scan(ctx, o.client, scan.Namespace, o.against)
	} else {
		before, err = previousRun(ctx, o.client, scan)
	}
	if err != nil {
		return nil, o.session.Explain(err)
	}
	if before == nil {
		fmt.Fprintf(o.session.ErrOut, "no run before Scan %s is known, so all of its findings are new; --against names a Scan to compare with\n", scan.Name)
		return &compare.Set{}, nil
	}
	if before.UID == scan.UID {
		return nil, fmt.Errorf("--against %s is the Scan itself", o.against)
	}
	fmt.Fprintf(o.session.ErrOut, "compared with Scan %s\n", before.Name)
	source := o.reader.Source(before, false)
	defer func() { err = errors.Join(err, source.Close()) }()
	return marksOf(ctx, source)
}
