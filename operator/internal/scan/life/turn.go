// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
)

// LimitReasons has the reason of the condition Admitted for each limit.
var LimitReasons = map[fair.Kind]string{
	fair.ClusterLimit: executionv1.ReasonClusterLimit, fair.NamespaceLimit: executionv1.ReasonNamespaceLimit,
	fair.ScanTypeLimit: executionv1.ReasonScanTypeLimit, fair.TargetLimit: executionv1.ReasonTargetLimit,
}

// mustWait holds if a Scan could begin and may not yet.
func mustWait(o *Observation) bool { return o.Turn.Wait }

// WaitForTurn writes the place of a waiting Scan into its status, if the place is new. The queue
// enqueues the Scan again.
func WaitForTurn(o *Observation, d *Decision) {
	at := o.Turn.Report
	if at == nil {
		return
	}
	s := NewStatus(o)
	message := PlaceText(at)
	if s.condition(executionv1.ConditionAdmitted) == nil {
		d.QueuedEvent = &Event{LimitReasons[at.Limit.Kind], message}
	}
	s.set(o, executionv1.ConditionAdmitted, metav1.ConditionFalse, Cause{LimitReasons[at.Limit.Kind], message})
	s.wait(o, executionv1.ConditionScanned, Cause{executionv1.ReasonQueued, "Waits for its turn. " + message})
	s.Queue = &executionv1.QueuePlace{Position: at.Position, Of: at.Of, NamespacePosition: at.NamespacePosition, NamespaceOf: at.NamespaceOf}
	d.ReportedPlace, d.Status = at, s.result()
}

// Admitted sets the condition of a Scan that begins after it had to wait, or ahead of others.
// It is part of the write that starts the Scan.
func (s *Status) Admitted(o *Observation) {
	s.Queue = nil
	switch {
	case o.Turn.OutOfTurn:
		s.set(o, executionv1.ConditionAdmitted, metav1.ConditionTrue, Cause{
			executionv1.ReasonWaitedLongest, "The Scan has started: it had waited longer than any other.",
		})
	case s.condition(executionv1.ConditionAdmitted) != nil:
		s.set(o, executionv1.ConditionAdmitted, metav1.ConditionTrue, Cause{executionv1.ReasonAdmitted, "The Scan has started."})
	}
}

// leaveQueue removes the place of a Scan that no longer waits.
func (s *Status) leaveQueue() {
	s.Queue = nil
	if c := s.condition(executionv1.ConditionAdmitted); c != nil && c.Status == metav1.ConditionFalse {
		s.forget(executionv1.ConditionAdmitted)
	}
}

// PlaceText tells the user the place of a Scan and the limit that holds it.
func PlaceText(at *fair.Standing) string {
	return fmt.Sprintf(
		"Position %d of %d, %d of %d in its namespace: %s.", at.Position, at.Of,
		at.NamespacePosition, at.NamespaceOf, limitText(at.Limit, at.Bound),
	)
}

func limitText(l fair.Limit, bound int) string {
	where := "in the cluster"
	if l.Namespace != "" {
		where = "in namespace " + l.Namespace
	}
	switch l.Kind {
	case fair.ScanTypeLimit:
		return fmt.Sprintf("at most %d of scan type %s run at a time %s", bound, l.Name, where)
	case fair.TargetLimit:
		return fmt.Sprintf("at most %d with label %s=%s run at a time %s", bound, l.Name, l.Value, where)
	default:
		return fmt.Sprintf("at most %d run at a time %s", bound, where)
	}
}

// ReportedBefore returns the place that the status of a Scan has, and its limit.
func ReportedBefore(scan *executionv1.Scan) (position int, kind fair.Kind) {
	c := FindCondition(scan.Status.Conditions, executionv1.ConditionAdmitted)
	if c == nil || c.Status != metav1.ConditionFalse {
		return 0, fair.NoLimit
	}
	for k, reason := range LimitReasons {
		if reason == c.Reason {
			kind = k
		}
	}
	if scan.Status.Queue != nil { // earlier versions wrote it into the message only; the queue writes it again later
		position = scan.Status.Queue.Position
	}
	return position, kind
}
