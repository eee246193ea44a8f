// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// observe reads what decide looks at; nil where the Scan is gone. With an error it
// returns what it has read so far.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observed, error) {
	scan := &executionv1.Scan{}
	// This read waits until the cache has seen our own last write of the Scan.
	if err := r.client.Get(ctx, key, scan); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	o := &observed{now: r.clock.Now(), settings: r.settings, scan: scan, admission: admission{aside: r.gate.stepsAside(scan)}}
	if err := r.observeSettings(ctx, o); err != nil {
		return o, err
	}
	if err := r.observeJobs(ctx, o); err != nil {
		return o, err
	}
	switch {
	case isDeleted(o), isSettled(o) && !isReopened(o), lacksFinalizer(o) && !isSettled(o):
		return o, nil
	case wantsCancel(o):
		return o, r.observeCanceller(ctx, o)
	case isSuspended(o) && !isSettled(o):
		return o, nil
	case isSettled(o), isInvalid(o):
		return o, errors.Join(r.observeHooks(ctx, o), r.observeStored(ctx, o))
	}
	if err := r.observeLost(ctx, o); err != nil {
		return o, err
	}
	err := r.observeNeeds(ctx, o)
	if err == nil && isReadyToBegin(o) {
		o.admission = r.gate.ask(scan)
	}
	return o, err
}

// isReadyToBegin says that nothing but its turn keeps a Scan from beginning.
func isReadyToBegin(o *observed) bool {
	return phaseOf(o.scan, o.jobs) == phaseNew && !o.hasRawResult && !isMissing(o) && !hasInvalidScanType(o)
}

// observeJobs reads the Jobs of the Scan's UID and, where they run, their pods.
func (r *Reconciler) observeJobs(ctx context.Context, o *observed) error {
	var list batchv1.JobList
	// Not waiting for our own writes here: under load another Scan's write is always on
	// its way. A Job that the cache has not seen yet is found by observeLost.
	err := r.client.List(ctx, &list, client.MatchingFields{indexScanUID: string(o.scan.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	for i := range list.Items {
		b := &list.Items[i]
		trusted, err := r.isTrusted(ctx, o, b)
		if err != nil {
			return err
		}
		if !trusted {
			continue
		}
		if err := r.addJob(ctx, o, b); err != nil {
			return err
		}
	}
	return nil
}

// isTrusted says whether a Job may speak for the Scan. In its own namespace the owner
// reference decides. Elsewhere anybody who may create Jobs could claim to be a hook of
// any Scan: there only the namespace counts that a cluster admin chose for the hook. A
// Scan that has ended cleans up whatever carries its label.
func (r *Reconciler) isTrusted(ctx context.Context, o *observed, b *batchv1.Job) (bool, error) {
	if b.Namespace == o.scan.Namespace || isDeleted(o) || isSettled(o) && !isReopened(o) {
		return true, nil
	}
	hooks, err := r.catalog.Hooks(ctx, o.scan)
	if _, invalid := errors.AsType[*catalog.InvalidSelectorError](err); invalid {
		return false, nil
	}
	for _, h := range hooks {
		if names.LabelValue(h.Name) == b.Labels[executionv1.LabelHookName] && h.ExecutionNamespace == b.Namespace {
			return true, nil
		}
	}
	return false, err
}

// addJob adds what matters of a Job.
func (r *Reconciler) addJob(ctx context.Context, o *observed, b *batchv1.Job) error {
	j := newJob(b)
	var err error
	switch {
	case isSettled(o) && !isReopened(o) || isDeleted(o) || j.outcome == complete:
	case j.outcome == failed:
		err = r.observeFailure(ctx, b, &j)
	default:
		err = r.observePods(ctx, o, b, &j)
	}
	o.jobs = append(o.jobs, j)
	return err
}

// newJob takes from a Job what needs no further read.
func newJob(b *batchv1.Job) job {
	j := job{
		name: b.Name, namespace: b.Namespace, created: b.CreationTimestamp.Time,
		role:      role{jobType: b.Labels[executionv1.LabelJobType], hook: b.Labels[executionv1.LabelHookName]},
		suspended: b.Spec.Suspend != nil && *b.Spec.Suspend,
		attempt:   1, failedPods: b.Status.Failed,
		rerun: b.Annotations[executionv1.AnnotationRerun],
	}
	if b.DeletionTimestamp != nil {
		j.deleted = b.DeletionTimestamp.Time
	}
	if n, err := strconv.Atoi(b.Labels[executionv1.LabelAttempt]); err == nil && n > 1 {
		j.attempt = n
	}
	if j.role.hook != "" {
		j.role = hookRole(j.role.hook)
	}
	if b.Status.StartTime != nil {
		j.started = b.Status.StartTime.Time
	}
	for _, c := range b.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			j.outcome, j.finished = complete, c.LastTransitionTime.Time
		case batchv1.JobFailed:
			j.outcome, j.finished, j.failure = failed, c.LastTransitionTime.Time, jobFailure(b)
		default: // not terminal: the pods may still run
		}
	}
	return j
}

// observeFailure asks the API for the pods of a failed Job: the cache holds those only
// that have not ended.
func (r *Reconciler) observeFailure(ctx context.Context, b *batchv1.Job, j *job) error {
	var pods corev1.PodList
	err := r.live.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabels{batchv1.JobNameLabel: b.Name})
	if err != nil {
		return fmt.Errorf("list pods of Job %s: %w", b.Name, err)
	}
	if details := podsFailure(ownedPods(pods.Items, b.UID)); details != "" {
		j.failure = details + " (" + j.failure + ")"
	}
	return nil
}

