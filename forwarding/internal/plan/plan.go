// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

const (
	// writeEvery is how often a transfer that goes on is written down, and how long a Scan may be on its way before it says so.
	writeEvery = 30 * time.Second
	// lookEvery is when a Scan is looked at again without any reason.
	lookEvery = 10 * time.Minute
	maxResend = 253
)

// Sink is an effective sink of the Scan's namespace with what is known of it.
type Sink struct {
	settings.EffectiveSink

	// InForceSince is when the sink was first in force; zero: not yet known, and the Scan is looked at again when it is.
	InForceSince time.Time
	Health       Health
}

// Progress is what is known in memory of one Scan on its way to one sink.
type Progress struct {
	// Entry is how far the sink has the Scan, without its seal. Nil: as the Scan says.
	Entry *executionv1.SinkProgress
	// Running: a stream sends the Scan now.
	Running bool
	// Failure is why this Scan, and not the whole sink, does not go on; nil for no failure.
	Failure *sink.Error
	// Since is when the failure came, NextTry when the Scan is tried again; zero: not before its revision, epoch or resend changes.
	Since, NextTry time.Time
}

// Observation is everything that is looked at.
type Observation struct {
	Now      time.Time
	Scan     *executionv1.Scan
	Sinks    []Sink
	Progress map[string]Progress // by the sink's ID
	Keys     Keys
	// PendingSince is when the Scan was first seen due, Written when its status was last written; zero: not by this process.
	PendingSince, Written time.Time
}

// Decision is what to do.
type Decision struct {
	// Due are the IDs of the sinks that the Scan is to be sent to now, with what they have of it.
	Due []Due
	// Pending are the IDs of all sinks that do not have the Scan, Due among them.
	Pending []string
	// Ended is when the Scan ended.
	Ended time.Time
	// Status is what to write; nil for nothing.
	Status *Status
	// Events say to people what has happened, when Status was written.
	Events []Event
	// Forged counts entries that somebody else has written.
	Forged int
	// RequeueAfter is when to look again.
	RequeueAfter time.Duration
}

// Due is a Scan that a sink does not have.
type Due struct {
	Sink  Sink
	Entry executionv1.SinkProgress
}

// Status is what the forwarder has of a Scan's status.
type Status struct {
	Forwarding []executionv1.SinkProgress
	Conditions []metav1.Condition
}

// Event is for people.
type Event struct {
	Warning         bool
	Reason, Message string
}

// Reasons of Events on Scans.
const (
	EventForwarded        = "Forwarded"
	EventForwardingFailed = "ForwardingFailed"
	EventRecordsRejected  = "RecordsRejected"
)

// IsOver tells whether the Scan has results that will not change in this revision, and since when.
func IsOver(scan *executionv1.Scan) (time.Time, bool) {
	for i := range scan.Status.Conditions {
		if c := &scan.Status.Conditions[i]; c.Type == executionv1.ConditionHooksCompleted && c.Status == metav1.ConditionTrue {
			if !scan.Status.FinishedAt.IsZero() {
				return scan.Status.FinishedAt.Time, true
			}
			return c.LastTransitionTime.Time, true
		}
	}
	if scan.Status.State != executionv1.ScanStateErrored {
		return time.Time{}, false
	}
	for _, group := range scan.Status.OrderedHookStatuses {
		for i := range group {
			if s := group[i].State; group[i].AfterFailure && (s == executionv1.HookStatePending || s == executionv1.HookStateInProgress) {
				return time.Time{}, false
			}
		}
	}
	if scan.Status.FinishedAt.IsZero() {
		return scan.CreationTimestamp.Time, true
	}
	return scan.Status.FinishedAt.Time, true
}

// Fresh is an entry of a Scan of which the sink has nothing.
func Fresh(scan *executionv1.Scan, s *Sink) executionv1.SinkProgress {
	return executionv1.SinkProgress{Sink: s.ID, Epoch: s.Sink.Epoch, Revision: int32(min(mapping.Revision(scan), 1<<31-1)), Resend: resendOf(scan)}
}

