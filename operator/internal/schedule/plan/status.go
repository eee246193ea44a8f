// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// status is the new status of a ScheduledScan while it is computed.
type status struct {
	*executionv1.ScheduledScanStatus
}

// newStatus starts from the present status. It restores what other clients have removed, and adopts
// what other operators have written: neither starts a run.
func newStatus(v *view) *status {
	s := &status{v.Scheduled.Status.DeepCopy()}
	s.ObservedGeneration = v.Scheduled.Generation
	s.NextScheduleTime = nil
	if c, ok := v.childNamed(s.FindingsFrom); ok && c.State != executionv1.ScanStateDone {
		s.FindingsFrom = "" // the Scan runs again: its findings are read again when it is Done
	}
	if done, ok := v.NewestDone(); ok && v.Findings != nil {
		s.Findings, s.FindingsFrom = *v.Findings.DeepCopy(), done.Name
	}
	s.Findings.FindingSeverities = withoutZeros(s.Findings.FindingSeverities)
	if !v.requested && v.last.IsZero() {
		// A time that a client writes beside this is a request for a run, even of a client that knows no other field.
		s.ScanTypeHash = mark{never: true, lastRun: v.Scheduled.CreationTimestamp.Time}.String()
	}
	if v.requested || v.last.IsZero() {
		return s
	}
	digest := v.Digest
	if v.known {
		digest = v.lastDigest
	}
	s.recordRun(v.last, digest)
	return s
}

// recordRun records when the last run was started, and with which ScanType.
func (s *status) recordRun(at time.Time, digest string) {
	at = at.Truncate(time.Second)
	if s.LastScheduleTime == nil || !s.LastScheduleTime.Time.Equal(at) {
		s.LastScheduleTime = &metav1.Time{Time: at}
	}
	s.ScanTypeHash = mark{digest: digest, lastRun: at}.String()
}

func (s *status) scheduledAt(t time.Time) { s.NextScheduleTime = &metav1.Time{Time: ceilSecond(t)} }

// withoutZeros drops the counts that are zero, as secureCodeBox's operator does.
func withoutZeros(f executionv1.FindingSeverities) executionv1.FindingSeverities {
	for _, p := range []**int64{&f.Informational, &f.Low, &f.Medium, &f.High} {
		if *p != nil && **p == 0 {
			*p = nil
		}
	}
	return f
}

func (s *status) suspended(v *view, d *Decision) {
	s.ready(v, d, metav1.ConditionUnknown, problem{executionv1.ReasonSuspended, "No run is started while spec.suspend is true."})
}

// inOrder reports that runs are started as planned, with a message.
func (s *status) inOrder(v *view, d *Decision) {
	if v.Missing != "" {
		s.ready(v, d, metav1.ConditionFalse, problem{executionv1.ReasonScanTypeNotFound, v.Missing})
		return
	}
	message := "Runs are started as planned."
	if v.timetable.cron != nil {
		if interval, err := parseDuration(v.Scheduled.Spec.Interval); err == nil && interval > 0 {
			message += " spec.interval is not used, since spec.schedule is set."
		}
	}
	message += v.clamped()
	s.ready(v, d, metav1.ConditionTrue, problem{executionv1.ReasonScheduled, message})
}

// clamped says which fields of the spec exceed the cluster's settings, and which values apply instead.
func (v *view) clamped() string {
	var message strings.Builder
	if interval := v.timetable.tooShort; interval > 0 {
		fmt.Fprintf(
			&message, " Runs are planned at least %s apart, as schedules.minIntervalSeconds of the ClusterScanSetting says, and not %s.",
			v.Bounds.MinInterval, interval,
		)
	}
	spec := &v.Scheduled.Spec
	for _, limit := range []struct {
		field string
		value *int32
	}{{"successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit}, {"failedJobsHistoryLimit", spec.FailedJobsHistoryLimit}} {
		if limit.value != nil && *limit.value > v.Bounds.MaxHistory {
			fmt.Fprintf(
				&message, " At most %d Scans are kept, as schedules.maxHistory of the ClusterScanSetting says, and not the %d of spec.%s.",
				v.Bounds.MaxHistory, *limit.value, limit.field,
			)
		}
	}
	return message.String()
}

// maxMessage is the longest message of a condition that the API server accepts.
const maxMessage = 32768

// ready sets the condition, and adds an Event for a new reason if a run waits or something is wrong.
func (s *status) ready(v *view, d *Decision, value metav1.ConditionStatus, p problem) {
	p.message = strings.ToValidUTF8(p.message[:min(len(p.message), maxMessage)], "")
	before := meta.FindStatusCondition(s.Conditions, executionv1.ConditionReady)
	isNew := before == nil || before.Reason != p.reason
	if isNew && value != metav1.ConditionTrue && p.reason != executionv1.ReasonSuspended {
		d.Events = append(d.Events, Event{Warning: value == metav1.ConditionFalse, Reason: p.reason, Message: p.message})
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: executionv1.ConditionReady, Status: value, Reason: p.reason, Message: p.message,
		ObservedGeneration: v.Scheduled.Generation, LastTransitionTime: metav1.Time{Time: v.Now.Truncate(time.Second)},
	})
}
