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
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/settings"
)

// act carries out a decision. All its actions are idempotent.
func (r *Reconciler) act(ctx context.Context, o *life.Observation, d *life.Decision) error {
	if d.AddFinalizer {
		return r.initialize(ctx, o)
	}
	if len(d.Create) > 0 {
		// The pod that gets the Scan finds in it the status that is about to be written.
		if err := r.signLinks(ctx, o, d); err != nil {
			return err
		}
	}
	if d.StartsScanner() && !r.queue.Reserve(o.Scan) {
		*d = life.Decision{Step: d.Step} // other Scans came first; the queue wakes this Scan later
		return nil
	}
	for _, l := range d.Create {
		rejected, err := r.launch(ctx, o, d, l)
		if err != nil {
			return err
		}
		if rejected != nil {
			*d = life.DecideRejected(o, d, l, *rejected)
			break
		}
	}
	if err := r.stopJobs(ctx, o, d); err != nil {
		return err
	}
	if err := r.writeRecord(ctx, o, d); err != nil {
		return err
	}
	if d.RemoveResults {
		if err := r.store.Remove(ctx, store.OwnerOf(o.Scan), d.RawResultFile, executionv1.FindingsFile); err != nil {
			return fmt.Errorf("remove forwarded results: %w", err)
		}
	}
	if d.Status != nil {
		if err := r.writeStatus(ctx, o, d); err != nil {
			return err
		}
	}
	switch {
	case d.DeleteScan:
		err := r.client.Delete(ctx, o.Scan, client.Preconditions{UID: &o.Scan.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return client.IgnoreNotFound(err)
	case d.RemoveStored, d.Release:
		return r.release(ctx, o, d)
	}
	return nil
}

// patchFinalizers replaces our finalizers and the legacy one by the wanted ones. It patches nothing
// else: a Scan that is decoded into our types and encoded again would lose what the types do not
// tell apart, such as empty lists.
//
// Changed is the Scan's metadata with all other changes of the same write.
func (r *Reconciler) patchFinalizers(ctx context.Context, scan, changed *executionv1.Scan, want ...string) error {
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool {
		return f == executionv1.FinalizerStorage || f == executionv1.FinalizerStorageLegacy || f == executionv1.FinalizerDelivery
	})
	changed.Finalizers = append(changed.Finalizers, want...)
	// A merge patch replaces a list as a whole: the lock keeps a finalizer that another client adds
	// at the same moment.
	err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(metadataOf(scan), client.MergeFromWithOptimisticLock{}))
	if err != nil && len(want) == 0 {
		return client.IgnoreNotFound(err)
	}
	return err
}

// launch creates the Job of a phase and the objects that the Job needs. A rejection that the user
// must see is returned apart from errors, which are retried. launch releases the slot where it is
// certain that no scanner Job exists.
func (r *Reconciler) launch(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest) (*life.Rejection, error) {
	job, rejected, err := r.prepare(ctx, o, d, l)
	absent := rejected != nil || err != nil
	if !absent {
		r.ledger.noteBegin(o.Scan.UID)
		refused := r.create(ctx, o, job)
		rejected, absent = rejectionOf(refused), isRefusal(refused)
		if refused != nil {
			err = fmt.Errorf("create Job %s: %w", job.Name, refused)
		}
	}
	if absent && l.Role == life.ScannerRole {
		r.queue.Release(o.Scan.UID, queue.NotCreated)
	}
	switch {
	case rejected != nil:
		return rejected, nil
	case err != nil:
		return nil, err
	case l.Hook != nil:
		life.NameHookJob(d.Status, l.Hook.Name, job.Name)
	}
	log.FromContext(ctx).Info("Created Job", "job", job.Name, "jobNamespace", job.Namespace, "jobType", job.Labels[executionv1.LabelJobType])
	return nil, nil
}

