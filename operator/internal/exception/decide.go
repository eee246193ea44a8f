// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

// soon is how long before its end an exception says so.
const soon = 14 * 24 * time.Hour

// maxMessage is how many bytes a condition's message may have.
const maxMessage = 1024

// Observation is all that a decision is made of.
type Observation struct {
	Exception  exception.Exception
	Generation int64
	Conditions []metav1.Condition
	Now        time.Time
	// Made is what is known of who made the exception. Admission says that the operator serves the webhook that stamps.
	Made      stamp.Stamp
	Admission bool
}

// Decision is what the status becomes, and what is told.
type Decision struct {
	Conditions []metav1.Condition
	Events     []Event
	// RequeueAfter is when to look again, 0 for never.
	RequeueAfter time.Duration
}

// Event is one for users.
type Event struct{ Type, Reason, Message string }

// Decide says whether an exception holds. It changes nothing that it is given.
func Decide(o Observation) Decision {
	d := Decision{Conditions: append([]metav1.Condition(nil), o.Conditions...)}
	active := metav1.Condition{Type: settingsv1alpha2.ConditionActive, Status: metav1.ConditionFalse, ObservedGeneration: o.Generation}
	spec, phase := &o.Exception.Spec, o.Exception.PhaseAt(o.Now)
	active.Reason, active.Message = string(phase), ""
	switch problem := exception.Check(o.Exception); {
	case phase == exception.Expired:
		active.Message = fmt.Sprintf("The exception ended at %s: its findings are open again.", utc(spec.ExpiresAt))
	case problem != nil:
		active.Reason, active.Message = settingsv1alpha2.ReasonInvalid, "The exception matches nothing: "+problem.String()+"."
	case phase == exception.NotYet:
		active.Message = fmt.Sprintf("The exception begins at %s.", utc(spec.NotBefore))
		d.RequeueAfter = spec.NotBefore.Sub(o.Now)
	case spec.ExpiresAt != nil:
		active.Status, active.Message = metav1.ConditionTrue, fmt.Sprintf("The exception holds until %s.", utc(spec.ExpiresAt))
	default:
		active.Status, active.Message = metav1.ConditionTrue, "The exception holds without an end."
	}
	active.Message = text.Cut(active.Message, maxMessage)
	before := meta.FindStatusCondition(o.Conditions, active.Type)
	if active.Reason == settingsv1alpha2.ReasonInvalid && (before == nil || before.Reason != active.Reason) {
		d.Events = append(d.Events, Event{corev1.EventTypeWarning, active.Reason, active.Message})
	}
	d.set(active, o.Now)
	d.ending(&o, phase)
	d.stamped(&o)
	return d
}

// stamped says whether it is known who made the exception and who changed it last.
func (d *Decision) stamped(o *Observation) {
	c := metav1.Condition{Type: settingsv1alpha2.ConditionStamped, Status: metav1.ConditionFalse, ObservedGeneration: o.Generation}
	switch made := &o.Made; {
	case made.CreatedBy != "" && made.ChangedBy != "":
		c.Status, c.Reason = metav1.ConditionTrue, settingsv1alpha2.ReasonStamped
		c.Message = "Admission has stamped who made the exception and who changed it last."
	case !o.Admission:
		c.Reason = settingsv1alpha2.ReasonNoAdmission
		c.Message = "The stamp is missing: the operator serves no webhook, so that nobody says who makes and who changes exceptions."
	case made.CreatedBy == "":
		c.Reason = settingsv1alpha2.ReasonNotStamped
		c.Message = "The stamp is missing: the exception was made while the API server did not ask the operator's webhook. Make it anew to have it stamped."
	default:
		c.Reason = settingsv1alpha2.ReasonChangeNotStamped
		c.Message = "The stamp does not fit: spec was changed while the API server did not ask the operator's webhook. The next change of spec is stamped."
	}
	d.set(c, o.Now)
}

// ending tells of an end that is near, and has it looked at when it comes.
func (d *Decision) ending(o *Observation, phase exception.Phase) {
	end := o.Exception.Spec.ExpiresAt
	c := metav1.Condition{
		Type: settingsv1alpha2.ConditionExpiresSoon, Status: metav1.ConditionFalse, Reason: settingsv1alpha2.ReasonHolds,
		Message: "The exception does not end within 14 days.", ObservedGeneration: o.Generation,
	}
	switch {
	case phase == exception.Expired:
		c.Reason, c.Message = settingsv1alpha2.ReasonExpired, "The exception has ended."
	case end == nil:
	case end.Sub(o.Now) > soon:
		d.look(end.Sub(o.Now) - soon)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, settingsv1alpha2.ReasonExpiresSoon
		c.Message = fmt.Sprintf("The exception ends at %s. Its findings are open again from then on: mend them, or set spec.expiresAt to a later time.", utc(end))
		if !meta.IsStatusConditionTrue(o.Conditions, c.Type) {
			d.Events = append(d.Events, Event{corev1.EventTypeNormal, c.Reason, c.Message})
		}
		d.look(end.Sub(o.Now))
	}
	d.set(c, o.Now)
}

// look has the exception looked at after this time at the latest.
func (d *Decision) look(after time.Duration) {
	if d.RequeueAfter == 0 || after < d.RequeueAfter {
		d.RequeueAfter = after
	}
}

func (d *Decision) set(c metav1.Condition, now time.Time) {
	if old := meta.FindStatusCondition(d.Conditions, c.Type); old == nil || old.Status != c.Status {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	meta.SetStatusCondition(&d.Conditions, c)
}

func utc(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
