// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/access"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
)

// act does what was decided. Everything it does may be done twice.
func (r *Reconciler) act(ctx context.Context, o *observed, d *decision) error {
	if d.addFinalizer {
		return r.takeUp(ctx, o)
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
//
// Changed is a copy of the Scan, with what else the same write is to change.
func (r *Reconciler) patchFinalizers(ctx context.Context, scan, changed *executionv1.Scan, want bool) error {
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
	if why := r.unfit(o, l.hook); why != "" {
		return &rejection{trouble{executionv1.ReasonInvalidHook, why}, true}, nil
	}
	if why := forbidden(o, l); why != "" {
		return &rejection{trouble{executionv1.ReasonNotAllowed, why}, true}, nil
	}
	job, err := r.build(ctx, o, l)
	if patch, ok := errors.AsType[*tenancy.PatchError](err); ok {
		return &rejection{trouble{executionv1.ReasonPatchFailed, patch.Error()}, true}, nil
	}
	if why, ok := access.Conflict(err); ok {
		return &rejection{trouble{executionv1.ReasonJobRejected, why}, true}, nil
	}
	if err != nil {
		return nil, err
	}
	err = r.create(ctx, o, job, l)
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

// create creates a Job, or finds that it is there. The Gate is told before the scanner
// Job is there, and when it is certain that it is not.
func (r *Reconciler) create(ctx context.Context, o *observed, job *batchv1.Job, l launch) error {
	if l.role == scannerRole {
		r.gate.beginning(o.scan.UID)
	}
	err := r.client.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		err = r.checkOurs(ctx, o, job)
	}
	if l.role == scannerRole && isRefusal(err) {
		r.gate.notBegun(o.scan.UID)
	}
	return err
}

// isRefusal says whether an error is the API server's answer that it did not do what it
// was asked for. After any other error it may have.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*nameConflictError](err); ok {
		return true
	}
	reason := apierrors.ReasonForError(err)
	return reason != metav1.StatusReasonUnknown && reason != metav1.StatusReasonTimeout && reason != metav1.StatusReasonServerTimeout
}

// unfit says why this operator cannot run a hook that other operators may.
func (r *Reconciler) unfit(o *observed, h *catalog.Hook) string {
	switch {
	case h == nil:
		return ""
	case len(h.Spec.Outputs) > 0 && !r.store.OwnsFolder(store.OwnerOf(o.scan)):
		return "spec.outputs needs a folder for each Scan in storage, which S3_URL_TEMPLATE of the operator does not give: nobody would remove them"
	case h.ExecutionNamespace != "" && len(r.namespaces) > 0 && !slices.Contains(r.namespaces, h.ExecutionNamespace):
		return fmt.Sprintf("spec.executionNamespace %q is none of the namespaces that the operator works in; add it to --watch-namespaces (chart: watchNamespaces)", h.ExecutionNamespace)
	default:
		return ""
	}
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
	s, err := r.shapeOf(ctx, o, l)
	if err != nil {
		return nil, err
	}
	var job *batchv1.Job
	switch {
	case l.hook != nil:
		job, err = r.buildHook(ctx, o, l, s.config)
	case l.role == parserRole:
		job, err = r.buildParser(ctx, o, s.config)
	default:
		job, err = r.buildScanner(ctx, o, s.config)
	}
	if err != nil {
		return nil, err
	}
	return s.patch(job)
}

func (r *Reconciler) buildScanner(ctx context.Context, o *observed, cfg jobs.Config) (*batchv1.Job, error) {
	// The Role is made in any case: charts whose ScanTypes bring a ServiceAccount of
	// their own bind it to this Role.
	if err := r.access.EnsureLurker(ctx, o.scan.Namespace); err != nil {
		return nil, err
	}
	// Now and not when the raw result is there: then the parser waits for it.
	if _, err := r.access.EnsureParser(ctx, o.scan, o.scanType.ExtractResults.Type); err != nil {
		return nil, err
	}
	u, err := r.store.PresignUpload(ctx, store.OwnerOf(o.scan), rawResultFile(o.scanType), r.expiryOf(o).Scan)
	if err != nil {
		return nil, err
	}
	return jobs.NewScanner(jobs.Scanner{Scan: o.scan, ScanType: o.scanType, UploadURL: u, Attempt: o.runs().of(scannerRole), Rerun: rerunOf(newStatus(o).ScanStatus, o.runs().of(scannerRole))}, cfg)
}

