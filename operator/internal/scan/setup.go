// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/referrers"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// Index names.
const (
	indexScanUID  = "scanyard.io/scan-uid" // of Jobs: the UID of their Scan
	indexJobUID   = "scanyard.io/job-uid"  // of pods: the UID of their Job
	indexAwaits   = "scanyard.io/awaits"   // of Scans: the object they wait for
	indexSchedule = "scanyard.io/schedule" // of Scans: the UID of the ScheduledScan they are a run of
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// passTimeout bounds one pass, so that a server that does not respond cannot block a worker.
	passTimeout = 2 * time.Minute
)

// CacheOptions returns which parts of objects the cache keeps. A cluster has many Jobs and pods; the
// cache keeps only those of Scans, and of these only what decide reads.
func CacheOptions() map[client.Object]cache.ByObject {
	strip := cache.ByObject{Transform: cache.TransformStripManagedFields()}
	return map[client.Object]cache.ByObject{
		&executionv1.Scan{}:                      {Transform: stripScan},
		&executionv1.ScanType{}:                  strip,
		&executionv1.ClusterScanType{}:           strip,
		&executionv1.ParseDefinition{}:           strip,
		&executionv1.ClusterParseDefinition{}:    strip,
		&executionv1.ScanCompletionHook{}:        strip,
		&executionv1.ClusterScanCompletionHook{}: strip,
		&batchv1.Job{}:                           {Label: hasJobType(), Transform: stripJob},
		&corev1.Pod{}: {
			Label: labels.SelectorFromSet(labels.Set{executionv1.LabelManagedBy: executionv1.ManagedBy}),
			// An ended pod shows no more than its Job, except for the termination messages of parsers and
			// hooks, see newEndedPods.
			Field: fields.AndSelectors(
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
				fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))),
			Transform: stripPod,
		},
	}
}

func hasJobType() labels.Selector {
	r, err := labels.NewRequirement(executionv1.LabelJobType, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // the key is a constant that a test holds valid
	}
	return labels.NewSelector().Add(*r)
}