func ownedPods(pods []corev1.Pod, job types.UID) []corev1.Pod {
	var own []corev1.Pod
	for i := range pods {
		if c := metav1.GetControllerOf(&pods[i]); c != nil && c.UID == job {
			own = append(own, pods[i])
		}
	}
	return own
}

// observePods looks how the pods of a running Job get on.
func (r *Reconciler) observePods(ctx context.Context, o *observed, b *batchv1.Job, j *job) error {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.MatchingFields{indexJobUID: string(b.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if t := podTrouble(p); t != nil {
			j.trouble = t
		}
		if !hasStarted(p) {
			j.pendingSince = p.CreationTimestamp.Time
		}
	}
	j.podGone = len(pods.Items) == 0 && hasTried(b)
	if len(pods.Items) > 0 || hasTried(b) || j.suspended {
		return nil
	}
	j.noPod, j.pendingSince = true, j.created
	if j.started.After(j.created) {
		j.pendingSince = j.started // it had been suspended
	}
	if o.now.Sub(j.created) < lookForPods {
		return nil
	}
	var events corev1.EventList
	err = r.live.List(ctx, &events, client.InNamespace(b.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(b.UID))})
	if err != nil {
		return fmt.Errorf("list Events of Job %s: %w", b.Name, err)
	}
	j.trouble = createTrouble(events.Items)
	return nil
}

// hasTried says whether pods of a Job have ended already.
func hasTried(b *batchv1.Job) bool {
	u := b.Status.UncountedTerminatedPods
	return b.Status.Failed > 0 || b.Status.Succeeded > 0 || u != nil && len(u.Succeeded)+len(u.Failed) > 0
}

// resumable is the age from which a Scan that has no state and no Job is looked up in
// storage before it is started: an operator that was killed right after it had created
// the Job may come back when the Job has ended and gone.
const resumable = time.Minute

// observeLost looks for Jobs that there should be and the cache does not show: it may
// be behind, or they are gone, and then their results tell how they ended.
func (r *Reconciler) observeLost(ctx context.Context, o *observed) error {
	p := phaseOf(o.scan, o.jobs)
	var err error
	if _, seen := o.jobOf(parserRole); p == phaseParsing && !seen {
		found, getErr := r.findJob(ctx, o, o.scan.Namespace, jobs.ParserName(o.scan, o.runs().of(parserRole)))
		if getErr != nil || found {
			return getErr
		}
		o.hasFindings, err = r.isStored(ctx, o, parserRole, executionv1.FindingsFile)
		return err
	}
	_, seen := o.jobOf(scannerRole)
	unrecorded := p == phaseNew && o.now.Sub(o.scan.CreationTimestamp.Time) > resumable && !r.gate.waits(o.scan.UID)
	if seen || p != phaseScanning && !unrecorded {
		return r.observeLostHooks(ctx, o, p)
	}
	found, err := r.findJob(ctx, o, o.scan.Namespace, jobs.ScannerName(o.scan, o.runs().of(scannerRole)))
	if err != nil || found {
		return err
	}
	file := o.scan.Status.RawResultFile
	if file == "" {
		t, err := r.catalog.ScanType(ctx, o.scan)
		if err != nil {
			return ignoreMissing(err) // it is asked for again, and reported, by observeNeeds
		}
		file = rawResultFile(t)
	}
	o.hasRawResult, err = r.isStored(ctx, o, scannerRole, file)
	return err
}

// isStored says whether the present run of a role has stored its result.
func (r *Reconciler) isStored(ctx context.Context, o *observed, by role, file string) (bool, error) {
	since, known := storedSince(o, by)
	if !known {
		return false, nil
	}
	at, found, err := r.store.Modified(ctx, store.OwnerOf(o.scan), file)
	return found && !at.Before(since.Truncate(time.Second)), err
}

