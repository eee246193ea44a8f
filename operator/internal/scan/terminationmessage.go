// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/caches"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// newEndedPods returns a cache of the pods with a parser or hook that reports and that have succeeded. The manager's cache does
// not hold ended pods; this cache keeps only the termination message.
func newEndedPods(ctx context.Context, mgr ctrl.Manager, namespaces []string) (cache.Cache, error) {
	o := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: caches.Namespaces(namespaces), ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Label:     labels.SelectorFromSet(labels.Set{executionv1.LabelManagedBy: executionv1.ManagedBy, executionv1.LabelReports: "true"}),
			Field:     fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)),
			Transform: stripEndedPod,
		}},
	}
	c, err := cache.New(mgr.GetConfig(), o)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(c.IndexField(ctx, &corev1.Pod{}, indexJobUID, jobOfPod), mgr.Add(c))
}

// stripEndedPod keeps the owner and the termination message of an ended pod, and when a scanner in it has ended.
func stripEndedPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion}}
	small.Labels = pick(p.Labels, executionv1.LabelReports, executionv1.LabelPhase)
	if c := metav1.GetControllerOf(p); c != nil {
		small.OwnerReferences = []metav1.OwnerReference{*c}
	}
	ended := func(name string, t corev1.ContainerStateTerminated) {
		small.Spec.Containers = append(small.Spec.Containers, corev1.Container{Name: name})
		small.Status.ContainerStatuses = append(small.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: t.Message, FinishedAt: t.FinishedAt}},
		})
	}
	name := ""
	if at := life.ScannerEnded(p); !at.IsZero() {
		name = executionv1.ContainerParser
		ended(p.Spec.Containers[0].Name, corev1.ContainerStateTerminated{FinishedAt: metav1.Time{Time: at}})
	}
	if t := life.SucceededContainer(p); t != nil {
		ended(name, *t)
	}
	return small, nil
}

func jobOfPod(o client.Object) []string {
	if c := metav1.GetControllerOf(o); c != nil && c.Kind == "Job" {
		return []string{string(c.UID)}
	}
	return nil
}

// endedPodSource enqueues a Scan when the termination message of a Job arrives after the end of the Job.
func (r *Reconciler) endedPodSource() source.Source {
	bring := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		c := metav1.GetControllerOf(o)
		if c == nil || c.Kind != "Job" {
			return
		}
		var b batchv1.Job
		err := r.client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}, &b, client.DisableReadYourWritesConsistency)
		if err == nil && b.UID == c.UID && life.NewJob(&b).Outcome == life.Complete {
			enqueue(ctx, &b, endedPriority, q)
		} // else the Job's own event comes later and enqueues the Scan
	}
	return source.Kind(r.endedPods, client.Object(&corev1.Pod{}), handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList {
				bring(ctx, e.Object, q)
			}
		},
	})
}

// observeReport reads the report in the termination message of a Job that has succeeded.
func (r *Reconciler) observeReport(ctx context.Context, o *life.Observation, b *batchv1.Job, j *life.Job) error {
	var pods corev1.PodList
	if r.endedPods != nil {
		err := r.endedPods.List(ctx, &pods, client.MatchingFields{indexJobUID: string(b.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return fmt.Errorf("list pods that have ended: %w", err)
		}
	}
	j.Report = life.NewReport(pods.Items)
	if j.Report.State == life.ReportGone && o.Now.Sub(j.Finished) < life.ReportGrace {
		j.Report.State = life.ReportAwaited
	}
	if j.Report.State == life.ReportGone {
		err := r.live.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabels{batchv1.JobNameLabel: b.Name})
		if err != nil {
			return fmt.Errorf("list pods of Job %s: %w", b.Name, err)
		}
		pods.Items = life.OwnedPods(pods.Items, b.UID)
		j.Report = life.NewReport(pods.Items)
	}
	for i := range pods.Items {
		j.ScannerEnded = latest(j.ScannerEnded, life.ScannerEnded(&pods.Items[i]))
	}
	return r.observeCategories(ctx, o, j)
}

// observeCategories reads the counts by category that are stored beside the findings, unless the status has them.
func (r *Reconciler) observeCategories(ctx context.Context, o *life.Observation, j *life.Job) error {
	if j.Report.State != life.ReportReceived || j.Report.Outcome.Findings == nil || j.Report.Outcome.Findings.CategoriesStored == nil {
		return nil
	}
	f := j.Report.Outcome.Findings
	if s := o.Scan.Status.StoredFindings; s != nil && *s == life.StoredObject(f.Stored) {
		j.Report.Categories = o.Scan.Status.Findings.FindingCategories
		return nil
	}
	text, found, err := r.store.Read(ctx, store.OwnerOf(o.Scan), apioutcome.CategoriesFile, f.CategoriesStored.Size)
	if err != nil {
		return err
	}
	if !found {
		log.FromContext(ctx).Info("The counts by category are not stored", "job", j.Name)
		return nil
	}
	if j.Report.Categories, err = f.DecodeCategories(slices.Clip(text)); err != nil {
		log.FromContext(ctx).Info("The counts by category cannot be taken", "job", j.Name, "reason", err.Error())
	}
	return nil
}