// prepare builds a Job, or returns the reason why it cannot.
func (r *Reconciler) prepare(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest) (*batchv1.Job, *life.Rejection, error) {
	job, err := r.build(ctx, o, d, l)
	if patch, ok := errors.AsType[*settings.PatchError](err); ok {
		return nil, finally(executionv1.ReasonPatchFailed, patch.Error()), nil
	}
	if why, ok := rbac.Conflict(err); ok {
		return nil, finally(executionv1.ReasonJobRejected, why), nil
	}
	return job, nil, err
}

// finally returns a rejection that a retry cannot change.
func finally(reason, message string) *life.Rejection {
	return &life.Rejection{Cause: life.Cause{Reason: reason, Message: message}, Final: true}
}

// create creates a Job; success if the Job exists and belongs to the Scan.
func (r *Reconciler) create(ctx context.Context, o *life.Observation, job *batchv1.Job) error {
	err := r.client.Create(ctx, job)
	if err == nil {
		r.ledger.noteMade(o.Scan.UID, job)
	}
	if apierrors.IsAlreadyExists(err) {
		err = r.checkOurs(ctx, o, job)
	}
	return err
}

// rejectionOf returns the rejection to show to the user for an error of creating a Job; nil where the error is only retried.
func rejectionOf(err error) *life.Rejection {
	if err == nil {
		return nil
	}
	if conflict, ok := errors.AsType[*nameConflictError](err); ok {
		return finally(executionv1.ReasonNameConflict, conflict.Error())
	}
	if why, ok := life.Classify(err); ok {
		return &why
	}
	return nil
}

// isRefusal reports whether an error says that the API server did not create the Job. After any
// other error the Job may exist.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*nameConflictError](err); ok {
		return true
	}
	reason := apierrors.ReasonForError(err)
	return reason != metav1.StatusReasonUnknown && reason != metav1.StatusReasonTimeout && reason != metav1.StatusReasonServerTimeout
}

// nameConflictError says that the Job of the needed name does not belong to the Scan.
type nameConflictError struct{ namespace, name string }

func (e *nameConflictError) Error() string {
	return fmt.Sprintf("Job %s/%s exists and does not belong to this Scan; delete it, then start the Scan again", e.namespace, e.name)
}

// checkOurs returns nil for an existing Job that works for this Scan.
func (r *Reconciler) checkOurs(ctx context.Context, o *life.Observation, want *batchv1.Job) error {
	var have batchv1.Job
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return err
	}
	if !life.Serves(&have, o.Scan) {
		return &nameConflictError{have.Namespace, have.Name}
	}
	return nil
}

// build makes sure that the objects exist which the pods of a phase need, presigns their URLs and
// builds the Job. It makes the URLs last, because they are short-lived.
func (r *Reconciler) build(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest) (*batchv1.Job, error) {
	s := r.shapeOf(o, l)
	var job *batchv1.Job
	var err error
	switch {
	case l.Hook != nil:
		job, err = r.buildHook(ctx, o, d, l, s.config)
	case l.Role == life.ParserRole:
		job, err = r.buildParser(ctx, o, d, l, s.config)
	default:
		job, err = r.buildScanner(ctx, o, d, l, s)
	}
	if err != nil {
		return nil, err
	}
	return s.patch(job)
}

func (r *Reconciler) buildScanner(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest, s jobShape) (*batchv1.Job, error) {
	// The Role is made in any case: charts whose ScanTypes bring a ServiceAccount of their own bind
	// that account to this Role.
	if err := r.access.EnsureLurker(ctx, o.Scan.Namespace); err != nil {
		return nil, err
	}
	definition, noAccount, err := r.ensureParserEarly(ctx, o)
	if err != nil {
		return nil, err
	}
	parser, err := r.fusedParser(ctx, o, d, l, s, definition)
	if err != nil {
		return nil, err
	}
	u, err := r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), l.Result.File, r.expiryOf(o).Scan)
	if err != nil {
		return nil, err
	}
	// No client renews the URL of the log: it lasts as long as a URL can.
	logURL, err := r.store.PresignUpload(ctx, store.OwnerOf(o.Scan), executionv1.ScannerLogFile, store.DownloadExpiry)
	if err != nil {
		return nil, err
	}
	return jobs.NewScanner(jobs.Scanner{
		Scan: o.Scan, ScanType: o.ScanType, UploadURL: u, LogUploadURL: logURL, NoAccount: noAccount, Attempt: l.Attempt, Rerun: l.Rerun, Parser: parser,
	}, s.config)
}

