// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/access"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// act does what was decided. Everything it does may be done twice.
func (r *Reconciler) act(ctx context.Context, o *observed, d *decision) error {
	if d.addFinalizer {
		return r.patchFinalizers(ctx, o.scan, true)
	}
	for _, l := range d.launch {
		rejected, err := r.launch(ctx, o, d, l)
		if err != nil {
			return err
		}
		if rejected != nil {
			*d = decideRejected(o, d, l, *rejected)
			break
		}
	}
	if err := r.stopJobs(ctx, o, d); err != nil {
		return err
	}
	if d.status != nil {
		if err := r.writeStatus(ctx, o, d); err != nil {
			return err
		}
	}
	switch {
	case d.deleteScan:
		err := r.client.Delete(ctx, o.scan, client.Preconditions{UID: &o.scan.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return client.IgnoreNotFound(err)
	case d.removeStored, d.release:
		return r.release(ctx, o, d)
	}
	return nil
}

// patchFinalizers puts our finalizer in place of the legacy one, or removes both. It
// touches nothing else: a Scan that went through our types and back would lose what
// they do not tell apart, such as empty lists.
func (r *Reconciler) patchFinalizers(ctx context.Context, scan *executionv1.Scan, want bool) error {
	changed := scan.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool {
		return f == executionv1.FinalizerStorage || f == executionv1.FinalizerStorageLegacy
	})
	if want {
		changed.Finalizers = append(changed.Finalizers, executionv1.FinalizerStorage)
	}
	// Lists are replaced as a whole by a merge patch: the lock keeps a finalizer that
	// somebody else adds at this moment.
	err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(scan, client.MergeFromWithOptimisticLock{}))
	if err != nil && !want {
		return client.IgnoreNotFound(err)
	}
	return err
}

// launch creates the Job of a phase with what it needs. A refusal that the user has
// to hear of is returned apart from errors, which are tried again.
func (r *Reconciler) launch(ctx context.Context, o *observed, d *decision, l launch) (*rejection, error) {
	if l.hook != nil && len(l.hook.Spec.Outputs) > 0 && !r.store.OwnsFolder(store.OwnerOf(o.scan)) {
		return &rejection{trouble{
			executionv1.ReasonInvalidHook,
			"spec.outputs needs a folder for each Scan in storage, which S3_URL_TEMPLATE of the operator does not give: nobody would remove them",
		}, true}, nil
	}
	job, err := r.build(ctx, o, l)
	if conflict, ok := errors.AsType[*access.ConflictError](err); ok {
		return &rejection{trouble{executionv1.ReasonJobRejected, conflict.Error()}, true}, nil
	}
	if err != nil {
		return nil, err
	}
	err = r.client.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		err = r.checkOurs(ctx, o, job)
	}
	if conflict, ok := errors.AsType[*nameConflictError](err); ok {
		return &rejection{trouble{executionv1.ReasonNameConflict, conflict.Error()}, true}, nil
	}
	if err != nil {
		if why, ok := classify(err); ok {
			return &why, nil
		}
		return nil, fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	if l.hook != nil {
		nameHookJob(d.status, l.hook.Name, job.Name)
	}
	log.FromContext(ctx).Info("Created Job", "job", job.Name, "jobNamespace", job.Namespace, "jobType", job.Labels[executionv1.LabelJobType])
	return nil, nil
}

// nameConflictError says that a Job of the needed name belongs to something else.
type nameConflictError struct{ namespace, name string }

func (e *nameConflictError) Error() string {
	return fmt.Sprintf("Job %s/%s exists and does not belong to this Scan; delete it, then start the Scan again", e.namespace, e.name)
}

// checkOurs takes a Job that exists for success if it works for this Scan.
func (r *Reconciler) checkOurs(ctx context.Context, o *observed, want *batchv1.Job) error {
	var have batchv1.Job
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return err
	}
	if !serves(&have, o.scan) {
		return &nameConflictError{have.Namespace, have.Name}
	}
	return nil
}

func nameHookJob(s *executionv1.ScanStatus, hook, job string) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			if g[i].HookName == hook && g[i].State == executionv1.HookStateInProgress {
				g[i].JobName = job
			}
		}
	}
}

// build makes sure of what the pods of a phase need, presigns their URLs and builds
// the Job. URLs are made last: they are short-lived.
func (r *Reconciler) build(ctx context.Context, o *observed, l launch) (*batchv1.Job, error) {
	switch {
	case l.hook != nil:
		return r.buildHook(ctx, o, l)
	case l.role == parserRole:
		return r.buildParser(ctx, o)
	default:
		return r.buildScanner(ctx, o)
	}
}

