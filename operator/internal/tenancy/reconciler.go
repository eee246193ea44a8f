// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy/review"
	"github.com/scanyard/scanyard/settings"
)

// Places checks whether a place for results can be used; its errors are for users.
type Places interface {
	CheckPlace(ctx context.Context, namespace string, p store.Place) error
}

// Options are the options of a Reconciler.
type Options struct {
	// Client reads from the cache and waits there for its own writes.
	Client client.Client
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Places Places
}

// Reconciler writes on the settings of namespaces and of the cluster whether they are in force, and
// keeps the last valid ones in their status.
type Reconciler struct {
	client client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
	places Places
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	return &Reconciler{client: o.Client, events: o.Events, clock: o.Clock, places: o.Places}
}

// Storage is checked again after this time, since no watch shows when it can be used.
const (
	storageRetry = 15 * time.Second
	storageCheck = 10 * time.Minute
)

// Reconcile checks the settings of a namespace or, for a request without a namespace, of the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var result reconcile.Result
	var err error
	if req.Namespace == "" {
		err = r.reconcileCluster(ctx, req.NamespacedName)
	} else {
		result, err = r.reconcileNamespace(ctx, req.NamespacedName)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case apierrors.IsForbidden(err):
		// An operator for some namespaces may not write objects of the cluster. The settings in force
		// are computed from the spec; only a mistake in the spec cannot be reported then.
		log.FromContext(ctx).Info("Settings cannot be given a status", "error", err.Error())
		return reconcile.Result{}, nil
	}
	return result, client.IgnoreNotFound(err)
}

func (r *Reconciler) reconcileCluster(ctx context.Context, key types.NamespacedName) error {
	s := &settingsv1alpha2.ClusterScanSetting{}
	if err := r.client.Get(ctx, key, s); err != nil {
		return err
	}
	installed, err := r.installed(ctx, "", s.Spec.JobPatches)
	if err != nil {
		return err
	}
	p := settings.ReviewCluster(s).AddUnmatched(s.Spec.JobPatches, installed)
	changed := s.DeepCopy()
	verdict := review.Of(p, s.Generation, s.Status.InForceGeneration)
	changed.Status = verdict.ClusterStatus(s, metav1.NewTime(r.clock.Now()))
	if equality.Semantic.DeepEqual(s.Status, changed.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.report(s, settings.Verdict(s), verdict)
	return nil
}

func (r *Reconciler) reconcileNamespace(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	s := &settingsv1alpha2.ScanSetting{}
	if err := r.client.Get(ctx, key, s); err != nil {
		return reconcile.Result{}, err
	}
	cluster := &settingsv1alpha2.ClusterScanSetting{}
	err := r.client.Get(ctx, types.NamespacedName{Name: settingsv1alpha2.Name}, cluster)
	if apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("get ClusterScanSetting: %w", err)
	}
	installed, err := r.installed(ctx, s.Namespace, s.Spec.JobPatches)
	if err != nil {
		return reconcile.Result{}, err
	}
	above := settings.ClusterInForce(cluster)
	verdict := review.Of(settings.Review(above, s).AddUnmatched(s.Spec.JobPatches, installed), s.Generation, s.Status.InForceGeneration)
	result := reconcile.Result{}
	if at := settings.Compute(settings.Input{Cluster: above, Setting: &s.Spec}).Storage; verdict.Good && at != (settings.Storage{}) {
		unusable := r.places.CheckPlace(ctx, s.Namespace, PlaceOf(at))
		verdict = verdict.Unusable(unusable)
		result.RequeueAfter = storageCheck
		if unusable != nil {
			result.RequeueAfter = storageRetry
		}
	}
	changed := s.DeepCopy()
	changed.Status = verdict.Status(s, metav1.NewTime(r.clock.Now()))
	if equality.Semantic.DeepEqual(s.Status, changed.Status) {
		return result, nil
	}
	if err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, err
	}
	r.report(s, settings.Verdict(s), verdict)
	return result, nil
}

// report sends an Event if the condition has a new reason and is not True.
func (r *Reconciler) report(o client.Object, before string, now review.Review) {
	const longest = 1000 // the longest note of an Event
	if now.Reason == settingsv1alpha2.ReasonAccepted || now.Reason == before {
		return
	}
	r.events.Eventf(o, nil, corev1.EventTypeWarning, now.Reason, "Review", "%s", text.CutRunes(now.Message, longest))
}

// installed lists what targets of patches may refer to, in one namespace or, for "", in all; nil if there
// is no patch.
func (r *Reconciler) installed(ctx context.Context, namespace string, patches []settingsv1alpha2.JobPatch) (*settings.Installed, error) {
	asks := slices.ContainsFunc(patches, func(p settingsv1alpha2.JobPatch) bool {
		return p.Target != nil && len(p.Target.ScanTypes)+len(p.Target.Hooks) > 0
	})
	if !asks {
		return nil, nil
	}
	return ListInstalled(ctx, r.client, namespace)
}

// ListInstalled lists what targets of the patches of a namespace, or, for "", of the cluster may
// refer to.
func ListInstalled(ctx context.Context, reader client.Reader, namespace string) (*settings.Installed, error) {
	k := &settings.Installed{}
	for _, kind := range []struct {
		list  client.ObjectList
		names func(client.ObjectList) []string
		into  *[]string
	}{
		{&executionv1.ScanTypeList{}, scanTypeNames, &k.ScanTypes},
		{&executionv1.ClusterScanTypeList{}, scanTypeNames, &k.ScanTypes},
		{&executionv1.ScanCompletionHookList{}, hookNames, &k.Hooks},
		{&executionv1.ClusterScanCompletionHookList{}, hookNames, &k.Hooks},
	} {
		if err := reader.List(ctx, kind.list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %T: %w", kind.list, err)
		}
		*kind.into = append(*kind.into, kind.names(kind.list)...)
	}
	for _, names := range []*[]string{&k.ScanTypes, &k.Hooks} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return k, nil
}

func scanTypeNames(list client.ObjectList) []string {
	switch l := list.(type) {
	case *executionv1.ScanTypeList:
		return namesOf(l.Items, func(o *executionv1.ScanType) string { return o.Name })
	case *executionv1.ClusterScanTypeList:
		return namesOf(l.Items, func(o *executionv1.ClusterScanType) string { return o.Name })
	}
	return nil
}

func hookNames(list client.ObjectList) []string {
	switch l := list.(type) {
	case *executionv1.ScanCompletionHookList:
		return namesOf(l.Items, func(o *executionv1.ScanCompletionHook) string { return o.Name })
	case *executionv1.ClusterScanCompletionHookList:
		return namesOf(l.Items, func(o *executionv1.ClusterScanCompletionHook) string { return o.Name })
	}
	return nil
}

func namesOf[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		names = append(names, name(&items[i]))
	}
	return names
}
