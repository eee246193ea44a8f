// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

const (
	// registryWait is how long a job waits for a Registry that is not there yet: both may be applied together.
	registryWait = 30 * time.Second
	// cancelWait is how long a cancelled job waits for its items.
	cancelWait = 60 * time.Second
	// poll is how often a job that waits is looked at without a watch: the reports API and the queue come back unwatched, and the event of
	// an older job's end may be missed.
	poll = 30 * time.Second
)

// Kind is that of a job.
type Kind string

// The kinds of jobs.
const (
	Discovery Kind = "DiscoveryJob"
	Scan      Kind = "ScanJob"
)

// ReasonCancelling of the condition Progressing is set while a cancelled job waits for its items.
const ReasonCancelling = "Cancelling"

// Hold is why no item is let in.
type Hold struct {
	Reason, Message string
	// Until is when to look again; zero: a watch tells.
	Until time.Time
}

// Items are those of the job by what they are.
type Items struct{ Total, Waiting, Working, Done, Failed int64 }

// Observation is what the life of a job is decided by.
type Observation struct {
	Now  time.Time
	Kind Kind

	Created, Started time.Time
	// Deleting has a deletion timestamp. Ended: the condition Completed is True or False.
	Deleting, Ended bool
	Cancel          bool
	// CancelSeen is when the condition Progressing first told of it.
	CancelSeen time.Time
	Deadline   time.Duration
	// RegistryFound: there is one of the name. RegistryReplaced: it has another UID than at the start, or is being deleted.
	RegistryFound, RegistryReplaced bool
	// Invalid is the field that can never work, with what to write.
	Invalid string
	// Holds are in their order; the first counts.
	Holds []Hold
	// OlderAtWork: another job of the kind works for the Registry, and is older.
	OlderAtWork bool
	// Asked: Items holds what the reports API says.
	Asked bool
	Items Items
	// Listing: repositories are not all read yet.
	Listing bool
}

// State is a condition to be written.
type State struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Decision is what is done.
type Decision struct {
	// Step is the name of the row, for logs and tests.
	Step string
	// Start: the time of the start, the Registry's UID and generation are noted, and the work is planned.
	Start bool
	// LetIn: items of the job may be let in.
	LetIn bool
	// TellWorkers that the job is cancelled.
	TellWorkers bool
	// Progressing and Completed are the conditions; empty ones are left as they are.
	Progressing, Completed State
	// RequeueAfter is when the job is looked at again; 0: a watch tells.
	RequeueAfter time.Duration
}

type row struct {
	name string
	when func(o Observation) bool
	then func(o Observation, d *Decision)
}

// rows are the life of a job.
var rows = []row{
	{"Gone", func(o Observation) bool { return o.Deleting }, nothing},
	{"Ended", func(o Observation) bool { return o.Ended }, nothing},
	{"Cancelled", func(o Observation) bool { return o.Cancel && isCancelled(o) }, fail(registryv1alpha1.ReasonCancelled)},
	{"Cancelling", func(o Observation) bool { return o.Cancel }, cancelling},
	{"RegistryGone", registryGone, fail(registryv1alpha1.ReasonRegistryGone)},
	{"RegistryNotFound", registryNotFound, fail(registryv1alpha1.ReasonRegistryNotFound)},
	{"NoRegistryYet", func(o Observation) bool { return !o.RegistryFound }, noRegistryYet},
	{"Invalid", func(o Observation) bool { return o.Invalid != "" }, invalid},
	{"TooLate", isTooLate, fail(registryv1alpha1.ReasonDeadlineExceeded)},
	{"Held", func(o Observation) bool { return len(o.Holds) > 0 }, held},
	{"Queued", func(o Observation) bool { return o.OlderAtWork }, queued},
	{"Plan", func(o Observation) bool { return o.Started.IsZero() }, plan},
	{"Unknown", func(o Observation) bool { return !o.Asked }, unknown},
	{"Work", func(o Observation) bool { return o.Items.Waiting+o.Items.Working > 0 }, work},
	{"End", func(Observation) bool { return true }, finish},
}

// messages explain the ends that are not for the items to decide.
var messages = map[string]string{
	registryv1alpha1.ReasonCancelled:        "the job was cancelled; what was made is kept",
	registryv1alpha1.ReasonRegistryGone:     "the Registry was deleted or made anew while the job worked; make another job",
	registryv1alpha1.ReasonRegistryNotFound: "there is no Registry of this name in the namespace",
	registryv1alpha1.ReasonDeadlineExceeded: "spec.deadlineSeconds have passed; the next job takes what is left",
}

// Decide says what is done about a job.
func Decide(o Observation) Decision {
	for _, r := range rows {
		if r.when(o) {
			d := Decision{Step: r.name}
			r.then(o, &d)
			return d
		}
	}
	return Decision{}
}

