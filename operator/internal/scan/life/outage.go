// SPDX-License-Identifier: Apache-2.0

package life

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// isKeptFromStorage holds where this pass could not use object storage. It is tried again with a growing pause.
func isKeptFromStorage(o *Observation) bool { return o.StorageError != "" }

// awaitStorage says on the Scan that object storage cannot be used. Nothing else of
// the status changes. A Scan that has ended says so by an Event where it was asked for
// something; one that is being deleted needs no telling.
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

// GoesOn says whether a Scan has begun and has not ended: its pods may wait for storage.
func GoesOn(s *executionv1.ScanStatus) bool {
	return s.State != executionv1.ScanStateNew && !SettledState(s)
}

// ReportOutage says on a Scan that goes on that storage is away. The conditions of its phases stay.
// When storage is back, the next pass says again how the phase stands.
func (d *Decision) ReportOutage(o *Observation) {
	if o.Outage == "" || d.Status == nil || !GoesOn(d.Status) || IsSuspended(o) || IsDeleted(o) {
		return
	}
	s := &Status{d.Status}
	d.reportOutage(o, s, o.Outage)
	d.Status = s.result()
}

// reportOutage sets what is said of storage that cannot be used: the same until it can, though the
// errors differ from try to try, and by one Event.
func (d *Decision) reportOutage(o *Observation, s *Status, why string) {
	t := Cause{executionv1.ReasonStorageUnavailable, "Object storage cannot be used; the Scan goes on when it can: " + Clean(why)}
	d.Event = &Event{t.Reason, t.Message}
	if was := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionReady); was != nil && was.Reason == t.Reason {
		t.Message, d.Event = was.Message, nil
	}
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, t)
}