func resendOf(scan *executionv1.Scan) string {
	resend := scan.Annotations[executionv1.AnnotationResend]
	return resend[:min(len(resend), maxResend)]
}

// Complete tells whether the sink has all.
func Complete(entry *executionv1.SinkProgress) bool { return entry.CompletedAt != nil }

// SameRun tells whether two entries are of the same sending: what is complete in one is complete.
func SameRun(a, b *executionv1.SinkProgress) bool {
	return a.Sink == b.Sink && a.Epoch == b.Epoch && a.Revision == b.Revision && a.Resend == b.Resend
}

// lane is one sink with all that is known of this Scan there.
type lane struct {
	sink     *Sink
	entry    executionv1.SinkProgress // the best that is known
	stored   *executionv1.SinkProgress
	progress Progress
}

// done tells whether nothing is left to send.
func (l *lane) done() bool { return Complete(&l.entry) }

// blocked tells whether the lane waits for something else than a turn.
func (l *lane) blocked(now time.Time) bool {
	return l.sink.OutOfBounds != "" || l.progress.Failure != nil && (l.progress.NextTry.IsZero() || l.progress.NextTry.After(now))
}

// Decide looks at one Scan.
func Decide(o Observation) Decision {
	ended, over := IsOver(o.Scan)
	if !over || len(o.Sinks) == 0 || o.Scan.Released() {
		return Decision{Ended: ended}
	}
	d := Decision{Ended: ended, RequeueAfter: lookEvery}
	valid := map[string]*executionv1.SinkProgress{}
	for i := range o.Scan.Status.Forwarding {
		if e := &o.Scan.Status.Forwarding[i]; o.Keys.Valid(o.Scan.UID, *e) {
			valid[e.Sink] = e
		} else {
			d.Forged++
		}
	}
	lanes := o.lanes(ended, valid)
	for i := range lanes {
		l := &lanes[i]
		if l.done() {
			continue
		}
		d.Pending = append(d.Pending, l.sink.ID)
		if !l.blocked(o.Now) {
			d.Due = append(d.Due, Due{*l.sink, l.entry})
		} else if next := l.progress.NextTry; !next.IsZero() {
			d.RequeueAfter = min(d.RequeueAfter, max(next.Sub(o.Now), time.Millisecond))
		}
	}
	if len(lanes) > 0 {
		o.write(&d, lanes)
	}
	return d
}

