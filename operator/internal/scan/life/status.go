// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// ConditionTypes are the conditions of a Scan that the operator writes.
var ConditionTypes = []string{
	executionv1.ConditionReady, executionv1.ConditionStalled, executionv1.ConditionAdmitted, executionv1.ConditionScanned, executionv1.ConditionParsed,
	executionv1.ConditionTargetReached, executionv1.ConditionHooksCompleted, executionv1.ConditionCancelled, executionv1.ConditionRerun,
}

// troubleReasons are the reasons for which the pods of a phase do not run.
var troubleReasons = map[string]bool{
	executionv1.ReasonImagePull: true, executionv1.ReasonContainerConfig: true, executionv1.ReasonUnschedulable: true,
	executionv1.ReasonPodRejected: true, executionv1.ReasonQuotaExceeded: true, executionv1.ReasonContainerFailing: true,
}

// Status builds the status of a Scan.
type Status struct{ *executionv1.ScanStatus }

// NewStatus starts from the present status. It restores fields that another client has
// removed if the Jobs show them.
func NewStatus(o *Observation) *Status {
	s := &Status{o.Scan.Status.DeepCopy()}
	s.ObservedGeneration = o.Scan.Generation
	if value := o.Scan.Annotations[executionv1.AnnotationRerun]; s.LastRerun == "" && isMadeFor(o.Jobs, value) {
		s.LastRerun = value
	}
	if r := o.Attempts(); r != (Attempts{1, 1}) {
		s.Attempts = r.recorded()
	}
	s.Findings.FindingSeverities = withoutZeros(s.Findings.FindingSeverities)
	if result := o.RawResult(); result != (jobs.Result{}) {
		s.RawResultFile, s.RawResultType = result.File, result.Type
	}
	s.overcome(o)
	if j, ok := o.JobOf(ScannerRole); ok && s.StartedAt == nil {
		s.StartedAt = &metav1.Time{Time: j.Created}
	}
	return s
}

// containerFailed shows how a container of a Job has ended. What is known of a Job stays while it is not known any more: the
// Job controller removes pods.
func (s *Status) containerFailed(j Job) {
	switch {
	case j.Ended != nil:
		f := *j.Ended
		f.Job = j.Name
		s.ContainerFailure = &f
	case s.ContainerFailure != nil && s.ContainerFailure.Job != j.Name:
		s.ContainerFailure = nil
	}
}

// overcome removes the failure of a Job that has succeeded, or is gone, while the Scan continues.
func (s *Status) overcome(o *Observation) {
	if s.ContainerFailure == nil || o.Scan.Settled() {
		return
	}
	if !slices.ContainsFunc(o.Jobs, func(j Job) bool { return j.Name == s.ContainerFailure.Job && j.Outcome != Complete }) {
		s.ContainerFailure = nil
	}
}

// advance moves the state forward, never back.
func (s *Status) advance(to executionv1.ScanState) {
	if phases[to] >= phases[s.State] {
		s.State = to
	}
}

func (s *Status) rawResult() jobs.Result {
	return jobs.Result{File: s.RawResultFile, Type: s.RawResultType}
}

// withoutZeros drops the counts that are zero, as secureCodeBox's operator does: its
// own tests compare with what is left. (The total stays, so that a column shows 0.)
func withoutZeros(f executionv1.FindingSeverities) executionv1.FindingSeverities {
	for _, p := range []**int64{&f.Informational, &f.Low, &f.Medium, &f.High} {
		if *p != nil && **p == 0 {
			*p = nil
		}
	}
	return f
}

// FindCondition returns the condition of a type; nil where there is none.
func FindCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, kind)
}

func (s *Status) condition(kind string) *metav1.Condition { return FindCondition(s.Conditions, kind) }

// maxMessage is the maximum length of a condition's message.
const maxMessage = 32768

// set sets a condition. Its transition time moves only when its status does.
func (s *Status) set(o *Observation, kind string, value metav1.ConditionStatus, t Cause) {
	s.setAt(o, kind, value, t, metav1.Time{Time: o.Now})
}