func (r *Reconciler) buildParser(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest, cfg jobs.Config) (*batchv1.Job, error) {
	handed, err := r.handOver(ctx, o, d, o.Definition.ScanAccess, true, r.expiryOf(o).Hook)
	if err != nil {
		return nil, err
	}
	account := ""
	if handed == nil {
		if account, err = r.access.EnsureParser(ctx, o.Scan, l.Result.Type); err != nil {
			return nil, err
		}
		if err := r.mirrors.EnsureMirror(ctx, o.Scan, l.Result.Type, o.Definition); err != nil {
			return nil, err
		}
	}
	owner := store.OwnerOf(o.Scan)
	raw, err := r.store.PresignDownload(ctx, owner, l.Result.File, r.expiryOf(o).Parser)
	if err != nil {
		return nil, err
	}
	findings, err := r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Parser)
	if err != nil {
		return nil, err
	}
	return jobs.NewParser(jobs.Parser{
		Scan: o.Scan, Definition: o.Definition, Result: l.Result, RawResultURL: raw, FindingsUploadURL: findings, ServiceAccount: account, Handover: handed,
		Attempt: l.Attempt, Rerun: l.Rerun, Hooks: l.Hooks,
	}, cfg), nil
}

func (r *Reconciler) buildHook(ctx context.Context, o *life.Observation, d *life.Decision, l life.JobRequest, cfg jobs.Config) (*batchv1.Job, error) {
	handed, err := r.handOver(ctx, o, d, l.Hook.Spec.ScanAccess, l.HookType == executionv1.ReadAndWrite, r.expiryOf(o).Hook)
	if err != nil {
		return nil, err
	}
	account := ptr.Deref(l.Hook.Spec.ServiceAccountName, "")
	if handed == nil {
		if account, err = r.ensureHookAccess(ctx, o, l); err != nil {
			return nil, err
		}
	}
	if o.Definition != nil && handed == nil {
		// The cascading hook reads it as well.
		if err := r.mirrors.EnsureMirror(ctx, o.Scan, l.Result.Type, o.Definition); err != nil {
			return nil, err
		}
	}
	urls, err := r.hookURLs(ctx, o, l)
	if err != nil {
		return nil, err
	}
	if urls.PreviousFindings, err = r.previousFindings(ctx, o.Scan); err != nil {
		return nil, err
	}
	return jobs.NewHook(jobs.Hook{
		Scan: o.Scan, Name: l.Hook.Name, Spec: l.Hook.Spec, Result: l.Result, Type: l.HookType,
		ExecutionNamespace: l.Hook.ExecutionNamespace, ServiceAccount: account, Handover: handed, URLs: urls,
		Attempt: l.Attempt, Rerun: l.Rerun,
	}, cfg), nil
}

// ensureHookAccess makes sure that a hook can reach the Scan and returns the ServiceAccount that
// its pod runs as. An account that the hook names has the rights that its installer granted.
func (r *Reconciler) ensureHookAccess(ctx context.Context, o *life.Observation, l life.JobRequest) (string, error) {
	own, resultType := ptr.Deref(l.Hook.Spec.ServiceAccountName, ""), l.Result.Type
	switch {
	case l.Hook.ExecutionNamespace != "":
		return r.access.GrantHook(ctx, rbac.HookGrant{
			Scan: o.Scan, ResultType: resultType, Hook: l.Hook.Name, Namespace: l.Hook.ExecutionNamespace, ServiceAccount: own,
		})
	case own != "":
		return own, nil
	default:
		return r.access.EnsureHook(ctx, o.Scan, resultType)
	}
}

