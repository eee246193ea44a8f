// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

// reasons tells how each limit is called in the condition Admitted.
var reasons = map[queue.Kind]string{
	queue.ClusterLimit: executionv1.ReasonClusterLimit, queue.NamespaceLimit: executionv1.ReasonNamespaceLimit,
	queue.ScanTypeLimit: executionv1.ReasonScanTypeLimit, queue.TargetLimit: executionv1.ReasonTargetLimit,
}

// mustWait says that a Scan that could begin is not to yet.
func mustWait(o *observed) bool { return o.admission.wait }

// waitForTurn says where a Scan stands that waits for its turn, where that is news. The Gate
// brings it back.
func waitForTurn(o *observed, d *decision) {
	at := o.admission.tell
	if at == nil {
		return
	}
	s := newStatus(o)
	message := standing(at)
	if s.condition(executionv1.ConditionAdmitted) == nil {
		d.queued = &notice{reasons[at.Limit.Kind], message}
	}
	s.set(o, executionv1.ConditionAdmitted, metav1.ConditionFalse, trouble{reasons[at.Limit.Kind], message})
	s.wait(o, executionv1.ConditionScanned, trouble{executionv1.ReasonQueued, "Waits for its turn. " + message})
	d.told, d.status = at, s.result()
}

// admitted says that a Scan that had to wait, or went ahead of others, begins. It costs no
// write of its own.
func (s *status) admitted(o *observed) {
	switch {
	case o.admission.outOfTurn:
		s.set(o, executionv1.ConditionAdmitted, metav1.ConditionTrue, trouble{
			executionv1.ReasonWaitedLongest, "The Scan has started: it had waited longer than any other.",
		})
	case s.condition(executionv1.ConditionAdmitted) != nil:
		s.set(o, executionv1.ConditionAdmitted, metav1.ConditionTrue, trouble{executionv1.ReasonAdmitted, "The Scan has started."})
	}
}

// leaveQueue drops the place of a Scan that waits no longer.
func (s *status) leaveQueue() {
	if c := s.condition(executionv1.ConditionAdmitted); c != nil && c.Status == metav1.ConditionFalse {
		s.forget(executionv1.ConditionAdmitted)
	}
}

// afterPass gives a slot back that a Scan could not use, and counts how long it had waited
// where it did.
func (r *Reconciler) afterPass(o *observed, d *decision, err error) {
	switch {
	case d.step == stepStart && err == nil:
		if o.admission.limited && !o.admission.aside {
			r.metrics.began(o.scan, o.now)
		}
	case d.step == stepFinalizer, apierrors.IsConflict(err):
		r.gate.goOn(o.scan.UID) // the next pass follows at once
	default:
		r.gate.pass(o.scan.UID)
	}
}

// expiryOf is how long the presigned URLs of a Scan are good. A Job cannot get others when
// it has been made, and Kueue may hold it back for long: then they are good for as long as
// URLs can be.
func (r *Reconciler) expiryOf(o *observed) Expiry {
	if !o.admission.aside {
		return r.expiry
	}
	const longest = store.DownloadExpiry
	return Expiry{Scan: max(r.expiry.Scan, longest), Parser: max(r.expiry.Parser, longest), Hook: max(r.expiry.Hook, longest)}
}

// placeFormat begins the message of the condition Admitted; toldBefore reads it.
const placeFormat = "Position %d of %d"

// standing says in the user's words where a Scan stands and what holds it.
func standing(at *queue.Standing) string {
	return fmt.Sprintf(placeFormat+", %d of %d in its namespace: %s.", at.Position, at.Of, at.NamespacePosition, at.NamespaceOf, limitText(at.Limit, at.Bound))
}

func limitText(l queue.Limit, bound int) string {
	where := "in the cluster"
	if l.Namespace != "" {
		where = "in namespace " + l.Namespace
	}
	switch l.Kind {
	case queue.ScanTypeLimit:
		return fmt.Sprintf("at most %d of scan type %s run at a time %s", bound, l.Name, where)
	case queue.TargetLimit:
		return fmt.Sprintf("at most %d with label %s=%s run at a time %s", bound, l.Name, l.Value, where)
	default:
		return fmt.Sprintf("at most %d run at a time %s", bound, where)
	}
}

// toldBefore reads from a Scan where it was told that it stands.
func toldBefore(scan *executionv1.Scan) (position int, kind queue.Kind) {
	c := findCondition(scan.Status.Conditions, executionv1.ConditionAdmitted)
	if c == nil || c.Status != metav1.ConditionFalse {
		return 0, queue.NoLimit
	}
	for k, reason := range reasons {
		if reason == c.Reason {
			kind = k
		}
	}
	var of int
	if _, err := fmt.Sscanf(c.Message, placeFormat, &position, &of); err != nil {
		position = 0 // another version's words: it is told anew some time
	}
	return position, kind
}