func (r *Reconciler) buildParser(ctx context.Context, o *observed, cfg jobs.Config) (*batchv1.Job, error) {
	account, err := r.access.EnsureParser(ctx, o.scan, newStatus(o).RawResultType)
	if err != nil {
		return nil, err
	}
	if err := r.mirrors.EnsureMirror(ctx, o.scan, newStatus(o).RawResultType, o.definition); err != nil {
		return nil, err
	}
	owner := store.OwnerOf(o.scan)
	raw, err := r.store.PresignDownload(ctx, owner, newStatus(o).RawResultFile, r.expiryOf(o).Parser)
	if err != nil {
		return nil, err
	}
	findings, err := r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Parser)
	if err != nil {
		return nil, err
	}
	return jobs.NewParser(jobs.Parser{
		Scan: o.scan, Definition: o.definition, RawResultURL: raw, FindingsUploadURL: findings, ServiceAccount: account,
		Attempt: o.runs().of(parserRole), Rerun: rerunOf(newStatus(o).ScanStatus, o.runs().of(parserRole)),
	}, cfg), nil
}

func (r *Reconciler) buildHook(ctx context.Context, o *observed, l launch, cfg jobs.Config) (*batchv1.Job, error) {
	account, err := r.ensureHookAccess(ctx, o, l)
	if err != nil {
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
		ExecutionNamespace: l.hook.ExecutionNamespace, ServiceAccount: account, URLs: urls,
		Attempt: l.attempt, Rerun: rerunOf(newStatus(o).ScanStatus, l.attempt),
	}, cfg), nil
}

// ensureHookAccess makes sure that a hook can reach the Scan and returns the
// ServiceAccount that its pod runs as. An account that the hook brings has what its
// installer gave it.
func (r *Reconciler) ensureHookAccess(ctx context.Context, o *observed, l launch) (string, error) {
	own, resultType := ptr.Deref(l.hook.Spec.ServiceAccountName, ""), newStatus(o).RawResultType
	switch {
	case l.hook.ExecutionNamespace != "":
		return r.access.GrantHook(ctx, access.HookGrant{
			Scan: o.scan, ResultType: resultType, Hook: l.hook.Name, Namespace: l.hook.ExecutionNamespace, ServiceAccount: own,
		})
	case own != "":
		return own, nil
	default:
		return r.access.EnsureHook(ctx, o.scan, resultType)
	}
}

func (r *Reconciler) hookURLs(ctx context.Context, o *observed, l launch) (jobs.HookURLs, error) {
	owner, raw := store.OwnerOf(o.scan), newStatus(o).RawResultFile
	var urls jobs.HookURLs
	var errs [4]error
	urls.RawResult, errs[0] = r.store.PresignDownload(ctx, owner, raw, r.expiryOf(o).Hook)
	urls.Findings, errs[1] = r.store.PresignDownload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Hook)
	if l.hookType == executionv1.ReadAndWrite {
		urls.RawResultUpload, errs[2] = r.store.PresignUpload(ctx, owner, raw, r.expiryOf(o).Hook)
		urls.FindingsUpload, errs[3] = r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Hook)
	}
	for _, name := range l.hook.Spec.Outputs {
		u, err := r.store.PresignUpload(ctx, owner, name, r.expiryOf(o).Hook)
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
	for _, h := range d.revoke {
		if err := r.access.RevokeHook(ctx, o.scan, h.role.hook, h.namespace); err != nil {
			return fmt.Errorf("revoke access of hook %s: %w", h.role.hook, err)
		}
	}
	if d.releaseAccess {
		return r.access.ReleaseScan(ctx, o.scan)
	}
	return nil
}

// writeStatus writes the status if it differs from what was read, and tells what has
// changed. The resource version makes sure that nothing newer is overwritten; a
// conflict is tried again with what is new.
func (r *Reconciler) writeStatus(ctx context.Context, o *observed, d *decision) error {
	if d.freshLinks {
		d.status.FindingDownloadLink, d.status.RawResultDownloadLink, d.status.FindingHeadLink, d.status.RawResultHeadLink = "", "", "", ""
	}
	if d.links || d.freshLinks {
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
	if d.told != nil {
		r.gate.wasTold(o.scan.UID, d.told)
	}
	if n := d.queued; n != nil {
		r.events.Eventf(o.scan, nil, corev1.EventTypeNormal, n.reason, "Queue", "%s", n.message)
	}
	for _, n := range []*notice{d.notice, d.answer} {
		if n == nil {
			continue
		}
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
			return r.store.PresignLink(ctx, http.MethodGet, owner, executionv1.FindingsFile, store.DownloadExpiry)
		}},
		{&s.RawResultDownloadLink, s.RawResultFile, func() (string, error) {
			return r.store.PresignLink(ctx, http.MethodGet, owner, s.RawResultFile, store.DownloadExpiry)
		}},
		{&s.FindingHeadLink, executionv1.FindingsFile, func() (string, error) {
			return r.store.PresignLink(ctx, http.MethodHead, owner, executionv1.FindingsFile, r.expiry.Scan)
		}},
		{&s.RawResultHeadLink, s.RawResultFile, func() (string, error) {
			return r.store.PresignLink(ctx, http.MethodHead, owner, s.RawResultFile, r.expiry.Scan)
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
	return r.patchFinalizers(ctx, o.scan, o.scan.DeepCopy(), false)
}