// stripScan keeps of a Scan that has ended only what its last rows read: a cluster has many such
// Scans. A Scan whose status is incomplete is kept whole, so that it can be mended; large Scans
// that have not ended are trimmed.
func stripScan(in any) (any, error) {
	s, ok := in.(*executionv1.Scan)
	if !ok {
		return in, nil
	}
	s.ManagedFields = nil
	if !s.Settled() || life.NeedsMending(s) || life.Reopened(s) {
		delete(s.Annotations, annotationFindings) // only this function writes it
		return trimScan(s), nil
	}
	small := &executionv1.Scan{TypeMeta: s.TypeMeta, ObjectMeta: stripMeta(&s.ObjectMeta)}
	small.Finalizers = s.Finalizers
	small.Annotations = pick(s.Annotations,
		executionv1.AnnotationStoragePlace, executionv1.AnnotationOnDelete, executionv1.AnnotationRecord, executionv1.AnnotationReleased)
	small.Spec = executionv1.ScanSpec{ScanType: s.Spec.ScanType, TTLSecondsAfterFinished: s.Spec.TTLSecondsAfterFinished, Cancel: s.Spec.Cancel}
	ready := life.FindCondition(s.Status.Conditions, executionv1.ConditionReady)
	small.Status = executionv1.ScanStatus{
		State: s.Status.State, FinishedAt: s.Status.FinishedAt, RawResultFile: s.Status.RawResultFile,
		Conditions: []metav1.Condition{{Type: ready.Type, Status: ready.Status, Reason: ready.Reason}},
	}
	if f := &s.Status.Findings; f.Excepted != nil {
		small.Status.Findings = executionv1.FindingStats{Excepted: f.Excepted, Exceptions: f.Exceptions}
	}
	if s.Status.State == executionv1.ScanStateDone {
		for key, value := range map[string]string{annotationTarget: TargetOf(s), annotationFindings: countsOf(s)} {
			if value == "" {
				continue
			}
			if small.Annotations == nil {
				small.Annotations = map[string]string{}
			}
			small.Annotations[key] = value
		}
	}
	if trimMeta(&small.ObjectMeta) {
		markTrimmed(small)
	}
	if c := life.FindCondition(s.Status.Conditions, executionv1.ConditionCancelled); c != nil {
		small.Status.Conditions = append(small.Status.Conditions, metav1.Condition{Type: c.Type, Status: c.Status})
	}
	if c := life.FindCondition(s.Status.Conditions, executionv1.ConditionResultsStored); c != nil && life.HasReleaseAnnotation(s) {
		small.Status.Conditions = append(small.Status.Conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return small, nil
}

// stripJob keeps of a Job what newJob, observePods and scanUID read.
func stripJob(in any) (any, error) {
	b, ok := in.(*batchv1.Job)
	if !ok {
		return in, nil
	}
	return keptOf(b), nil
}

// endedJobs are the labels and annotations of Jobs that have succeeded.
var endedJobs sharedMaps

// keptOf returns what is kept of a Job.
func keptOf(b *batchv1.Job) *batchv1.Job {
	small := &batchv1.Job{
		TypeMeta:   b.TypeMeta,
		ObjectMeta: stripMeta(&b.ObjectMeta),
		Spec:       batchv1.JobSpec{Suspend: b.Spec.Suspend, TTLSecondsAfterFinished: b.Spec.TTLSecondsAfterFinished},
		Status: batchv1.JobStatus{
			StartTime: b.Status.StartTime, Active: b.Status.Active, Failed: b.Status.Failed, Succeeded: b.Status.Succeeded,
			UncountedTerminatedPods: b.Status.UncountedTerminatedPods, Conditions: b.Status.Conditions,
		},
	}
	small.Labels = pick(b.Labels, executionv1.LabelJobType, executionv1.LabelHookName, executionv1.LabelScanUID, executionv1.LabelAttempt)
	small.Annotations = pick(b.Annotations, executionv1.AnnotationScan, executionv1.AnnotationRerun,
		executionv1.AnnotationScanAccess, executionv1.AnnotationPhases, executionv1.AnnotationHooks,
		executionv1.AnnotationRawResultFile, executionv1.AnnotationRawResultType)
	if life.NewJob(b).Outcome == life.Complete {
		// Most Jobs have succeeded; the rows read only this fact and its time.
		small.Spec.Suspend, small.Status.UncountedTerminatedPods = nil, nil
		small.Status.Conditions = nil
		for _, c := range b.Status.Conditions {
			if c.Type == batchv1.JobComplete {
				small.Status.Conditions = []batchv1.JobCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
			}
		}
		if metav1.GetControllerOf(b) != nil {
			delete(small.Labels, executionv1.LabelScanUID) // the controller says which Scan it is
			delete(small.Annotations, executionv1.AnnotationScan)
			small.Labels, small.Annotations = endedJobs.of(small.Labels), endedJobs.of(small.Annotations)
		}
	}
	return small
}

// stripPod keeps of a pod what life.PodTrouble and life.PendingSince read.
func stripPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	small := &corev1.Pod{TypeMeta: p.TypeMeta, ObjectMeta: stripMeta(&p.ObjectMeta)}
	small.Labels = pick(p.Labels, executionv1.LabelReports, executionv1.LabelPhase)
	names := func(containers []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for i := range containers {
			out = append(out, corev1.Container{Name: containers[i].Name, Image: containers[i].Image, RestartPolicy: containers[i].RestartPolicy})
		}
		return out
	}
	small.Spec.Containers = names(p.Spec.Containers)
	small.Spec.InitContainers = names(p.Spec.InitContainers)
	small.Spec.RestartPolicy = p.Spec.RestartPolicy
	small.Status = corev1.PodStatus{
		Phase: p.Status.Phase, Conditions: p.Status.Conditions,
		InitContainerStatuses: p.Status.InitContainerStatuses, ContainerStatuses: p.Status.ContainerStatuses,
	}
	return small, nil
}

func stripMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences,
	}
}

func pick(m map[string]string, keys ...string) map[string]string {
	var out map[string]string
	for _, k := range keys {
		if v, ok := m[k]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// SetupWithManager registers the Reconciler, its indexes and its watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, workers int) error {
	if err := addIndexes(ctx, mgr); err != nil {
		return err
	}
	// Hooks and exceptions are read and not watched. Their informers are started here, since the cache refuses
	// reads that would start an informer.
	for _, o := range []client.Object{
		&executionv1.ScanCompletionHook{}, &executionv1.ClusterScanCompletionHook{},
		&settingsv1alpha2.FindingException{}, &settingsv1alpha2.ClusterFindingException{},
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	if err := r.previousRuns.watch(ctx, mgr); err != nil {
		return err
	}
	if err := r.queue.SetupWithManager(ctx, mgr, r.ledger.believed, r.ledger.forget); err != nil {
		return err
	}
	var err error
	if r.endedPods, err = newEndedPods(ctx, mgr, r.settings.Namespaces); err != nil {
		return err
	}
	return r.watchSettings(ctrl.NewControllerManagedBy(mgr)).
		Named("scan").
		For(&executionv1.Scan{}).
		Watches(&batchv1.Job{}, jobHandler{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.scanOfPod), podPredicate()).
		Watches(&executionv1.ScanType{}, r.enqueueAwaiting("ScanType")).
		Watches(&executionv1.ClusterScanType{}, r.enqueueAwaiting("ScanType")).
		Watches(&executionv1.ParseDefinition{}, r.enqueueAwaiting("ParseDefinition")).
		Watches(&executionv1.ClusterParseDefinition{}, r.enqueueAwaiting("ParseDefinition")).
		WatchesRawSource(source.Func(r.queue.Connect)).
		WatchesRawSource(r.endedPodSource()).
		WatchesRawSource(source.Func(r.connectHealth)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
			ReconciliationTimeout:   passTimeout,
		}).
		Complete(r)
}

// jobHandler enqueues the Scan of a Job when the Job ends, is suspended or resumed, or is deleted.
type jobHandler struct{}

// endedPriority is the priority of Scans with a Job that has ended. They come before Scans that
// are to start: under load, Scans that have begun are finished first.
const endedPriority = 100

// Create is for Jobs of other operators, or of this one before it was restarted.
func (jobHandler) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	enqueue(ctx, e.Object, 0, q)
}