// observeStored looks up what a Scan that has ended has stored, where an answer needs it.
func (r *Reconciler) observeStored(ctx context.Context, o *observed) error {
	if !isSettled(o) || !needsStored(o.scan) {
		return nil
	}
	owner := store.OwnerOf(o.scan)
	var err error
	if file := o.scan.Status.RawResultFile; file != "" {
		if o.storedRaw, err = r.store.Exists(ctx, owner, file); err != nil {
			return err
		}
	}
	o.storedFindings, err = r.store.Exists(ctx, owner, executionv1.FindingsFile)
	return err
}

// observeLostHooks does the same for hooks that are said to be in progress.
func (r *Reconciler) observeLostHooks(ctx context.Context, o *observed, p phase) error {
	if p != phaseHooks && !isSettled(o) {
		return nil
	}
	for _, group := range o.scan.Status.OrderedHookStatuses {
		for _, h := range group {
			if h.State != executionv1.HookStateInProgress || h.JobName == "" || o.hasJob(h.JobName) {
				continue
			}
			if err := r.findHookJob(ctx, o, h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) findHookJob(ctx context.Context, o *observed, h executionv1.HookStatus) error {
	namespace := o.scan.Namespace
	hooks, err := r.catalog.Hooks(ctx, o.scan)
	if err != nil {
		return err
	}
	for _, c := range hooks {
		if c.Name == h.HookName && c.ExecutionNamespace != "" {
			namespace = c.ExecutionNamespace
		}
	}
	_, err = r.findJob(ctx, o, namespace, h.JobName)
	return err
}

func (o *observed) hasJob(name string) bool {
	for _, j := range o.jobs {
		if j.name == name {
			return true
		}
	}
	return false
}

// findJob asks the API for a Job of the Scan.
func (r *Reconciler) findJob(ctx context.Context, o *observed, namespace, name string) (bool, error) {
	var b batchv1.Job
	err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &b)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Job %s: %w", name, err)
	}
	if !serves(&b, o.scan) {
		return false, nil
	}
	return true, r.addJob(ctx, o, &b)
}

// serves says whether a Job works for a Scan: by owner in its namespace, by label in
// an execution namespace. The UID counts, never the name.
func serves(b *batchv1.Job, scan *executionv1.Scan) bool {
	return scanUID(b) == string(scan.UID)
}

// scanUID is the UID of the Scan that a Job claims to work for, or "". In the Scan's
// namespace the owner reference says so; elsewhere a label does, which isTrusted
// compares with where the hook is to run.
func scanUID(b *batchv1.Job) string {
	if c := metav1.GetControllerOf(b); c != nil {
		if c.Kind == "Scan" && strings.HasPrefix(c.APIVersion, executionv1.SchemeGroupVersion.Group+"/") {
			return string(c.UID)
		}
		return ""
	}
	if namespace, _, ok := strings.Cut(b.Annotations[executionv1.AnnotationScan], "/"); ok && namespace != b.Namespace {
		return b.Labels[executionv1.LabelScanUID]
	}
	return ""
}

// observeNeeds looks up what the phase asks for next.
func (r *Reconciler) observeNeeds(ctx context.Context, o *observed) error {
	p := phaseOf(o.scan, o.jobs)
	// Whatever fails, there may be hooks that want to hear of it.
	var err error
	if o.hooks, err = r.catalog.Hooks(ctx, o.scan); err != nil {
		return err
	}
	if p == phaseNew || o.scan.Status.RawResultType == "" {
		o.scanType, err = r.catalog.ScanType(ctx, o.scan)
		if err != nil {
			return o.noteMissing(err, p <= phaseScanned)
		}
	}
	resultType := o.scan.Status.RawResultType
	if resultType == "" {
		resultType = o.scanType.ExtractResults.Type
	}
	if p >= phaseScanning {
		o.definition, err = r.catalog.ParseDefinition(ctx, o.scan, resultType)
		if err = o.noteMissing(err, p <= phaseScanned); err != nil {
			return err
		}
	}
	return err
}

// observeHooks looks up what is left to do for a Scan that cannot go on: the hooks that
// run nevertheless. An invalid selector selects none.
func (r *Reconciler) observeHooks(ctx context.Context, o *observed) error {
	var err error
	o.hooks, err = r.catalog.Hooks(ctx, o.scan)
	if _, invalid := errors.AsType[*catalog.InvalidSelectorError](err); invalid {
		return nil
	}
	if err != nil || !isSettled(o) {
		return err
	}
	return r.observeLostHooks(ctx, o, phaseHooks)
}

// noteMissing keeps what is missing for decide, where the phase needs it, and returns
// every other error.
func (o *observed) noteMissing(err error, needed bool) error {
	if m, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		if needed {
			o.missing = m
		}
		return nil
	}
	return err
}

func ignoreMissing(err error) error {
	if _, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		return nil
	}
	return err
}