func (r *Reconciler) buildScanner(ctx context.Context, o *observed) (*batchv1.Job, error) {
	// The Role is made in any case: charts whose ScanTypes bring a ServiceAccount of
	// their own bind it to this Role.
	if err := r.access.EnsureLurker(ctx, o.scan.Namespace); err != nil {
		return nil, err
	}
	// Now and not when the raw result is there: then the parser waits for it.
	if err := r.access.EnsureParser(ctx, o.scan.Namespace); err != nil {
		return nil, err
	}
	u, err := r.store.PresignUpload(ctx, store.OwnerOf(o.scan), rawResultFile(o.scanType), r.expiry.Scan)
	if err != nil {
		return nil, err
	}
	return jobs.NewScanner(jobs.Scanner{Scan: o.scan, ScanType: o.scanType, UploadURL: u, Attempt: attempt}, r.jobs)
}

func (r *Reconciler) buildParser(ctx context.Context, o *observed) (*batchv1.Job, error) {
	if err := r.access.EnsureParser(ctx, o.scan.Namespace); err != nil {
		return nil, err
	}
	if err := r.mirrors.EnsureMirror(ctx, o.scan, newStatus(o).RawResultType, o.definition); err != nil {
		return nil, err
	}
	owner := store.OwnerOf(o.scan)
	raw, err := r.store.PresignDownload(ctx, owner, newStatus(o).RawResultFile, r.expiry.Parser)
	if err != nil {
		return nil, err
	}
	findings, err := r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiry.Parser)
	if err != nil {
		return nil, err
	}
	return jobs.NewParser(jobs.Parser{
		Scan: o.scan, Definition: o.definition, RawResultURL: raw, FindingsUploadURL: findings, Attempt: attempt,
	}, r.jobs), nil
}

func (r *Reconciler) buildHook(ctx context.Context, o *observed, l launch) (*batchv1.Job, error) {
	if err := r.ensureHookAccess(ctx, o, l); err != nil {
		return nil, err
	}
	if o.definition != nil {
		// The cascading hook reads it as well.
		if err := r.mirrors.EnsureMirror(ctx, o.scan, newStatus(o).RawResultType, o.definition); err != nil {
			return nil, err
		}
	}
	urls, err := r.hookURLs(ctx, o, l)
	if err != nil {
		return nil, err
	}
	if urls.PreviousFindings, err = r.previousFindings(ctx, o.scan); err != nil {
		return nil, err
	}
	return jobs.NewHook(jobs.Hook{
		Scan: o.scan, Name: l.hook.Name, Spec: l.hook.Spec, Type: l.hookType,
		ExecutionNamespace: l.hook.ExecutionNamespace, URLs: urls, Attempt: l.attempt,
	}, r.jobs), nil
}

func (r *Reconciler) ensureHookAccess(ctx context.Context, o *observed, l launch) error {
	account, away := jobs.HookAccount(l.hook.Spec), l.hook.ExecutionNamespace
	ours := account == executionv1.ServiceAccountHook
	switch {
	case away == "" && ours:
		return r.access.EnsureHook(ctx, o.scan.Namespace)
	case away == "":
		return nil
	case ours:
		if err := r.access.EnsureHookAccount(ctx, away); err != nil {
			return err
		}
	}
	return r.access.GrantHook(ctx, access.HookGrant{Scan: o.scan, Hook: l.hook.Name, Namespace: away, ServiceAccount: account})
}

func (r *Reconciler) hookURLs(ctx context.Context, o *observed, l launch) (jobs.HookURLs, error) {
	owner, raw := store.OwnerOf(o.scan), newStatus(o).RawResultFile
	var urls jobs.HookURLs
	var errs [4]error
	urls.RawResult, errs[0] = r.store.PresignDownload(ctx, owner, raw, r.expiry.Hook)
	urls.Findings, errs[1] = r.store.PresignDownload(ctx, owner, executionv1.FindingsFile, r.expiry.Hook)
	if l.hookType == executionv1.ReadAndWrite {
		urls.RawResultUpload, errs[2] = r.store.PresignUpload(ctx, owner, raw, r.expiry.Hook)
		urls.FindingsUpload, errs[3] = r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiry.Hook)
	}
	for _, name := range l.hook.Spec.Outputs {
		u, err := r.store.PresignUpload(ctx, owner, name, r.expiry.Hook)
		if err != nil {
			return urls, err
		}
		if urls.Outputs == nil {
			urls.Outputs = map[string]string{}
		}
		urls.Outputs[name] = u
	}
	return urls, errors.Join(errs[:]...)
}

