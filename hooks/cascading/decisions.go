// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// decisionsVariable names the socket of an exporter beside the hook.
const decisionsVariable = "SCANYARD_DECISIONS"

// Event types of the hook's records.
const (
	eventStarted = "cascade_started"
	eventStopped = "cascade_stopped"
)

// closeTimeout bounds how long the end of the hook waits until its records are on the exporter's disk.
const closeTimeout = 5 * time.Second

// about is the Scan whose findings start others.
type about struct {
	namespace, name, uid string
	// ruleKind is the kind of its rules.
	ruleKind string
}

func aboutOf(s *sdk.Scan, scan finding.Object) about {
	a := about{namespace: s.Metadata.Namespace, name: s.Metadata.Name, uid: s.Metadata.UID, ruleKind: "CascadingRule"}
	if mode, _ := objectAt(scan, "spec").Text("resourceMode").Get(); mode == "clusterWide" {
		a.ruleKind = "ClusterCascadingRule"
	}
	return a
}

// started are the details of a child that was started, stopped those of children that were not.
type started struct {
	Parent    string `json:"parent"`
	ParentUID string `json:"parentUID"`
	Finding   string `json:"finding,omitempty"`
	ScanType  string `json:"scanType,omitempty"`
}

type stopped struct {
	UID    string       `json:"uid"`
	Reason plan.Stopped `json:"reason"`
	Count  int          `json:"count"`
}

// tellStarted makes a record of a child that was just created.
func (h *handler) tellStarted(a about, c plan.Child) {
	if h.told == nil {
		return
	}
	kind, _ := objectAt(c.Scan, "spec").Text("scanType").Get()
	h.tell(&decision.Record{
		EventType: eventStarted, Message: fmt.Sprintf("Rule %s has started Scan %s from a finding of Scan %s.", c.Rule, c.Name, a.name),
		ConstraintKind: a.ruleKind, ConstraintName: c.Rule, ConstraintAction: "start",
		ResourceKind: "Scan", ResourceNamespace: a.namespace, ResourceName: c.Name,
	}, started{Parent: a.name, ParentUID: a.uid, Finding: c.Finding, ScanType: kind})
}

// tellStops makes a record of each rule and reason for which children were not started, and one of the findings out of scope.
func (h *handler) tellStops(a about, p *plan.Plan, outcomes []plan.Outcome) {
	if h.told == nil {
		return
	}
	stop := func(rule, message string, reason plan.Stopped, count int) {
		r := &decision.Record{
			EventType: eventStopped, Message: message, ConstraintAction: "deny", ResourceKind: "Scan", ResourceNamespace: a.namespace, ResourceName: a.name,
		}
		if rule != "" {
			r.ConstraintKind, r.ConstraintName = a.ruleKind, rule
		}
		h.tell(r, stopped{UID: a.uid, Reason: reason, Count: count})
	}
	for i := range outcomes {
		o := &outcomes[i]
		text := o.Reason
		if o.Error != "" {
			text = o.Error
		}
		stops := o.Stops()
		for _, reason := range slices.Sorted(maps.Keys(stops)) {
			stop(o.Rule, fmt.Sprintf("Rule %s: %s", o.Rule, text), reason, stops[reason])
		}
	}
	if n := p.OutOfScope(); n > 0 {
		stop("", fmt.Sprintf("%d of %d findings are out of scope.", n, p.Findings()), plan.StoppedScope, n)
	}
}

func (h *handler) tell(r *decision.Record, details any) {
	r.TimeStamp = h.now().UTC().Format(time.RFC3339Nano)
	if text, err := json.Marshal(details); err == nil { // else the record goes without: its message says what happened
		r.Details = text
	}
	h.told.Log(r)
}

// closeDecisions waits a moment for the exporter. Records that it did not get fail nothing.
func closeDecisions(ctx context.Context, told *decision.Client, notef func(string, ...any)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := told.Close(ctx)
	lost := uint64(0)
	for _, n := range told.Stats().Dropped {
		lost += n
	}
	if err != nil || lost > 0 {
		notef("warning: the exporter did not get all records of decisions: %d are lost", lost)
	}
}