func (r *Reconciler) hookURLs(ctx context.Context, o *life.Observation, l life.JobRequest) (jobs.HookURLs, error) {
	owner, raw := store.OwnerOf(o.Scan), l.Result.File
	var urls jobs.HookURLs
	var errs [4]error
	urls.RawResult, errs[0] = r.store.PresignDownload(ctx, owner, raw, r.expiryOf(o).Hook)
	urls.Findings, errs[1] = r.store.PresignDownload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Hook)
	if l.HookType == executionv1.ReadAndWrite {
		urls.RawResultUpload, errs[2] = r.store.PresignUpload(ctx, owner, raw, r.expiryOf(o).Hook)
		urls.FindingsUpload, errs[3] = r.store.PresignUpload(ctx, owner, executionv1.FindingsFile, r.expiryOf(o).Hook)
	}
	for _, name := range l.Hook.Spec.Outputs {
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

// stopJobs stops Jobs that must not run on: overdue Jobs are suspended, which ends their pods and
// keeps their status; Jobs of a deleted Scan are deleted.
func (r *Reconciler) stopJobs(ctx context.Context, o *life.Observation, d *life.Decision) error {
	for _, j := range d.Stop {
		b := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}}
		err := r.client.Patch(ctx, b, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("suspend Job %s: %w", j.Name, err)
		}
	}
	for _, j := range d.DeleteJobs {
		b := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}}
		policy := metav1.DeletePropagationBackground
		if j.Outcome == life.Running {
			policy = metav1.DeletePropagationForeground // the Job is gone only when its pods are
		}
		err := r.client.Delete(ctx, b, client.PropagationPolicy(policy))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Job %s: %w", j.Name, err)
		}
	}
	for _, h := range d.Revoke {
		if err := r.access.RevokeHook(ctx, o.Scan, h.Role.Hook, h.Namespace); err != nil {
			return fmt.Errorf("revoke access of hook %s: %w", h.Role.Hook, err)
		}
	}
	if d.ReleaseAccess && r.mayHaveAccount(o) {
		return r.access.ReleaseScan(ctx, o.Scan)
	}
	return nil
}

// writeStatus writes the status if it differs from the one read, and reports the changes. The
// resource version makes sure that no newer version is overwritten; after a conflict the pass is
// retried with the newer one.
func (r *Reconciler) writeStatus(ctx context.Context, o *life.Observation, d *life.Decision) error {
	if err := r.signLinks(ctx, o, d); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(*o.Found, *d.Status) {
		return nil
	}
	found, changed := withStatus(o.Scan, o.Found), withStatus(o.Scan, d.Status)
	err := r.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if o.Forged {
		log.FromContext(ctx).Info("Somebody else has written the status, which is put back")
	}
	if !life.IsDeleted(o) {
		r.ledger.note(o.Scan.UID, changed.Status.DeepCopy())
		r.queue.ScanSeen(changed) // the watch may have shown it before it was noted
	}
	r.metrics.changed(o.Scan, d.Status)
	r.decisions.ScanChanged(o.Scan, d.Status, o.Canceller)
	if d.ReportedPlace != nil {
		r.queue.Reported(o.Scan.UID, d.ReportedPlace)
	}
	if n := d.QueuedEvent; n != nil {
		r.events.Eventf(o.Scan, nil, corev1.EventTypeNormal, n.Reason, "Queue", "%s", n.Message)
	}
	r.sendEvents(o, d, d.Status.State)
	return nil
}

// metadataOf returns a Scan as far as a patch of its metadata compares it: the rest would be copied and encoded for nothing.
func metadataOf(scan *executionv1.Scan) *executionv1.Scan {
	return &executionv1.Scan{TypeMeta: scan.TypeMeta, ObjectMeta: *scan.ObjectMeta.DeepCopy()}
}

// withStatus returns a Scan as far as a patch of its status compares it: the rest would be copied and encoded for nothing.
func withStatus(scan *executionv1.Scan, status *executionv1.ScanStatus) *executionv1.Scan {
	return &executionv1.Scan{
		TypeMeta:   scan.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: scan.Namespace, Name: scan.Name, UID: scan.UID, ResourceVersion: scan.ResourceVersion},
		Status:     *status,
	}
}