// Update is for changes of a Job.
func (jobHandler) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	before, okBefore := e.ObjectOld.(*batchv1.Job)
	after, okAfter := e.ObjectNew.(*batchv1.Job)
	if !okBefore || !okAfter {
		return
	}
	b, a := life.NewJob(before), life.NewJob(after)
	switch {
	case b.Outcome != a.Outcome:
		enqueue(ctx, after, endedPriority, q)
	case b.Suspended != a.Suspended, b.FailedPods != a.FailedPods:
		enqueue(ctx, after, 0, q)
	}
}

// Delete is for Jobs that were deleted before their end was seen, and for Scans that wait for
// their deletion.
func (jobHandler) Delete(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	enqueue(ctx, e.Object, 0, q)
}

// Generic events are never sent.
func (jobHandler) Generic(context.Context, event.GenericEvent, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
}

func enqueue(ctx context.Context, o client.Object, priority int, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for _, req := range scanOfJob(ctx, o) {
		queue.Add(q, req, priority)
	}
}

// podPredicate lets through the changes that matter to a Job: its pod exists, its containers have
// started, or a reason keeps them from starting.
func podPredicate() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // the event of its Job follows
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return okBefore && okAfter && podNews(before, after)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

func podNews(before, after *corev1.Pod) bool {
	if life.ScannerEnded(before) != life.ScannerEnded(after) {
		return true // the parser's turn
	}
	before, after = life.ActivePart(before), life.ActivePart(after)
	b, a := life.PodTrouble(before), life.PodTrouble(after)
	if (b == nil) != (a == nil) || b != nil && *b != *a {
		return true
	}
	waited, waits := !life.PendingSince(before).IsZero(), !life.PendingSince(after).IsZero()
	// The end of an init container begins the time that the next one has to start.
	return waited != waits && (waits || a != nil)
}

// scanOfJob maps a Job to its Scan.
func scanOfJob(_ context.Context, o client.Object) []reconcile.Request {
	b, ok := o.(*batchv1.Job)
	if !ok || life.ScanUID(b) == "" {
		return nil
	}
	if c := metav1.GetControllerOf(b); c != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: c.Name}}}
	}
	namespace, name, _ := strings.Cut(b.Annotations[executionv1.AnnotationScan], "/")
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// scanOfPod maps a pod to the Scan of its Job.
func (r *Reconciler) scanOfPod(ctx context.Context, o client.Object) []reconcile.Request {
	c := metav1.GetControllerOf(o)
	if c == nil || c.Kind != "Job" {
		return nil
	}
	var b batchv1.Job
	err := r.client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}, &b, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil // the Job's own event comes later and enqueues the Scan
	}
	return scanOfJob(ctx, &b)
}

// enqueueAwaiting enqueues the Scans that wait for an object when the object is created or changed.
func (r *Reconciler) enqueueAwaiting(kind string) handler.EventHandler {
	return referrers.Enqueue(r.client, indexAwaits, kind, func() client.ObjectList { return &executionv1.ScanList{} })
}

func addIndexes(ctx context.Context, mgr ctrl.Manager) error {
	i := mgr.GetFieldIndexer()
	return errors.Join(
		i.IndexField(ctx, &batchv1.Job{}, indexScanUID, func(o client.Object) []string {
			if b, ok := o.(*batchv1.Job); ok {
				return referrers.Values(life.ScanUID(b))
			}
			return nil
		}),
		i.IndexField(ctx, &corev1.Pod{}, indexJobUID, jobOfPod),
		i.IndexField(ctx, &executionv1.Scan{}, indexSchedule, func(o client.Object) []string {
			if c := executionv1.ScheduleOf(o); c != nil {
				return []string{string(c.UID)}
			}
			return nil
		}),
		i.IndexField(ctx, &executionv1.Scan{}, indexAwaits, func(o client.Object) []string {
			if s, ok := o.(*executionv1.Scan); ok {
				return referrers.Values(awaits(s))
			}
			return nil
		}),
	)
}

// awaits returns the index values of the objects for which a Scan may be waiting.
func awaits(s *executionv1.Scan) string {
	switch s.Status.State {
	case executionv1.ScanStateNew:
		return referrers.Key("ScanType", s.Spec.ScanType)
	case executionv1.ScanStateScanCompleted:
		return referrers.Key("ParseDefinition", s.Status.RawResultType)
	default:
		return ""
	}
}
