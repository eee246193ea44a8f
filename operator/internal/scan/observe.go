// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// observe reads what decide needs; nil where the Scan is gone. With an error it returns what it
// has read so far.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*life.Observation, error) {
	scan := &executionv1.Scan{}
	// This read waits until the cache has seen our own last write of the Scan.
	if err := r.client.Get(ctx, key, scan); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	o := &life.Observation{
		Now: r.clock.Now(), Settings: r.settings, Scan: scan, Found: scan.Status.DeepCopy(), OwnsFolder: r.store.OwnsFolder(store.OwnerOf(scan)),
		Turn: r.queue.Position(scan), Unbegun: r.ledger.isUnbegun(scan.UID),
	}
	r.observeOutage(o)
	known := r.ledger.recall(scan.UID)
	if known != nil {
		o.Trust(life.Recalled(scan, known))
	}
	if err := r.whole(ctx, o, known); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if err := r.observeSettings(ctx, o); err != nil {
		return o, err
	}
	if err := r.observeJobs(ctx, o, known == nil); err != nil {
		return o, err
	}
	if known == nil && !life.IsDeleted(o) {
		if err := r.adopt(ctx, o); err != nil {
			return o, err
		}
	}
	err := r.observeNeeds(ctx, o)
	if errors.Is(err, errGone) {
		return nil, nil
	}
	return o, err
}

// observeNeeds reads only what the rows need that may apply.
func (r *Reconciler) observeNeeds(ctx context.Context, o *life.Observation) error {
	for {
		need, more := life.NextNeed(o)
		if !more {
			return nil
		}
		if err := r.read(ctx, o, need); err != nil {
			return err
		}
		o.Known = o.Known.With(need)
	}
}

// read reads one need. An object that does not exist is not an error.
func (r *Reconciler) read(ctx context.Context, o *life.Observation, need life.Need) error {
	switch need {
	case life.NeedCanceller:
		return r.observeCanceller(ctx, o)
	case life.NeedHooks:
		return r.observeHooks(ctx, o)
	case life.NeedScanType, life.NeedResult:
		return r.observeScanType(ctx, o)
	case life.NeedDefinition:
		return r.observeDefinition(ctx, o)
	case life.NeedScanner:
		return r.observeLostScanner(ctx, o)
	case life.NeedRawResult:
		return r.observeRawResult(ctx, o)
	case life.NeedParser:
		return r.observeLostParser(ctx, o)
	case life.NeedHookJobs:
		return r.observeLostHooks(ctx, o)
	case life.NeedStored:
		return r.observeStored(ctx, o)
	case life.NeedWhole:
		return r.wholeAgain(ctx, o)
	}
	return nil
}

