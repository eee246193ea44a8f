// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
)

// copiers is how many copies are written at a time.
const copiers = 32

// copyEnded writes n copies of a Scan that has ended, with its Jobs, as if they had run: that takes minutes, where running them takes
// hours. Neither the operator nor Kubernetes' controllers work meanwhile, or they would run the copies.
func (b *run) copyEnded(ctx context.Context, name string, n int) error {
	from := &executionv1.Scan{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: namespace(0), Name: name}, from); err != nil {
		return fmt.Errorf("get the Scan to copy: %w", err)
	}
	var jobs batchv1.JobList
	if err := b.client.List(ctx, &jobs, client.InNamespace(from.Namespace)); err != nil {
		return fmt.Errorf("list the Jobs to copy: %w", err)
	}
	own := slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, from) })
	if err := b.cluster.StopComponent(ctx, localcluster.ControllerManager); err != nil {
		return err
	}
	var written atomic.Int64
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(copiers)
	for i := range n {
		g.Go(func() error {
			if err := b.copyOne(inner, from, own, i); err != nil {
				return fmt.Errorf("copy Scan %s: %w", name, err)
			}
			if done := written.Add(1); done%10000 == 0 {
				fmt.Fprintf(b.o.Out, "  %d of %d copies are written\n", done, n)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.cluster.StartComponent(ctx, localcluster.ControllerManager)
}

func (b *run) copyOne(ctx context.Context, from *executionv1.Scan, jobs []batchv1.Job, i int) error {
	s := &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace(i), Name: fmt.Sprintf("copied-%06d", i), Labels: from.Labels, Annotations: from.Annotations, Finalizers: from.Finalizers,
		},
		Spec: *from.Spec.DeepCopy(),
	}
	if err := b.client.Create(ctx, s); err != nil {
		return err
	}
	s.Status = *from.Status.DeepCopy()
	if err := b.client.Status().Update(ctx, s); err != nil {
		return err
	}
	for k := range jobs {
		if err := b.copyJob(ctx, s, &jobs[k], fmt.Sprintf("%s-%d", s.Name, k)); err != nil {
			return err
		}
	}
	return nil
}

// copyJob writes a copy of a Job that has ended. What the API server derives from the Job's UID is left out.
func (b *run) copyJob(ctx context.Context, of *executionv1.Scan, from *batchv1.Job, name string) error {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: name, Labels: from.Labels, Annotations: from.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, executionv1.SchemeGroupVersion.WithKind("Scan"))},
		},
		Spec: *from.Spec.DeepCopy(),
	}
	j.Spec.Selector = nil
	derived := []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"}
	maps.DeleteFunc(j.Spec.Template.Labels, func(key, _ string) bool { return slices.Contains(derived, key) })
	if err := b.client.Create(ctx, j); err != nil {
		return err
	}
	j.Status = *from.Status.DeepCopy()
	return b.client.Status().Update(ctx, j)
}