// lanes are the sinks that the Scan is for.
func (o *Observation) lanes(ended time.Time, valid map[string]*executionv1.SinkProgress) []lane {
	var lanes []lane
	for i := range o.Sinks {
		s := &o.Sinks[i]
		fresh := Fresh(o.Scan, s)
		l := lane{sink: s, entry: fresh, progress: o.Progress[s.ID]}
		if e := valid[s.ID]; e != nil && SameRun(e, &fresh) {
			l.entry, l.stored = *e, e
		}
		if e := l.progress.Entry; e != nil && SameRun(e, &fresh) && (l.stored == nil || !Complete(l.stored)) {
			l.entry = *e
		} else if e != nil && !SameRun(e, &fresh) {
			l.progress.Failure = nil // it was of another run
		}
		if l.stored != nil || l.done() || s.Sink.Since == settingsv1alpha2.SinceAll || isSince(s.InForceSince, ended) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// isSince tells whether a Scan ended after a sink came into force. Times of Kubernetes are by the second.
func isSince(force, ended time.Time) bool {
	return !force.IsZero() && !ended.Before(force.Truncate(time.Second))
}

// write decides what of the status is written, and when.
func (o *Observation) write(d *Decision, lanes []lane) {
	condition := conditionOf(o, lanes)
	present := Find(o.Scan.Status.Conditions, executionv1.ConditionForwarded)
	if present != nil && present.Reason == ReasonHeld && condition.Status != metav1.ConditionTrue {
		condition = *present.DeepCopy() // the operator says why it waits
	}
	entries := o.entries(lanes)
	conditions := WithCondition(o.Scan, condition, o.Now)
	if equality.Semantic.DeepEqual(entries, o.Scan.Status.Forwarding) && equality.Semantic.DeepEqual(conditions, o.Scan.Status.Conditions) {
		return
	}
	if wait := o.patience(lanes, present, &condition); wait > 0 {
		d.RequeueAfter = min(d.RequeueAfter, wait)
		return
	}
	d.Status = &Status{Forwarding: entries, Conditions: conditions}
	d.Events = eventsOf(present, &condition)
}

// patience is how long the write waits: nothing for what is complete and for a new failure, else until the Scan, or the last
// write, is 30 seconds old.
func (o *Observation) patience(lanes []lane, present, wanted *metav1.Condition) time.Duration {
	for i := range lanes {
		if l := &lanes[i]; l.done() && (l.stored == nil || !Complete(l.stored)) {
			return 0
		}
	}
	isNew := present == nil || present.Status != wanted.Status || present.Reason != wanted.Reason
	if isNew && (wanted.Status != metav1.ConditionUnknown || present != nil && present.Status == metav1.ConditionTrue) {
		return 0 // a failure is told at once, and nobody may take an earlier run's success for this one's
	}
	from := o.PendingSince
	if o.Written.After(from) {
		from = o.Written
	}
	if from.IsZero() {
		from = o.Now
	}
	return from.Add(writeEvery).Sub(o.Now)
}

// entries are those of the sinks that are in force, sorted as they are in the settings, with their seals.
func (o *Observation) entries(lanes []lane) []executionv1.SinkProgress {
	var entries []executionv1.SinkProgress
	for i := range lanes {
		switch l := &lanes[i]; {
		case l.stored != nil && equality.Semantic.DeepEqual(unsealed(*l.stored), unsealed(l.entry)):
			entries = append(entries, *l.stored)
		case l.entry.Sequence > 0 || l.done():
			entries = append(entries, o.Keys.Seal(o.Scan.UID, l.entry))
		}
	}
	return entries
}

func unsealed(e executionv1.SinkProgress) executionv1.SinkProgress {
	e.Seal = ""
	return e
}

// Forwarded is the condition of that name; nil where there is none.
func Forwarded(scan *executionv1.Scan) *metav1.Condition {
	return Find(scan.Status.Conditions, executionv1.ConditionForwarded)
}

// Find returns the condition of a type; nil where there is none.
func Find(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// WithCondition are the conditions of the Scan with this one, in the order in which everybody writes them.
func WithCondition(scan *executionv1.Scan, condition metav1.Condition, now time.Time) []metav1.Condition {
	conditions := slices.Clone(scan.Status.Conditions)
	condition.ObservedGeneration = scan.Generation
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if present := Find(conditions, condition.Type); present == nil {
		conditions = append(conditions, condition)
	} else {
		if present.Status == condition.Status {
			condition.LastTransitionTime = present.LastTransitionTime
		}
		*present = condition
	}
	order := executionv1.ConditionOrder()
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int { return slices.Index(order, a.Type) - slices.Index(order, b.Type) })
	return conditions
}

// eventsOf tells people what has changed.
func eventsOf(present, wanted *metav1.Condition) []Event {
	failed := present != nil && present.Status == metav1.ConditionFalse
	switch {
	case wanted.Status == metav1.ConditionTrue && failed:
		return []Event{{Reason: EventForwarded, Message: wanted.Message}}
	case wanted.Status != metav1.ConditionFalse || failed && present.Reason == wanted.Reason:
		return nil
	case wanted.Reason == string(sink.RecordsRejected):
		return []Event{{Warning: true, Reason: EventRecordsRejected, Message: wanted.Message}}
	}
	return []Event{{Warning: true, Reason: EventForwardingFailed, Message: wanted.Message}}
}