// observeJobs reads the Jobs of the Scan's UID and, where they run, their pods. An unknown state of
// the Scan does not change which Jobs may speak for it.
func (r *Reconciler) observeJobs(ctx context.Context, o *life.Observation, unknown bool) error {
	var list batchv1.JobList
	// This read does not wait for our own writes: under load a write of another Scan is always on its
	// way. The ledger has the Jobs that were made a moment ago, and observeLost finds others that the cache has not seen yet.
	err := r.client.List(ctx, &list, client.MatchingFields{indexScanUID: string(o.Scan.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	all := r.ledger.unseen(o.Scan.UID, o.Now, list.Items)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	for _, b := range all {
		trusted, err := r.isTrusted(ctx, o, b, unknown)
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

// isTrusted reports whether a Job may speak for the Scan. In the Scan's namespace the owner reference
// decides. Elsewhere any client that may create Jobs could claim to be a hook of any Scan: there a
// Job is trusted only in the namespace that a cluster admin chose for the hook. A Scan that has ended
// cleans up every Job with its label.
func (r *Reconciler) isTrusted(ctx context.Context, o *life.Observation, b *batchv1.Job, unknown bool) (bool, error) {
	if b.Namespace == o.Scan.Namespace || life.IsDeleted(o) || life.IsSettled(o) && !life.IsReopened(o) && !unknown {
		return true, nil
	}
	hooks, err := r.catalog.Hooks(ctx, o.Scan)
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
func (r *Reconciler) addJob(ctx context.Context, o *life.Observation, b *batchv1.Job) error {
	j := life.NewJob(b)
	var err error
	switch {
	case life.IsSettled(o) && !life.IsReopened(o) || life.IsDeleted(o):
	case j.Outcome == life.Complete:
		if j.Handover && (j.Role != life.ScannerRole || j.Fused) {
			err = r.observeReport(ctx, o, b, &j)
		}
	case j.Outcome == life.Failed:
		err = r.observeFailure(ctx, b, &j)
	default:
		err = r.observePods(ctx, o, b, &j)
	}
	o.Jobs = append(o.Jobs, life.Views(j, o.Scan, o.Now)...)
	return err
}

// observeFailure asks the API for the pods of a failed Job: the cache holds only pods that have
// not ended.
func (r *Reconciler) observeFailure(ctx context.Context, b *batchv1.Job, j *life.Job) error {
	details, err := r.lastFailureOf(ctx, b, j)
	j.Explained = details != ""
	switch {
	case err != nil:
		return err
	case details == "":
	case life.IsFinal(b):
		j.Failure = details // the controller's message adds its rule and a random name
	default:
		j.Failure = details + " (" + j.Failure + ")"
	}
	return nil
}

// lastFailureOf returns how the newest failed pod of a Job ended, and notes its container.
func (r *Reconciler) lastFailureOf(ctx context.Context, b *batchv1.Job, j *life.Job) (string, error) {
	var pods corev1.PodList
	err := r.live.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabels{batchv1.JobNameLabel: b.Name})
	if err != nil {
		return "", fmt.Errorf("list pods of Job %s: %w", b.Name, err)
	}
	details, ended := life.PodsFailure(life.OwnedPods(pods.Items, b.UID))
	j.Ended = cmp.Or(ended, j.Ended)
	return details, nil
}

// observePods reads the state of the pods of a running Job.
func (r *Reconciler) observePods(ctx context.Context, o *life.Observation, b *batchv1.Job, j *life.Job) error {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.MatchingFields{indexJobUID: string(b.UID)},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if j.Fused {
			j.ScannerEnded = latest(j.ScannerEnded, life.ScannerEnded(p))
			p = life.ActivePart(p)
		}
		if t := life.PodTrouble(p); t != nil {
			j.Trouble = t
		}
		j.Ended = cmp.Or(life.FailingContainer(p), j.Ended)
		if since := life.PendingSince(p); !since.IsZero() {
			j.PendingSince = since
		}
	}
	if j.FailedPods > 0 {
		if j.LastTry, err = r.lastFailureOf(ctx, b, j); err != nil {
			return err
		}
	}
	j.PodGone = len(pods.Items) == 0 && life.HasTried(b)
	if len(pods.Items) > 0 || life.HasTried(b) || j.Suspended {
		return nil
	}
	j.NoPod, j.PendingSince = true, j.Created
	if j.Started.After(j.Created) {
		j.PendingSince = j.Started // the Job had been suspended
	}
	// The Job controller sends no Event before it has seen the Job, and none once it has made a pod: such a pod has
	// ended, so that the cache does not have it, and the controller has not counted it yet.
	if o.Now.Sub(j.Created) < life.LookForPods || j.Started.IsZero() || b.Status.Active > 0 {
		return nil
	}
	var events corev1.EventList
	err = r.live.List(ctx, &events, client.InNamespace(b.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(b.UID))})
	if err != nil {
		return fmt.Errorf("list Events of Job %s: %w", b.Name, err)
	}
	if j.Trouble = life.CreateTrouble(events.Items); j.Trouble != nil {
		r.access.Doubt(b.Namespace) // the pod may lack its ServiceAccount
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// observeRawResult looks whether a Job that ran scanner and parser, and has failed, has stored the raw result.
func (r *Reconciler) observeRawResult(ctx context.Context, o *life.Observation) error {
	var err error
	o.HasRawResult, err = r.isStored(ctx, o, life.ScannerRole, o.RawResult().File)
	return err
}

// observeLostScanner looks for a scanner Job that should exist and that the cache does not show: the
// cache may be behind, or the Job is gone, and then its stored result shows how it ended.
func (r *Reconciler) observeLostScanner(ctx context.Context, o *life.Observation) error {
	found, err := r.findJob(ctx, o, o.Scan.Namespace, jobs.ScannerName(o.Scan, o.Attempts().For(life.ScannerRole)))
	if err != nil || found {
		return err
	}
	if o.RawResult() == (jobs.Result{}) {
		if err := r.observeScanType(ctx, o); err != nil {
			return err
		}
	}
	if file := o.RawResult().File; file != "" {
		o.HasRawResult, err = r.isStored(ctx, o, life.ScannerRole, file)
	}
	return err
}

// observeLostParser does the same for the parser.
func (r *Reconciler) observeLostParser(ctx context.Context, o *life.Observation) error {
	found, err := r.findJob(ctx, o, o.Scan.Namespace, jobs.ParserName(o.Scan, o.Attempts().For(life.ParserRole)))
	if err != nil || found {
		return err
	}
	o.HasFindings, err = r.isStored(ctx, o, life.ParserRole, executionv1.FindingsFile)
	return err
}

// isStored reports whether the present run of a role has stored its result.
func (r *Reconciler) isStored(ctx context.Context, o *life.Observation, by life.Role, file string) (bool, error) {
	since, known := life.StoredSince(o, by)
	if !known {
		return false, nil
	}
	at, found, err := r.store.Modified(ctx, store.OwnerOf(o.Scan), file)
	return found && !at.Before(since.Truncate(time.Second)), err
}

// observeStored looks up which results a Scan that has ended has stored.
func (r *Reconciler) observeStored(ctx context.Context, o *life.Observation) error {
	owner := store.OwnerOf(o.Scan)
	var err error
	if file := life.NewStatus(o).RawResultFile; names.CheckFile(file) == nil {
		if o.StoredRaw, err = r.store.Exists(ctx, owner, file); err != nil {
			return err
		}
	}
	o.StoredFindings, err = r.store.Exists(ctx, owner, executionv1.FindingsFile)
	return err
}

// observeLostHooks does the same for hooks that are InProgress in the status.
func (r *Reconciler) observeLostHooks(ctx context.Context, o *life.Observation) error {
	for _, group := range o.Scan.Status.OrderedHookStatuses {
		for _, h := range group {
			if h.State != executionv1.HookStateInProgress || h.JobName == "" || o.HasJob(h.JobName) {
				continue
			}
			if err := r.findHookJob(ctx, o, h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) findHookJob(ctx context.Context, o *life.Observation, h executionv1.HookStatus) error {
	namespace := o.Scan.Namespace
	hooks, err := r.catalog.Hooks(ctx, o.Scan)
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

// findJob asks the API for a Job of the Scan.
func (r *Reconciler) findJob(ctx context.Context, o *life.Observation, namespace, name string) (bool, error) {
	var b batchv1.Job
	err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &b)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Job %s: %w", name, err)
	}
	if !life.Serves(&b, o.Scan) {
		return false, nil
	}
	return true, r.addJob(ctx, o, &b)
}

// observeScanType looks up the ScanType, or notes that there is none.
func (r *Reconciler) observeScanType(ctx context.Context, o *life.Observation) error {
	var err error
	o.ScanType, err = r.catalog.ScanType(ctx, o.Scan)
	return noteMissing(o, err)
}

// observeDefinition looks up the ParseDefinition of the raw result, or notes that there is none.
func (r *Reconciler) observeDefinition(ctx context.Context, o *life.Observation) error {
	if o.Missing != "" {
		return nil // no ScanType says the type of the result
	}
	var err error
	o.Definition, err = r.catalog.ParseDefinition(ctx, o.Scan, o.RawResult().Type)
	return noteMissing(o, err)
}

// noteMissing records a missing object for the decision, and returns every other error.
func noteMissing(o *life.Observation, err error) error {
	if m, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		o.Missing = m.Error()
		return nil
	}
	return err
}

// observeHooks looks up the hooks that the Scan selects. An invalid selector selects none.
func (r *Reconciler) observeHooks(ctx context.Context, o *life.Observation) error {
	found, err := r.catalog.Hooks(ctx, o.Scan)
	if _, invalid := errors.AsType[*catalog.InvalidSelectorError](err); invalid {
		return nil
	}
	if err != nil {
		return err
	}
	o.Hooks = hooksOf(found)
	for i := range found {
		if o.Hooks[i].Tenant, err = r.tenantOf(ctx, o, &found[i]); err != nil {
			return err
		}
	}
	if life.IsSettled(o) && life.IsBrief(&o.Scan.Status) {
		o.Scan.Status.OrderedHookStatuses = life.BelievedHooks(&o.Scan.Status, o.Jobs, o.Hooks, life.MaxRun)
	}
	return nil
}

// hooksOf converts hooks to what decisions need of them.
func hooksOf(found []catalog.Hook) []life.Hook {
	hooks := make([]life.Hook, 0, len(found))
	for _, h := range found {
		hooks = append(hooks, life.Hook{Name: h.Name, Spec: h.Spec, ExecutionNamespace: h.ExecutionNamespace})
	}
	return hooks
}

func ignoreMissing(err error) error {
	if _, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		return nil
	}
	return err
}
