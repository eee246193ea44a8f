// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// view is what Images and Repositories have in common as items of work.
type view struct {
	resource, namespace, name, uid, version string

	registryUID   string
	state, reason string
	work          reportsv1.Work
	// left: the image is not in its registry any more.
	left bool
	// scanned: the image has a report.
	scanned    bool
	conditions []metav1.Condition
	generation int64
}

func viewOfImage(i *reportsv1.Image) view {
	v := view{
		resource: reportsclient.Images, namespace: i.Namespace, name: i.Name, uid: string(i.UID), version: i.ResourceVersion,
		registryUID: i.Spec.Registry.UID, state: i.Status.State, reason: i.Status.Reason,
		left:    i.Status.Presence != "" && i.Status.Presence != reportsv1.ImagePresent,
		scanned: i.Status.ScannedAt != nil, conditions: i.Status.Conditions, generation: i.Generation,
	}
	if v.state == "" {
		v.state = reportsv1.ImagePending
	}
	if i.Status.Work != nil {
		v.work = *i.Status.Work
	}
	return v
}

func viewOfRepository(r *reportsv1.Repository) view {
	v := view{
		resource: reportsclient.Repositories, namespace: r.Namespace, name: r.Name, uid: string(r.UID), version: r.ResourceVersion,
		registryUID: r.Spec.Registry.UID, state: r.Status.State, reason: r.Status.Reason, generation: r.Generation,
	}
	if v.state == "" {
		v.state = reportsv1.RepositoryWaiting
	}
	if r.Status.Work != nil {
		v.work = *r.Status.Work
	}
	return v
}

// jobID is the UID of the job that an item was last worked on for.
func (v view) jobID() string {
	if v.work.Job == nil {
		return ""
	}
	return v.work.Job.UID
}

// task is the job of a message, as far as a worker needs it.
type task struct {
	uid string
	// gone: there is no such job, or another one of its name.
	gone            bool
	cancel, suspend bool
	scheduled       bool
	retry           []registryv1alpha1.Retry
	force, full     bool
	dryRun          bool
	stopAfter       registryv1alpha1.StopAfter
	repositories    []string
	override        *registryv1alpha1.Filter
}

func taskOf(meta metav1.ObjectMeta, spec registryv1alpha1.JobSpec, uid string) task {
	trigger := registryv1alpha1.Trigger(meta.Labels[registryv1alpha1.LabelTrigger])
	return task{
		uid: uid, gone: string(meta.UID) != uid || meta.DeletionTimestamp != nil, cancel: spec.Cancel, suspend: spec.Suspend, retry: spec.Retry,
		repositories: spec.Repositories, scheduled: trigger == registryv1alpha1.TriggerSchedule || trigger == registryv1alpha1.TriggerDatabaseChange,
	}
}

// again tells whether a job has an item begin anew: once for each job.
func (t task) again(v view) bool {
	if v.jobID() == t.uid {
		return false
	}
	switch {
	case v.resource == reportsclient.Repositories:
		return true
	case v.state == reportsv1.ImageFailed:
		return t.scheduled || slices.Contains(t.retry, registryv1alpha1.RetryFailed)
	case v.state == reportsv1.ImageQuarantined:
		return slices.Contains(t.retry, registryv1alpha1.RetryQuarantined)
	}
	return false
}

// circumstances are what is known besides the item.
type circumstances struct {
	// now is the time of the reports API.
	now  time.Time
	task task
	// registryGone: there is no such Registry, or another one of its name.
	registryGone bool
	paused       bool
	// idle: the worker does nothing else.
	idle     bool
	unfit    string
	database item.Database
	wanted   bool
	// remake: the SBOM is to be made though the image has one, or had one.
	remake bool
	// quotaUntil is when the namespace may fetch again; zero: it may.
	quotaUntil time.Time
}

// observe puts together what item.Decide wants to know.
func observe(step item.Step, v view, d *queue.Delivery, uid string, c circumstances) item.Observation {
	o := item.Observation{
		Step: step, Now: c.now, State: v.state, Scanned: v.scanned, Claimed: v.work.Claim != "", Attempt: v.work.Attempt, Crashes: v.work.Crashes,
		Lost: v.work.Lost, Reason: v.reason, Redelivered: d.Redelivered, Cancelled: c.task.gone || c.task.cancel, Paused: c.paused || c.task.suspend,
		Again: c.task.again(v), Idle: c.idle, Unfit: c.unfit, Database: c.database, Wanted: c.wanted, QuotaUntil: c.quotaUntil,
		Gone: c.registryGone || uid != "" && uid != v.uid || v.registryUID != d.Registry.UID || v.left,
	}
	if v.work.LeaseExpiresAt != nil {
		o.Lease = v.work.LeaseExpiresAt.Time
	}
	if v.work.NotBefore != nil {
		o.NotBefore = v.work.NotBefore.Time
	}
	if c.remake && (v.state == reportsv1.ImageWaitingForMatch || v.state == reportsv1.ImageScanned) {
		o.State = reportsv1.ImagePending
	}
	return o
}

// object is JSON.
type object = map[string]any

// claimPatch claims an item, as it was read.
func claimPatch(v view, d item.Decision, step item.Step, claim, worker string, job *queue.Ref) object {
	work := object{
		"step": string(step), "claim": claim, "worker": worker, "attempt": d.Attempt, "crashes": d.Crashes, "lost": d.Lost, "startedAt": nil, "leaseExpiresAt": nil,
		"notBefore": nil,
	}
	if job != nil {
		work["job"] = object{"kind": job.Kind, "name": job.Name, "uid": job.UID}
	}
	return object{"metadata": object{"resourceVersion": v.version}, "status": object{"state": d.State, "work": work}}
}

// endPatch ends a try, or writes why none begins.
func endPatch(v view, n item.Next, message string, job *queue.Ref, now time.Time) object {
	work := object{
		"claim": nil, "worker": nil, "startedAt": nil, "leaseExpiresAt": nil, "attempt": n.Attempt, "crashes": n.Crashes, "lost": n.Lost, "notBefore": nil,
	}
	if !n.NotBefore.IsZero() {
		work["notBefore"] = n.NotBefore.UTC().Format(time.RFC3339)
	}
	if job != nil {
		work["job"] = object{"kind": job.Kind, "name": job.Name, "uid": job.UID}
	}
	status := object{"state": n.State, "reason": orNull(n.Reason), "message": orNull(message), "work": work}
	if v.resource == reportsclient.Images {
		status["conditions"] = readyOf(v, n, message, now)
	}
	return object{"metadata": object{"resourceVersion": v.version}, "status": status}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// readyOf gives the conditions of an image with its state.
func readyOf(v view, n item.Next, message string, now time.Time) []metav1.Condition {
	conditions := slices.Clone(v.conditions)
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: n.State, Message: message, ObservedGeneration: v.generation,
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	if n.Reason != "" {
		ready.Reason = n.Reason
	}
	if n.State == reportsv1.ImageScanned {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&conditions, ready)
	return conditions
}

// nextOf is what a decision without a try writes.
func nextOf(d item.Decision) item.Next {
	return item.Next{State: d.State, Reason: d.Reason, NotBefore: d.NotBefore, Attempt: d.Attempt, Crashes: d.Crashes, Lost: d.Lost}
}