// sendEvents sends the Events of a decision for a Scan in a state.
func (r *Reconciler) sendEvents(o *life.Observation, d *life.Decision, state executionv1.ScanState) {
	for _, n := range []*life.Event{d.Event, d.AnswerEvent} {
		if n != nil {
			r.events.Eventf(o.Scan, nil, corev1.EventTypeWarning, n.Reason, actionOf(state), "%s", n.Message)
		}
	}
}

// signLinks fills in the links that the decision asks for, once.
func (r *Reconciler) signLinks(ctx context.Context, o *life.Observation, d *life.Decision) error {
	if d.Status == nil || !d.Links && !d.FreshLinks {
		return nil
	}
	if d.FreshLinks {
		d.Status.FindingDownloadLink, d.Status.RawResultDownloadLink, d.Status.FindingHeadLink, d.Status.RawResultHeadLink = "", "", "", ""
		d.Status.ScannerLogDownloadLink = ""
	}
	if err := r.addLinks(ctx, o, d.Status); err != nil {
		return err
	}
	d.Links, d.FreshLinks = false, false
	return nil
}

// actionOf returns the action that Events of the operator name.
func actionOf(s executionv1.ScanState) string {
	if s == executionv1.ScanStateNew {
		return "Start"
	}
	return string(s)
}

// addLinks fills in the links that a status lacks.
func (r *Reconciler) addLinks(ctx context.Context, o *life.Observation, s *executionv1.ScanStatus) error {
	owner := store.OwnerOf(o.Scan)
	scannerLog := executionv1.ScannerLogFile
	if o.Scan.Settled() { // no pod will store it any more
		stored, err := r.store.Exists(ctx, owner, scannerLog)
		if err != nil {
			return err
		}
		if !stored {
			scannerLog = "" // no file, so no link
		}
	}
	links := []struct {
		link *string
		file string
		sign func() (string, error)
	}{
		{&s.ScannerLogDownloadLink, scannerLog, func() (string, error) {
			return r.store.PresignLink(ctx, http.MethodGet, owner, executionv1.ScannerLogFile, store.DownloadExpiry)
		}},
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
		if *l.link != "" || names.CheckFile(l.file) != nil {
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

// release removes the stored files of a deleted Scan and then its finalizers. While storage does
// not respond, release is retried until the clean-up deadline; then the Scan goes, and an Event
// and a metric say what may be left in storage.
func (r *Reconciler) release(ctx context.Context, o *life.Observation, d *life.Decision) error {
	if d.RemoveStored {
		err := r.store.Remove(ctx, store.OwnerOf(o.Scan), d.RawResultFile)
		// The annotation was edited: a retry does not help, and no Scan may hold a namespace back.
		nowhere := errors.Is(err, store.ErrNoPlace)
		if err != nil && !d.Release && !nowhere {
			return fmt.Errorf("remove stored results: %w", err)
		}
		switch {
		case nowhere:
			r.metrics.orphaned()
			r.events.Eventf(o.Scan, nil, corev1.EventTypeWarning, "StorageCleanupFailed", "Delete",
				"The results of Scan %s (UID %s) may be left in storage: %s", o.Scan.Name, o.Scan.UID, life.Clean(err.Error()))
		case err != nil:
			r.metrics.orphaned()
			log.FromContext(ctx).Error(err, "Stored results may be left behind", "scanUID", o.Scan.UID)
			r.events.Eventf(o.Scan, nil, corev1.EventTypeWarning, "StorageCleanupFailed", "Delete",
				"Storage did not answer for %s; the results of Scan %s (UID %s) may be left there.", r.settings.CleanupDeadline, o.Scan.Name, o.Scan.UID)
		}
	}
	if err := r.patchFinalizers(ctx, o.Scan, metadataOf(o.Scan)); err != nil {
		return err
	}
	if n := d.LostEvent; n != nil {
		r.metrics.lost()
		r.decisions.ScanDeletedUnforwarded(o.Scan, n.Message)
		r.events.Eventf(o.Scan, nil, corev1.EventTypeWarning, n.Reason, "Delete", "%s", n.Message)
	}
	return nil
}