// stopJobs ends what must not go on: overdue Jobs are suspended, which ends their pods
// and keeps what they say; Jobs of a deleted Scan are deleted.
func (r *Reconciler) stopJobs(ctx context.Context, o *observed, d *decision) error {
	for _, j := range d.stop {
		b := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: j.name}}
		err := r.client.Patch(ctx, b, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("suspend Job %s: %w", j.name, err)
		}
	}
	for _, j := range d.deleteJobs {
		b := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: j.name}}
		policy := metav1.DeletePropagationBackground
		if j.outcome == running {
			policy = metav1.DeletePropagationForeground // the Job is gone only when its pods are
		}
		err := r.client.Delete(ctx, b, client.PropagationPolicy(policy))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Job %s: %w", j.name, err)
		}
	}
	for _, hook := range d.revoke {
		if err := r.access.RevokeHook(ctx, o.scan, hook); err != nil {
			return fmt.Errorf("revoke access of hook %s: %w", hook, err)
		}
	}
	return nil
}

// writeStatus writes the status if it differs from what was read, and tells what has
// changed. The resource version makes sure that nothing newer is overwritten; a
// conflict is tried again with what is new.
func (r *Reconciler) writeStatus(ctx context.Context, o *observed, d *decision) error {
	if d.links {
		if err := r.addLinks(ctx, o, d.status); err != nil {
			return err
		}
	}
	changed := o.scan.DeepCopy()
	changed.Status = *d.status
	if equality.Semantic.DeepEqual(o.scan.Status, changed.Status) {
		return nil
	}
	err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(o.scan, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	r.metrics.changed(o.scan, d.status)
	if n := d.notice; n != nil {
		r.events.Eventf(o.scan, nil, corev1.EventTypeWarning, n.reason, actionOf(d.status.State), "%s", n.message)
	}
	return nil
}

// actionOf is what the operator was doing, for Events.
func actionOf(s executionv1.ScanState) string {
	if s == executionv1.ScanStateNew {
		return "Start"
	}
	return string(s)
}

// addLinks fills in the links that a status lacks.
func (r *Reconciler) addLinks(ctx context.Context, o *observed, s *executionv1.ScanStatus) error {
	owner := store.OwnerOf(o.scan)
	links := []struct {
		link *string
		file string
		sign func() (string, error)
	}{
		{&s.FindingDownloadLink, executionv1.FindingsFile, func() (string, error) {
			return r.store.PresignDownload(ctx, owner, executionv1.FindingsFile, store.DownloadExpiry)
		}},
		{&s.RawResultDownloadLink, s.RawResultFile, func() (string, error) {
			return r.store.PresignDownload(ctx, owner, s.RawResultFile, store.DownloadExpiry)
		}},
		{&s.FindingHeadLink, executionv1.FindingsFile, func() (string, error) {
			return r.store.PresignHead(ctx, owner, executionv1.FindingsFile, r.expiry.Scan)
		}},
		{&s.RawResultHeadLink, s.RawResultFile, func() (string, error) {
			return r.store.PresignHead(ctx, owner, s.RawResultFile, r.expiry.Scan)
		}},
	}
	for _, l := range links {
		if *l.link != "" || l.file == "" {
			continue
		}
		u, err := l.sign()
		if err != nil {
			return err
		}
		*l.link = u
	}
	return nil
}

// release removes what a deleted Scan has stored and lets it go. Where storage does
// not answer, it is tried again until the clean-up deadline; then the Scan goes, and
// an Event and a metric tell what may be left.
func (r *Reconciler) release(ctx context.Context, o *observed, d *decision) error {
	if d.removeStored {
		err := r.store.Remove(ctx, store.OwnerOf(o.scan), o.scan.Status.RawResultFile)
		if err != nil && !d.release {
			return fmt.Errorf("remove stored results: %w", err)
		}
		if err != nil {
			r.metrics.orphaned()
			log.FromContext(ctx).Error(err, "Stored results may be left behind", "scanUID", o.scan.UID)
			r.events.Eventf(o.scan, nil, corev1.EventTypeWarning, "StorageCleanupFailed", "Delete",
				"Storage did not answer for %s; the results of Scan %s (UID %s) may be left there.", r.settings.CleanupDeadline, o.scan.Name, o.scan.UID)
		}
	}
	return r.patchFinalizers(ctx, o.scan, false)
}
