// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/apis/decision"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/results"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// refusals are the reasons of the condition Ready that say that somebody, or a rule, does not let the Scan run.
var refusals = []string{executionv1.ReasonNotAllowed, executionv1.ReasonPatchFailed, executionv1.ReasonInvalidSpec, executionv1.ReasonJobRejected}

// about begins a record about a Scan.
func about(scan *executionv1.Scan, eventType, message string) decision.Record {
	return decision.Record{EventType: eventType, Message: message, ResourceKind: "Scan", ResourceNamespace: scan.Namespace, ResourceName: scan.Name}
}

// details name the Scan, since names come again.
type details struct {
	UID      string `json:"uid"`
	ScanType string `json:"scanType"`
	Reason   string `json:"reason,omitempty"`
	// By is who has set spec.cancel: the field managers, as the API server keeps them.
	By      string   `json:"by,omitempty"`
	Limit   string   `json:"limit,omitempty"`
	Seconds *float64 `json:"seconds,omitempty"`
	// Revision, Records, Chain and Sinks prove what was forwarded before the results went.
	Revision int32    `json:"revision,omitempty"`
	Records  int64    `json:"records,omitempty"`
	Chain    string   `json:"chain,omitempty"`
	Sinks    []string `json:"sinks,omitempty"`
}

func detailsOf(scan *executionv1.Scan) details {
	return details{UID: string(scan.UID), ScanType: scan.Spec.ScanType}
}

// ScanChanged tells what a written status has decided: that the Scan is refused, or that it was cancelled by somebody.
func (l *Log) ScanChanged(scan *executionv1.Scan, after *executionv1.ScanStatus, canceller string) {
	if l == nil {
		return
	}
	if c := news(scan, after, executionv1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue && slices.Contains(refusals, c.Reason) {
		r, d := about(scan, ScanRefused, c.Message), detailsOf(scan)
		r.ConstraintName, r.ConstraintAction, d.Reason = c.Reason, "deny", c.Reason
		l.log(r, d)
	}
	if c := news(scan, after, executionv1.ConditionCancelled); c != nil && c.Status == metav1.ConditionTrue {
		r, d := about(scan, ScanCancelled, c.Message), detailsOf(scan)
		d.Reason, d.By = c.Reason, canceller
		l.log(r, d)
	}
}

// news gives a condition that was not there before, or said something else. A run anew may end as the one before did, which is news too.
func news(scan *executionv1.Scan, after *executionv1.ScanStatus, condition string) *metav1.Condition {
	now, was := life.FindCondition(after.Conditions, condition), life.FindCondition(scan.Status.Conditions, condition)
	if now == nil || was != nil && was.Status == now.Status && was.Reason == now.Reason && scan.Status.LastRerun == after.LastRerun {
		return nil
	}
	return now
}

// ScanStarted tells that a Scan which had waited for its turn has started, and how long it had waited.
func (l *Log) ScanStarted(scan *executionv1.Scan, waited time.Duration) {
	if l == nil {
		return
	}
	c := life.FindCondition(scan.Status.Conditions, executionv1.ConditionAdmitted)
	if c == nil || c.Status != metav1.ConditionFalse {
		return // it never stood in the queue
	}
	r, d := about(scan, ScanWaited, "The Scan has started. It had waited for its turn: "+c.Message), detailsOf(scan)
	seconds := max(0, waited.Seconds())
	r.ConstraintName, r.ConstraintAction = c.Reason, "wait"
	d.Limit, d.Seconds = c.Reason, &seconds
	l.log(r, d)
}

// ScanDeletedUnforwarded tells that a Scan went before every sink had its results.
func (l *Log) ScanDeletedUnforwarded(scan *executionv1.Scan, message string) {
	if l == nil {
		return
	}
	l.log(about(scan, ScanDeletedUnforwarded, message), detailsOf(scan))
}

// ResultsReleased tells that the results of a Scan are removed, since they were forwarded.
func (l *Log) ResultsReleased(scan *executionv1.Scan, asked *results.ReleaseRequest) {
	if l == nil {
		return
	}
	d := detailsOf(scan)
	d.Revision, d.Records, d.Chain, d.Sinks = asked.Revision, asked.Records, asked.Chain, asked.Sinks
	l.log(about(scan, ResultsReleased, "The results are removed from the cluster, since every sink has them."), d)
}
