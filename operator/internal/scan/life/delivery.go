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

// The forwarder writes into the status how many of the results of a Scan each sink has. The decision reads this from the
// object of the API server: the cache drops these fields of ended Scans.

// forwarding returns the settings in force for forwarding the results of the Scan.
func (o *Observation) forwarding() settings.Forwarding {
	if o.Tenant == nil {
		return settings.Forwarding{}
	}
	return o.Tenant.Forwarding
}

// Forwards reports whether the results of the Scan are forwarded to a sink.
func (o *Observation) Forwards() bool { return len(o.forwarding().Sinks) > 0 }

// hasDelivery reports whether the Scan was initialized while there were sinks. A user who removes the finalizer ends the wait.
func hasDelivery(o *Observation) bool {
	return slices.Contains(o.Scan.Finalizers, executionv1.FinalizerDelivery)
}

// isDue reports whether the results can be sent, since nothing changes them any more.
func isDue(o *Observation) bool {
	return IsSettled(o) && !HasFailureHooks(o) || meta.IsStatusConditionTrue(o.Scan.Status.Conditions, executionv1.ConditionHooksCompleted)
}

// undelivered returns the IDs of the sinks that lack the results of the current run. A sink without an entry does not count
// if all sinks with an entry have the results and the condition Forwarded is True: the sink may be newer than the results.
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
		return complete // a sink has refused some of the results
	}
}

func isComplete(p *executionv1.SinkProgress, revision, epoch int32) bool {
	return p.CompletedAt != nil && p.Revision == revision && p.Epoch == epoch
}

// awaitsDelivery reports whether a sink still lacks the results of the Scan. True until the whole Scan is known.
func awaitsDelivery(o *Observation) bool {
	return hasDelivery(o) && o.Forwards() && isDue(o) && (!o.Known.Has(NeedWhole) || !isReleased(o) && len(undelivered(o)) > 0)
}

// holdDeadline returns until when the deletion of a Scan waits for its delivery.
func holdDeadline(o *Observation) time.Time {
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

// mustForward reports whether the Scan, whose hooks have run, becomes Done only when every sink has its results.
func mustForward(o *Observation) bool {
	return o.forwarding().FailurePolicy == settingsv1alpha2.FailurePolicyFail && o.Forwards() && len(undelivered(o)) > 0
}

// awaitForwarding keeps the Scan in its last phase, as a hook does, and fails the Scan at the deadline. The wait begins with
// the condition HooksCompleted, which also starts the forwarder.
func (d *Decision) awaitForwarding(o *Observation, s *Status) {
	after := o.forwarding().FailAfter
	left := s.condition(executionv1.ConditionHooksCompleted).LastTransitionTime.Add(after).Sub(o.Now)
	if left <= 0 {
		d.fail(o, s, executionv1.ConditionReady, Cause{executionv1.ReasonForwardingFailed, fmt.Sprintf(
			"Within %s (failAfterSeconds) the results were not forwarded to: %s", after, undeliveredMessage(o),
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

// undeliveredMessage names the sinks that lack the results, with the forwarder's message about the worst of them.
func undeliveredMessage(o *Observation) string {
	text := strings.Join(undelivered(o), ", ")
	if c := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded); c != nil && c.Status == metav1.ConditionFalse {
		text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
	}
	return text
}

// isHeld returns a condition: the Scan is about to be deleted, and its delivery is awaited.
func isHeld(toGo func(*Observation) bool) func(*Observation) bool {
	return func(o *Observation) bool { return toGo(o) && awaitsDelivery(o) && o.Now.Before(holdDeadline(o)) }
}

// hold reports once that the deletion waits, with the forwarder's message about the sinks. The forwarder replaces the
// condition when all sinks have the results.
func hold(o *Observation, d *Decision) {
	d.RequeueAfter = holdDeadline(o).Sub(o.Now)
	was := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded)
	if was != nil && was.Reason == executionv1.ReasonHeld && (IsDeleted(o) || o.Scan.Status.FinishedAt != nil) {
		return
	}
	t := Cause{executionv1.ReasonHeld, fmt.Sprintf(
		"The Scan is to be deleted. It waits for at most %s (holdSeconds) until its results are with: %s", o.forwarding().Hold, undeliveredMessage(o),
	)}
	s := NewStatus(o)
	if IsSettled(o) && s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: lastEnd(o)} // else the TTL never ends
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
	until := holdDeadline(o)
	c := FindCondition(o.Found.Conditions, executionv1.ConditionForwarded)
	if c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.Time.Before(until) {
		until = c.LastTransitionTime.Time
	}
	if until.After(began) {
		return until
	}
	return began
}