func (s *Status) setAt(o *Observation, kind string, value metav1.ConditionStatus, t Cause, at metav1.Time) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: t.Reason, Message: text.Cut(t.Message, maxMessage), ObservedGeneration: o.Scan.Generation,
		LastTransitionTime: metav1.Time{Time: at.Truncate(time.Second)},
	})
}

// forget drops a condition, so that setting it anew also sets its transition time.
func (s *Status) forget(kind string) { meta.RemoveStatusCondition(&s.Conditions, kind) }

// wait sets the conditions of a phase and of the Scan to running or waiting.
func (s *Status) wait(o *Observation, phase string, t Cause) {
	s.set(o, phase, metav1.ConditionUnknown, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, t)
}

// scanned sets the condition that the raw result is stored.
func (s *Status) scanned(o *Observation) {
	s.ended(o, ScannerRole, executionv1.ConditionScanned, "The raw result is stored.")
}

// parsed sets the condition that the findings are stored.
func (s *Status) parsed(o *Observation) {
	s.scanned(o)
	message := "The findings are stored."
	was := s.condition(executionv1.ConditionParsed)
	switch before := was != nil && was.Status == metav1.ConditionTrue; {
	case before && s.Findings.Count == nil:
		message = was.Message // as it was said when it ended
	case !before && parserReports(ReportGone)(o):
		message = uncounted
	}
	s.ended(o, ParserRole, executionv1.ConditionParsed, message)
}

// ended sets the condition that a phase has succeeded, at the end time of its Job.
func (s *Status) ended(o *Observation, r Role, phase, message string) {
	at := o.Now
	if j, ok := o.JobOf(r); ok && !j.Finished.IsZero() {
		at = j.Finished
	}
	s.setAt(o, phase, metav1.ConditionTrue, Cause{executionv1.ReasonCompleted, message}, metav1.Time{Time: at})
}

// settled gives a settled Scan the conditions of its end that it lacks: a client has removed them, or an operator was killed that had recorded the
// end and not yet written the status, so that they are of the time before.
func (s *Status) settled(o *Observation, value metav1.ConditionStatus, reason, message string) {
	if saysNoEnd(s.condition(executionv1.ConditionReady)) {
		s.setAt(o, executionv1.ConditionReady, value, Cause{reason, message}, *s.FinishedAt)
	}
	if value != metav1.ConditionTrue {
		return
	}
	if saysNoEnd(s.condition(executionv1.ConditionScanned)) || saysNoEnd(s.condition(executionv1.ConditionParsed)) {
		s.parsed(o)
	}
	if saysNoEnd(s.condition(executionv1.ConditionHooksCompleted)) {
		s.setAt(o, executionv1.ConditionHooksCompleted, value, Cause{reason, hooksMessage(s.OrderedHookStatuses, nil)}, *s.FinishedAt)
	}
}

// saysNoEnd reports whether a condition is not there, or is one of a phase in work.
func saysNoEnd(c *metav1.Condition) bool { return c == nil || c.Status == metav1.ConditionUnknown }

// result returns the built status: conditions in a fixed order, so that equal statuses
// are equal on the wire, and the observed generation.
func (s *Status) result() *executionv1.ScanStatus {
	s.stall()
	order := executionv1.ConditionOrder()
	slices.SortStableFunc(s.Conditions, func(a, b metav1.Condition) int {
		return slices.Index(order, a.Type) - slices.Index(order, b.Type)
	})
	return s.ScanStatus
}

// stall adds a condition for tools that read Ready=False as "in progress": the Scan has failed.
func (s *Status) stall() {
	ready := s.condition(executionv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		s.forget(executionv1.ConditionStalled)
		return
	}
	stalled := *ready
	stalled.Type, stalled.Status = executionv1.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&s.Conditions, stalled)
}

// hooksMessage sums up the hooks that have run and the failures that were ignored.
func hooksMessage(groups [][]executionv1.HookStatus, ignored []string) string {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	message := fmt.Sprintf("%d hooks have run.", n)
	switch n {
	case 0:
		message = "No hook was selected."
	case 1:
		message = "1 hook has run."
	}
	if len(ignored) > 0 {
		message += " Ignored as failurePolicy says: " + strings.Join(ignored, "; ")
	}
	return message
}
