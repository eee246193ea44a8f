// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// conditionTypes are the conditions of a Scan, in the order in which they are written.
var conditionTypes = []string{
	executionv1.ConditionReady, executionv1.ConditionAdmitted, executionv1.ConditionScanned, executionv1.ConditionParsed, executionv1.ConditionHooksCompleted,
	executionv1.ConditionCancelled, executionv1.ConditionRerun,
}

// troubleReasons are those that say why the pods of a phase do not get on.
var troubleReasons = map[string]bool{
	executionv1.ReasonImagePull: true, executionv1.ReasonContainerConfig: true, executionv1.ReasonUnschedulable: true,
	executionv1.ReasonPodRejected: true, executionv1.ReasonQuotaExceeded: true, executionv1.ReasonContainerFailing: true,
}

// status is a Scan's status in the making.
type status struct{ *executionv1.ScanStatus }

// newStatus starts from what the status is. What another client has removed and what
// can be told from the Jobs comes back here.
func newStatus(o *observed) *status {
	s := &status{o.scan.Status.DeepCopy()}
	s.ObservedGeneration = o.scan.Generation
	if value := o.scan.Annotations[executionv1.AnnotationRerun]; s.LastRerun == "" && isMadeFor(o.jobs, value) {
		s.LastRerun = value
	}
	if r := o.runs(); r != (runs{1, 1}) {
		s.Attempts = r.recorded()
	}
	s.Findings.FindingSeverities = withoutZeros(s.Findings.FindingSeverities)
	if o.scanType != nil {
		if s.RawResultType == "" {
			s.RawResultType = o.scanType.ExtractResults.Type
		}
		if s.RawResultFile == "" {
			s.RawResultFile = rawResultFile(o.scanType)
		}
	}
	if j, ok := o.jobOf(scannerRole); ok && s.StartedAt == nil {
		s.StartedAt = &metav1.Time{Time: j.created}
	}
	return s
}

// advance moves the state forward, never back.
func (s *status) advance(to executionv1.ScanState) {
	if phases[to] >= phases[s.State] {
		s.State = to
	}
}

// rawResultFile is the name of the raw result in storage.
func rawResultFile(t *executionv1.ScanTypeSpec) string { return path.Base(t.ExtractResults.Location) }

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

func findCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, kind)
}

func (s *status) condition(kind string) *metav1.Condition { return findCondition(s.Conditions, kind) }

// maxMessage is the most that the API server takes for a condition's message.
const maxMessage = 32768

// set sets a condition. Its transition time moves only when its status does.
func (s *status) set(o *observed, kind string, value metav1.ConditionStatus, t trouble) {
	s.setAt(o, kind, value, t, metav1.Time{Time: o.now})
}

func (s *status) setAt(o *observed, kind string, value metav1.ConditionStatus, t trouble, at metav1.Time) {
	message := t.message
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: t.reason, Message: message, ObservedGeneration: o.scan.Generation,
		LastTransitionTime: metav1.Time{Time: at.Truncate(time.Second)},
	})
}

// forget drops a condition, so that setting it anew also sets its transition time.
func (s *status) forget(kind string) { meta.RemoveStatusCondition(&s.Conditions, kind) }

// wait says that a phase is on its way or waits, and that the Scan does so with it.
func (s *status) wait(o *observed, phase string, t trouble) {
	s.set(o, phase, metav1.ConditionUnknown, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, t)
}

// scanned says that the raw result is stored.
func (s *status) scanned(o *observed) {
	s.ended(o, scannerRole, executionv1.ConditionScanned, "The raw result is stored.")
}

// parsed says that the findings are stored.
func (s *status) parsed(o *observed) {
	s.scanned(o)
	s.ended(o, parserRole, executionv1.ConditionParsed, "The findings are stored.")
}

// ended says that a phase has ended well, at the time its Job did.
func (s *status) ended(o *observed, r role, phase, message string) {
	at := o.now
	if j, ok := o.jobOf(r); ok && !j.finished.IsZero() {
		at = j.finished
	}
	s.setAt(o, phase, metav1.ConditionTrue, trouble{executionv1.ReasonCompleted, message}, metav1.Time{Time: at})
}

// settled says again how a settled Scan ended, where that has been removed.
func (s *status) settled(o *observed, value metav1.ConditionStatus, reason, message string) {
	if s.condition(executionv1.ConditionReady) == nil {
		s.setAt(o, executionv1.ConditionReady, value, trouble{reason, message}, *s.FinishedAt)
	}
	if value != metav1.ConditionTrue {
		return
	}
	if s.condition(executionv1.ConditionScanned) == nil || s.condition(executionv1.ConditionParsed) == nil {
		s.parsed(o)
	}
	if s.condition(executionv1.ConditionHooksCompleted) == nil {
		s.setAt(o, executionv1.ConditionHooksCompleted, value, trouble{reason, hooksMessage(s.OrderedHookStatuses, nil)}, *s.FinishedAt)
	}
}

// result is the finished status: conditions in a fixed order, so that equal statuses
// are equal on the wire, and the generation they speak of.
func (s *status) result() *executionv1.ScanStatus {
	slices.SortStableFunc(s.Conditions, func(a, b metav1.Condition) int {
		return slices.Index(conditionTypes, a.Type) - slices.Index(conditionTypes, b.Type)
	})
	return s.ScanStatus
}

// hooksMessage sums up the hooks that have run, and what went wrong and was ignored.
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
