// SPDX-License-Identifier: Apache-2.0

package validity

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/exception"
)

// soon is how long before its end an exception says so.
const soon = 14 * 24 * time.Hour

// maxMessage is how many bytes a condition's message may have.
const maxMessage = 1024

// Decision is what act should do. The zero Decision does nothing.
type Decision struct {
	// Step is the reason of the condition Active, for logs and tests; no code reads it.
	Step string
	// Status is what the status should be; nil if it is already correct.
	Status *settingsv1alpha2.FindingExceptionStatus
	// Events are sent after the status was written.
	Events []Event
	// RequeueAfter is when the next time comes that changes the status; 0 if none does.
	RequeueAfter time.Duration
}

// Event is an Event for users, of type Normal or Warning.
type Event struct{ Type, Reason, Message string }

// decider makes one Decision.
type decider struct {
	*Observation
	exception  exception.Exception
	generation int64
	phase      exception.Phase
	before     *settingsv1alpha2.FindingExceptionStatus
	after      settingsv1alpha2.FindingExceptionStatus
	decision   Decision
}

// Decide returns what the status of the observed exception should be.
func Decide(o *Observation) Decision {
	d := decider{Observation: o}
	d.exception, d.generation, d.before = o.subject()
	d.phase, d.after = d.exception.PhaseAt(o.Now), *d.before.DeepCopy()
	d.after.ObservedGeneration = d.generation
	d.active()
	d.ending()
	d.stamped()
	d.matched()
	if !equality.Semantic.DeepEqual(*d.before, d.after) {
		d.decision.Status = &d.after
	}
	return d.decision
}

// active says whether the exception holds.
func (d *decider) active() {
	c := metav1.Condition{Type: settingsv1alpha2.ConditionActive, Status: metav1.ConditionFalse, Reason: string(d.phase)}
	spec := &d.exception.Spec
	switch problem := exception.Check(d.exception); {
	case d.phase == exception.Expired:
		c.Message = fmt.Sprintf("The exception ended at %s: its findings are open again.", utc(spec.ExpiresAt))
	case problem != nil:
		c.Reason, c.Message = settingsv1alpha2.ReasonInvalid, "The exception matches nothing: "+problem.String()+"."
	case d.phase == exception.NotYet:
		c.Message = fmt.Sprintf("The exception begins at %s.", utc(spec.NotBefore))
		d.requeueAt(spec.NotBefore.Time)
	case spec.ExpiresAt != nil:
		c.Status, c.Message = metav1.ConditionTrue, fmt.Sprintf("The exception holds until %s.", utc(spec.ExpiresAt))
	default:
		c.Status, c.Message = metav1.ConditionTrue, "The exception holds without an end."
	}
	c.Message = text.Cut(c.Message, maxMessage)
	before := meta.FindStatusCondition(d.before.Conditions, c.Type)
	if c.Reason == settingsv1alpha2.ReasonInvalid && (before == nil || before.Reason != c.Reason) {
		d.report(corev1.EventTypeWarning, &c)
	}
	d.set(&c)
	d.decision.Step = c.Reason
}

// ending says whether the exception ends soon.
func (d *decider) ending() {
	c := metav1.Condition{
		Type: settingsv1alpha2.ConditionExpiresSoon, Status: metav1.ConditionFalse, Reason: settingsv1alpha2.ReasonHolds,
		Message: "The exception does not end within 14 days.",
	}
	switch end := d.exception.Spec.ExpiresAt; {
	case d.phase == exception.Expired:
		c.Reason, c.Message = settingsv1alpha2.ReasonExpired, "The exception has ended."
	case end == nil:
	case end.Sub(d.Now) > soon:
		d.requeueAt(end.Add(-soon))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, settingsv1alpha2.ReasonExpiresSoon
		c.Message = fmt.Sprintf("The exception ends at %s. Its findings are open again from then on: mend them, or set spec.expiresAt to a later time.", utc(end))
		if !meta.IsStatusConditionTrue(d.before.Conditions, c.Type) {
			d.report(corev1.EventTypeNormal, &c)
		}
		d.requeueAt(end.Time)
	}
	d.set(&c)
}

// stamped says whether it is known who made the exception and who changed it last.
func (d *decider) stamped() {
	c := metav1.Condition{Type: settingsv1alpha2.ConditionStamped, Status: metav1.ConditionFalse}
	made := &d.Made
	switch {
	case made.CreatedBy != "" && made.ChangedBy != "":
		c.Status, c.Reason = metav1.ConditionTrue, settingsv1alpha2.ReasonStamped
		c.Message = "Admission has stamped who made the exception and who changed it last."
	case !d.Admission:
		c.Reason = settingsv1alpha2.ReasonNoAdmission
		c.Message = "The stamp is missing: the operator serves no webhook, so that nobody says who makes and who changes exceptions."
	case made.CreatedBy == "":
		c.Reason = settingsv1alpha2.ReasonNotStamped
		c.Message = "The stamp is missing: the exception was made while the API server did not ask the operator's webhook. Make it anew to have it stamped."
	default:
		c.Reason = settingsv1alpha2.ReasonChangeNotStamped
		c.Message = "The stamp does not fit: spec was changed while the API server did not ask the operator's webhook. The next change of spec is stamped."
	}
	d.set(&c)
	d.after.CreatedBy, d.after.ChangedBy, d.after.ChangedAt = made.CreatedBy, made.ChangedBy, nil
	if !made.ChangedAt.IsZero() {
		d.after.ChangedAt = &metav1.Time{Time: made.ChangedAt}
	}
}

// matched adds up the findings of the latest Scans. Scans are deleted after a while, so that the time of the last match
// only moves forward.
func (d *decider) matched() {
	if !d.Counted {
		return
	}
	d.after.Matched = new(int64)
	for _, m := range d.Matches {
		if m.Latest {
			*d.after.Matched += m.Findings
		}
		if m.FinishedAt != nil && (d.after.LastMatched == nil || d.after.LastMatched.Before(m.FinishedAt)) {
			d.after.LastMatched = m.FinishedAt
		}
	}
}

// requeueAt requests a pass at a time, which may not be later than the one requested so far.
func (d *decider) requeueAt(t time.Time) {
	if after := t.Sub(d.Now); d.decision.RequeueAfter == 0 || after < d.decision.RequeueAfter {
		d.decision.RequeueAfter = after
	}
}

func (d *decider) report(kind string, c *metav1.Condition) {
	d.decision.Events = append(d.decision.Events, Event{kind, c.Reason, c.Message})
}

func (d *decider) set(c *metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = d.generation, metav1.NewTime(d.Now)
	meta.SetStatusCondition(&d.after.Conditions, *c)
}

func utc(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
