// SPDX-License-Identifier: Apache-2.0

package life

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// isKeptFromStorage holds if object storage failed in this pass. The pass is retried with a growing pause.
func isKeptFromStorage(o *Observation) bool { return o.StorageError != "" }

// awaitStorage sets the Ready condition to the outage. Nothing else of the status
// changes. A Scan that has ended gets an Event instead, if it was asked for a re-run; a
// Scan that is being deleted gets neither.
func awaitStorage(o *Observation, d *Decision) {
	switch {
	case IsDeleted(o):
		return
	case IsSettled(o):
		if asksRerun(o.Scan) {
			d.Event = &Event{
				executionv1.ReasonStorageUnavailable,
				"What the annotation " + executionv1.AnnotationRerun + " asks for waits for object storage: " + Clean(o.StorageError),
			}
		}
		return
	}
	s := NewStatus(o)
	d.reportOutage(o, s, o.StorageError)
	d.Status = s.result()
}

// GoesOn reports whether a Scan has begun and has not ended: its pods may wait for storage.
func GoesOn(s *executionv1.ScanStatus) bool {
	return s.State != executionv1.ScanStateNew && !SettledState(s)
}

// ReportOutage sets the Ready condition of a running Scan to an outage of storage. The conditions of
// its phases stay. When storage is back, the next pass sets the Ready condition to the state of the phase.
func (d *Decision) ReportOutage(o *Observation) {
	if o.Outage == "" || d.Status == nil || !GoesOn(d.Status) || IsSuspended(o) || IsDeleted(o) {
		return
	}
	s := &Status{d.Status}
	d.reportOutage(o, s, o.Outage)
	d.Status = s.result()
}

// reportOutage sets the Ready condition and sends one Event. The message stays the same until storage
// is back, although the errors differ from try to try.
func (d *Decision) reportOutage(o *Observation, s *Status, why string) {
	t := Cause{executionv1.ReasonStorageUnavailable, "Object storage cannot be used; the Scan goes on when it can: " + Clean(why)}
	d.Event = &Event{t.Reason, t.Message}
	if was := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionReady); was != nil && was.Reason == t.Reason {
		t.Message, d.Event = was.Message, nil
	}
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, t)
}