func nothing(Observation, *Decision) {}

func isCancelled(o Observation) bool {
	atWork := !o.Started.IsZero() && (!o.Asked || o.Items.Working > 0)
	return !atWork || !o.CancelSeen.IsZero() && o.Now.Sub(o.CancelSeen) >= cancelWait
}

func registryGone(o Observation) bool {
	return !o.Started.IsZero() && (!o.RegistryFound || o.RegistryReplaced)
}

func registryNotFound(o Observation) bool {
	return !o.RegistryFound && o.Now.Sub(o.Created) >= registryWait
}

func isTooLate(o Observation) bool {
	return !o.Started.IsZero() && !o.Now.Before(o.Started.Add(o.Deadline))
}

// end ends a job.
func end(d *Decision, status metav1.ConditionStatus, reason, message string) {
	d.Progressing = State{metav1.ConditionTrue, registryv1alpha1.ReasonFinished, "the job has ended"}
	d.Completed = State{status, reason, message}
}

// fail ends a job for a reason of messages.
func fail(reason string) func(Observation, *Decision) {
	return func(_ Observation, d *Decision) { end(d, metav1.ConditionFalse, reason, messages[reason]) }
}

// hold keeps a job waiting.
func hold(d *Decision, reason, message string) {
	d.Progressing = State{metav1.ConditionFalse, reason, message}
	d.Completed = State{metav1.ConditionUnknown, reason, "the job has not ended"}
}

// requeue has the job looked at again at a time at the latest; zero: at none.
func (d *Decision) requeue(o Observation, at time.Time) {
	if at.IsZero() {
		return
	}
	if after := max(at.Sub(o.Now), time.Millisecond); d.RequeueAfter == 0 || after < d.RequeueAfter {
		d.RequeueAfter = after
	}
}

// wait has the job looked at again by the poll, and when its deadline is over.
func (d *Decision) wait(o Observation) {
	d.requeue(o, o.Now.Add(poll))
	if !o.Started.IsZero() {
		d.requeue(o, o.Started.Add(o.Deadline))
	}
}

func unknown(o Observation, d *Decision) { d.wait(o) }

func cancelling(o Observation, d *Decision) {
	hold(d, ReasonCancelling, "waiting for what is being worked on")
	d.TellWorkers = true
	seen := o.CancelSeen
	if seen.IsZero() {
		seen = o.Now
	}
	d.requeue(o, seen.Add(cancelWait))
}

func noRegistryYet(o Observation, d *Decision) {
	hold(d, registryv1alpha1.ReasonRegistryNotReady, "there is no Registry of this name in the namespace yet")
	d.requeue(o, o.Created.Add(registryWait))
}

func invalid(o Observation, d *Decision) {
	end(d, metav1.ConditionFalse, registryv1alpha1.ReasonInvalid, o.Invalid)
}

func held(o Observation, d *Decision) {
	h := o.Holds[0]
	hold(d, h.Reason, h.Message)
	d.requeue(o, h.Until)
	d.wait(o)
}

func queued(o Observation, d *Decision) {
	hold(d, registryv1alpha1.ReasonQueued, "an older job of this kind works for the Registry")
	d.wait(o)
}

func plan(o Observation, d *Decision) {
	d.Start = true
	d.requeue(o, o.Now) // the next pass asks for the items
	d.Progressing = State{metav1.ConditionTrue, registryv1alpha1.ReasonPlanning, "what there is to do is being asked for"}
	d.Completed = State{metav1.ConditionUnknown, registryv1alpha1.ReasonPlanning, "the job has not ended"}
}

func work(o Observation, d *Decision) {
	d.LetIn = true
	reason, message := registryv1alpha1.ReasonWorking, "items are being worked on"
	if o.Listing {
		reason, message = registryv1alpha1.ReasonListing, "repositories are being listed"
	}
	d.Progressing = State{metav1.ConditionTrue, reason, message}
	d.Completed = State{metav1.ConditionUnknown, reason, "the job has not ended"}
	d.wait(o)
}

func finish(o Observation, d *Decision) {
	i := o.Items
	switch {
	case i.Total == 0:
		end(d, metav1.ConditionTrue, registryv1alpha1.ReasonNothingToDo, "nothing was wanted")
	case i.Failed == 0:
		end(d, metav1.ConditionTrue, registryv1alpha1.ReasonSucceeded, fmt.Sprintf("%d of %d are done", i.Done, i.Total))
	case i.Done == 0:
		end(d, metav1.ConditionFalse, registryv1alpha1.ReasonFailed, fmt.Sprintf("all %d failed; status.errors names some", i.Total))
	default:
		end(d, metav1.ConditionTrue, registryv1alpha1.ReasonCompletedWithErrors, fmt.Sprintf("%d of %d failed; status.errors names some", i.Failed, i.Total))
	}
}
