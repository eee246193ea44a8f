// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
)

// observer sees when Jobs end, when the next one is there, and when Scans are done.
type observer struct {
	mu      sync.Mutex
	changed *sync.Cond

	ended   map[types.UID]time.Time // by Scan: when its scanner Job was seen to be complete
	waits   []time.Duration
	settled map[types.UID]bool
	begun   map[types.UID]bool // by Scan: whether its scanner's Job was seen
	done    int
	failed  string
}

// observe follows Jobs and Scans until the context ends.
func observe(ctx context.Context, c client.WithWatch) *observer {
	o := &observer{ended: map[types.UID]time.Time{}, settled: map[types.UID]bool{}, begun: map[types.UID]bool{}}
	o.changed = sync.NewCond(&o.mu)
	follow.Start(ctx, c, &batchv1.JobList{}, func(j *batchv1.Job, there bool) {
		if there {
			o.job(j, time.Now())
		}
	}, notCopied(executionv1.LabelJobType))
	follow.Start(ctx, c, &executionv1.ScanList{}, func(s *executionv1.Scan, _ bool) {
		switch s.Status.State {
		case executionv1.ScanStateDone, executionv1.ScanStateErrored:
			o.scan(s)
		case executionv1.ScanStateScanning:
			o.began(s)
		}
	}, notCopied())
	context.AfterFunc(ctx, o.changed.Broadcast)
	return o
}

// notCopied selects what has some labels and is not a copy: a hundred thousand copies would take more memory here than in the operator.
func notCopied(has ...string) client.MatchingLabelsSelector {
	s := labels.NewSelector()
	add := func(key string, op selection.Operator) {
		if r, err := labels.NewRequirement(key, op, nil); err == nil { // the keys are constants
			s = s.Add(*r)
		}
	}
	for _, key := range has {
		add(key, selection.Exists)
	}
	add(labelCopied, selection.DoesNotExist)
	return client.MatchingLabelsSelector{Selector: s}
}

func (o *observer) job(j *batchv1.Job, now time.Time) {
	owner := metav1.GetControllerOf(j)
	if owner == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch j.Labels[executionv1.LabelJobType] {
	case executionv1.JobTypeScanner:
		if _, seen := o.ended[owner.UID]; !seen && isComplete(j) {
			o.ended[owner.UID] = now
		}
	case executionv1.JobTypeParser, executionv1.JobTypeReadOnlyHook:
		// A time of zero marks a Scan whose wait has been counted.
		if at, seen := o.ended[owner.UID]; seen && !at.IsZero() {
			o.waits = append(o.waits, now.Sub(at))
			o.ended[owner.UID] = time.Time{}
		}
	}
}

func isComplete(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func (o *observer) scan(s *executionv1.Scan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.settled[s.UID] {
		return
	}
	o.settled[s.UID] = true
	delete(o.begun, s.UID)
	o.done++
	if s.Status.State == executionv1.ScanStateErrored {
		o.failed = fmt.Sprintf("Scan %s is Errored: %s", s.Name, s.Status.ErrorDescription)
	}
	o.changed.Broadcast()
}

func (o *observer) began(s *executionv1.Scan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun[s.UID] = true
	o.changed.Broadcast()
}

// scanning waits until so many Scans that have not ended have begun.
func (o *observer) scanning(ctx context.Context, n int) error {
	return o.until(ctx, func() bool { return len(o.begun) >= n })
}

func (o *observer) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done, o.waits = 0, nil
}

// room waits until fewer than limit of the created Scans are unfinished.
func (o *observer) room(ctx context.Context, created, limit int) error {
	return o.until(ctx, func() bool { return created-o.done < limit })
}

// await waits until so many Scans have ended since the reset.
func (o *observer) await(ctx context.Context, n int) error {
	return o.until(ctx, func() bool { return o.done >= n })
}

func (o *observer) until(ctx context.Context, holds func() bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !holds() {
		if o.failed != "" {
			return fmt.Errorf("%s", o.failed)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o.changed.Wait()
	}
	return nil
}

// latencies returns the median and the 99th percentile of the waits.
func (o *observer) latencies() (p50, p99 time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return percentiles(o.waits)
}

func percentiles(waits []time.Duration) (p50, p99 time.Duration) {
	if len(waits) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(waits))
	return sorted[len(sorted)/2], sorted[len(sorted)*99/100]
}
