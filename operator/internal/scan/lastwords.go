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
	"k8s.io/apimachinery/pkg/selection"
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
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// newSpeakers is a cache of the pods of parsers and hooks that have ended well. The cache of the manager
// does not hold pods that have ended, most of which are scanners'; of these, only the last words are kept.
func newSpeakers(ctx context.Context, mgr ctrl.Manager, namespaces []string) (cache.Cache, error) {
	phase, err := labels.NewRequirement(executionv1.LabelPhase, selection.In, []string{executionv1.PhaseParser, executionv1.PhaseHook})
	if err != nil {
		return nil, err
	}
	o := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Label:     labels.SelectorFromSet(labels.Set{executionv1.LabelManagedBy: executionv1.ManagedBy}).Add(*phase),
			Field:     fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)),
			Transform: stripSpeaker,
		}},
	}
	for _, n := range namespaces {
		if o.DefaultNamespaces == nil {
			o.DefaultNamespaces = map[string]cache.Config{}
		}
		o.DefaultNamespaces[n] = cache.Config{}
	}
	c, err := cache.New(mgr.GetConfig(), o)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(c.IndexField(ctx, &corev1.Pod{}, indexJobUID, jobOfPod), mgr.Add(c))
}

// stripSpeaker keeps of a pod that has ended whose it was and its last words.
func stripSpeaker(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion}}
	if c := metav1.GetControllerOf(p); c != nil {
		small.OwnerReferences = []metav1.OwnerReference{*c}
	}
	if t := life.Spoken(p); t != nil {
		small.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: t.Message, FinishedAt: t.FinishedAt}},
		}}
	}
	return small, nil
}

func jobOfPod(o client.Object) []string {
	if c := metav1.GetControllerOf(o); c != nil && c.Kind == "Job" {
		return []string{string(c.UID)}
	}
	return nil
}

// heard brings a Scan when the last words of a Job come that has ended already.
func (r *Reconciler) heard() source.Source {
	bring := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		c := metav1.GetControllerOf(o)
		if c == nil || c.Kind != "Job" {
			return
		}
		var b batchv1.Job
		err := r.client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}, &b, client.DisableReadYourWritesConsistency)
		if err == nil && b.UID == c.UID && life.NewJob(&b).Outcome == life.Complete {
			enqueue(ctx, &b, endedPriority, q)
		} // else the Job's own event comes later and brings the Scan
	}
	return source.Kind(r.speakers, client.Object(&corev1.Pod{}), handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList {
				bring(ctx, e.Object, q)
			}
		},
	})
}

// observeReport reads what the pod of a Job that has ended well has told.
func (r *Reconciler) observeReport(ctx context.Context, o *life.Observation, b *batchv1.Job, j *life.Job) error {
	var pods corev1.PodList
	if r.speakers != nil {
		err := r.speakers.List(ctx, &pods, client.MatchingFields{indexJobUID: string(b.UID)}, client.UnsafeDisableDeepCopy)
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
		j.Report = life.NewReport(life.OwnedPods(pods.Items, b.UID))
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
