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
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// The forwarder says in the status how far each sink has the results of a Scan. What is said is read from what the API
// server has, since the cache leaves it out where a Scan has ended.

// forwarding is what the settings say of the results of the Scan.
func (o *Observation) forwarding() settings.Forwarding {
	if o.Tenant == nil {
		return settings.Forwarding{}
	}
	return o.Tenant.Forwarding
}

// Forwards says whether there are sinks that are to have the results of the Scan.
func (o *Observation) Forwards() bool { return len(o.forwarding().Sinks) > 0 }

// hasDelivery holds where the Scan was taken up while there were sinks. Whoever removes the finalizer ends the wait.
func hasDelivery(o *Observation) bool {
	return slices.Contains(o.Scan.Finalizers, executionv1.FinalizerDelivery)
}

// isDue says whether the results are to be sent: nothing changes them any more.
func isDue(o *Observation) bool {
	return IsSettled(o) && !HasFailureHooks(o) || meta.IsStatusConditionTrue(o.Scan.Status.Conditions, executionv1.ConditionHooksCompleted)
}

// undelivered are the sinks that lack the results of the present run, by their IDs. A sink without an entry need not have
// them, where all that have one do, and the forwarder says so: the sink may be younger than they are.
func undelivered(o *Observation) []string {
	said := &executionv1.Scan{Status: *o.Found}
	var complete, begun, without []string
	for _, sink := range o.forwarding().Sinks {
		i := slices.IndexFunc(said.Status.Forwarding, func(p executionv1.SinkProgress) bool { return p.Sink == sink.ID })
		switch {
		case i < 0:
			without = append(without, sink.ID)
		case isComplete(&said.Status.Forwarding[i], said.Revision(), sink.Sink.Epoch):
			complete = append(complete, sink.ID)
		default:
			begun = append(begun, sink.ID)
		}
	}
	switch forwarded := meta.IsStatusConditionTrue(said.Status.Conditions, executionv1.ConditionForwarded); {
	case forwarded && len(begun) == 0 && len(complete) > 0:
		return nil
	case len(begun)+len(without) > 0:
		return append(begun, without...)
	default:
		return complete // it has refused some of them
	}
}

func isComplete(p *executionv1.SinkProgress, revision, epoch int32) bool {
	return p.CompletedAt != nil && p.Revision == revision && p.Epoch == epoch
}

// awaitsDelivery holds for a Scan whose results a sink is to have, as far as it is known that it has not.
func awaitsDelivery(o *Observation) bool {
	return hasDelivery(o) && o.Forwards() && isDue(o) && (!o.Known.Has(NeedWhole) || !isReleased(o) && len(undelivered(o)) > 0)
}

// holdEnds is when a Scan that is to go is held no longer, wherever its results are.
func holdEnds(o *Observation) time.Time {
	var from []time.Time
	if IsDeleted(o) {
		from = append(from, o.Scan.DeletionTimestamp.Time)
	}
	if left, ok := untilExpiry(o); ok && left <= 0 {
		from = append(from, o.Now.Add(left))
	}
	if len(from) == 0 {
		return o.Now
	}
	return slices.MinFunc(from, time.Time.Compare).Add(o.forwarding().Hold)
}

// mustForward holds where a Scan whose hooks have run is Done only when every sink has its results.
func mustForward(o *Observation) bool {
	return o.forwarding().FailurePolicy == settingsv1alpha2.FailurePolicyFail && o.Forwards() && len(undelivered(o)) > 0
}

// awaitForwarding keeps the Scan in its last phase, as a hook would, and ends it when that takes too long. The condition
// of the hooks, by which the forwarder sees that it can begin, says since when this is waited for.
func (d *Decision) awaitForwarding(o *Observation, s *Status) {
	after := o.forwarding().FailAfter
	left := s.condition(executionv1.ConditionHooksCompleted).LastTransitionTime.Add(after).Sub(o.Now)
	if left <= 0 {
		d.fail(o, s, executionv1.ConditionReady, Cause{executionv1.ReasonForwardingFailed, fmt.Sprintf(
			"Within %s (failAfterSeconds) the results were not forwarded to: %s", after, lackingAndWhy(o),
		)})
		return
	}
	s.advance(executionv1.ScanStateHookProcessing)
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, Cause{
		executionv1.ReasonForwarding, "The hooks have run. The Scan is Done when its results are with: " + strings.Join(undelivered(o), ", "),
	})
	d.Links = o.Settings.StatusLinks
	d.Status = s.result()
	d.RequeueAfter = left
}

// lackingAndWhy are the sinks that lack the results, with what the forwarder says of the worst.
func lackingAndWhy(o *Observation) string {
	text := strings.Join(undelivered(o), ", ")
	if c := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded); c != nil && c.Status == metav1.ConditionFalse {
		text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return text
}

// isHeldAnd holds for a Scan that is to go and waits for its delivery.
func isHeldAnd(toGo func(*Observation) bool) func(*Observation) bool {
	return func(o *Observation) bool { return toGo(o) && awaitsDelivery(o) && o.Now.Before(holdEnds(o)) }
}

// hold says once that the Scan waits, and what the forwarder had said of its sinks. The forwarder writes over it when all
// have the results.
func hold(o *Observation, d *Decision) {
	d.RequeueAfter = holdEnds(o).Sub(o.Now)
	was := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded)
	if was != nil && was.Reason == executionv1.ReasonHeld && (IsDeleted(o) || o.Scan.Status.FinishedAt != nil) {
		return
	}
	t := Cause{executionv1.ReasonHeld, fmt.Sprintf(
		"The Scan is to be deleted. It waits for at most %s (holdSeconds) until its results are with: %s", o.forwarding().Hold, lackingAndWhy(o),
	)}
	s := NewStatus(o)
	if IsSettled(o) && s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: lastEnd(o)} // or the TTL would never have ended
	}
	s.set(o, executionv1.ConditionForwarded, metav1.ConditionUnknown, t)
	d.Status = s.result()
	d.Event = &Event{t.Reason, t.Message}
}

// lose tells of a Scan that goes before every sink has its results.
func (d *Decision) lose(o *Observation) {
	if !awaitsDelivery(o) {
		return
	}
	d.LostEvent = &Event{executionv1.ReasonDeletedUnforwarded, fmt.Sprintf(
		"Scan %s (UID %s) was deleted before its results were with: %s", o.Scan.Name, o.Scan.UID, strings.Join(undelivered(o), ", "),
	)}
}

// cleanUpBegan is when nothing held a deleted Scan any more.
func cleanUpBegan(o *Observation) time.Time {
	began := o.Scan.DeletionTimestamp.Time
	if !hasDelivery(o) || !o.Forwards() || !isDue(o) {
		return began
	}
	until := holdEnds(o)
	c := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded)
	if c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.Time.Before(until) {
		until = c.LastTransitionTime.Time
	}
	if until.After(began) {
		return until
	}
	return began
}
