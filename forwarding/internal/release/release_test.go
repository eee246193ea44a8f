// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const hub, siem = "cluster/hub", "cluster/siem"

// forwarded is a Scan that two healthy sinks have; the hub proves it.
func forwarded() *Observation {
	o := &Observation{Now: now, Mode: settingsv1alpha2.AfterForwardingRemove, Allowed: true, Keys: plan.Keys{[]byte(strings.Repeat("k", 32))}}
	o.Scan = &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", UID: "u"}}
	o.Scan.Status.State = executionv1.ScanStateDone
	o.Scan.Status.Conditions = []metav1.Condition{
		{Type: executionv1.ConditionHooksCompleted, Status: metav1.ConditionTrue}, {Type: executionv1.ConditionForwarded, Status: metav1.ConditionTrue},
	}
	for _, id := range []string{hub, siem} {
		o.Sinks = append(o.Sinks, Sink{Sink: plan.Sink{
			EffectiveSink: settings.EffectiveSink{ID: id}, Health: plan.Health{Phase: plan.Healthy, Heard: now.Add(-time.Minute)},
		}})
		verdict := executionv1.VerdictAccepted
		if id == hub {
			verdict = executionv1.VerdictComplete
		}
		o.change(id, func(p *executionv1.SinkProgress) {
			p.Revision, p.ETag, p.Records, p.Chain, p.Verdict = 1, "e", 3, "abcd", verdict
			p.CompletedAt = &metav1.Time{Time: now}
		})
	}
	o.Evidence = Evidence{Probed: map[string]bool{}, Proofs: map[string]sink.Verdict{}}
	return o
}

// change makes, or changes, the entry of a sink, and seals it.
func (o *Observation) change(id string, f func(*executionv1.SinkProgress)) {
	for i := range o.Scan.Status.Forwarding {
		if p := &o.Scan.Status.Forwarding[i]; p.Sink == id {
			f(p)
			*p = o.Keys.Seal(o.Scan.UID, *p)
			return
		}
	}
	p := executionv1.SinkProgress{Sink: id}
	f(&p)
	o.Scan.Status.Forwarding = append(o.Scan.Status.Forwarding, o.Keys.Seal(o.Scan.UID, p))
}

func held(completeness forwardingv1.Completeness, records uint64, chain ...byte) sink.Verdict {
	return sink.Verdict{Proved: true, Completeness: completeness, Records: records, Chain: chain}
}

const complete = forwardingv1.Completeness_COMPLETENESS_COMPLETE

// upTo puts the evidence of all steps before one into an observation.
func upTo(step Step) func(*Observation) {
	return func(o *Observation) {
		for {
			d := Next(o)
			switch e := &o.Evidence; d.Step {
			case step, None, Keep, Done:
				return
			case Probe:
				e.Probed[d.Sink] = true
			case Prove:
				e.Proofs[d.Sink] = held(complete, 3, 0xab, 0xcd)
			case Ask:
				e.Agreed = true
			case DeleteReports:
				e.ReportsDeleted = true
			case Release:
				e.Released = true
			}
		}
	}
}

// TestOrder: the steps come in the order of the contract, and each only after the one before.
func TestOrder(t *testing.T) {
	o := forwarded()
	o.Sinks[1].Health.Heard = now.Add(-time.Hour)
	var order []string
	for _, step := range []Step{Probe, Prove, Ask, DeleteReports, Release, Done} {
		upTo(step)(o)
		d := Next(o)
		if d.Step != step {
			t.Fatalf("%v, then %s (%s %s) instead of %s", order, d.Step, d.Reason, d.Message, step)
		}
		order = append(order, string(d.Step)+" "+d.Sink)
		if step == Probe { // it has answered
			o.Evidence.Probed[d.Sink] = true
			o.Sinks[1].Health.Heard = now
		}
	}
	if got := strings.Join(order, ";"); got != "Probe "+siem+";Prove "+hub+";Ask ;DeleteReports ;Release ;Done " {
		t.Errorf("order %s", got)
	}
}

func TestNext(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*Observation) {
		return func(o *Observation) {
			for i := range o.Scan.Status.Conditions {
				if c := &o.Scan.Status.Conditions[i]; c.Type == kind {
					c.Status = status
				}
			}
		}
	}
	annotated := func(key, value string) func(*Observation) {
		return func(o *Observation) { metav1.SetMetaDataAnnotation(&o.Scan.ObjectMeta, key, value) }
	}
	entry := func(id string, f func(*executionv1.SinkProgress)) func(*Observation) {
		return func(o *Observation) { o.change(id, f) }
	}
	proof := func(v sink.Verdict) func(*Observation) {
		return func(o *Observation) { o.Evidence.Proofs[hub] = v }
	}
	operatorSays := func(reason string) func(*Observation) {
		return func(o *Observation) { o.Evidence.Refusal = &apiresults.Refusal{Reason: reason, Message: "no"} }
	}
	fails := func(o *Observation) {
		o.Sinks[1].Health = plan.Health{Phase: plan.Failing, Reason: sink.ConnectionRefused, Heard: now}
	}
	type changes []func(*Observation)
	cases := map[string]struct {
		why    string
		change changes
		step   Step
		reason string
	}{
		"Forwarded":        {"its sinks are healthy: the one that proves is asked", nil, Prove, ""},
		"Keep":             {"the settings keep results", changes{func(o *Observation) { o.Mode = settingsv1alpha2.AfterForwardingKeep }}, None, ""},
		"NoSinks":          {"nobody has them", changes{func(o *Observation) { o.Sinks = nil }}, None, ""},
		"Runs":             {"it is not over", changes{func(o *Observation) { o.Scan.Status.State = executionv1.ScanStateParsing }}, None, ""},
		"HooksRun":         {"hooks read them", changes{condition(executionv1.ConditionHooksCompleted, metav1.ConditionUnknown)}, None, ""},
		"RunsAgain":        {"somebody wants it again", changes{annotated(executionv1.AnnotationRerun, "hooks")}, None, ""},
		"Deleted":          {"its deletion removes them", changes{func(o *Observation) { o.Scan.DeletionTimestamp = &metav1.Time{Time: now} }}, None, ""},
		"Released":         {"that is done", changes{annotated(executionv1.AnnotationReleased, "1")}, None, ""},
		"ReleasedBefore":   {"that was another run", changes{annotated(executionv1.AnnotationReleased, "7")}, Prove, ""},
		"OnItsWay":         {"it is being sent", changes{entry(siem, func(p *executionv1.SinkProgress) { p.CompletedAt = nil }), condition(executionv1.ConditionForwarded, metav1.ConditionUnknown)}, None, ""},
		"YoungerSink":      {"a sink that came later lacks them", changes{entry(siem, func(p *executionv1.SinkProgress) { p.Sink = "cluster/old" })}, Keep, "KeptUnproved"},
		"Forged":           {"somebody else has written the entry", changes{func(o *Observation) { o.Scan.Status.Forwarding[0].Records = 4 }}, Keep, "KeptUnproved"},
		"OldRevision":      {"the run before was sent", changes{entry(hub, func(p *executionv1.SinkProgress) { p.Revision = 0 })}, Keep, "KeptUnproved"},
		"DeadLetter":       {"a record was refused", changes{entry(siem, func(p *executionv1.SinkProgress) { p.DeadLetters = 1 })}, Keep, "KeptUnproved"},
		"OutOfBounds":      {"the cluster does not allow the sink", changes{func(o *Observation) { o.Sinks[1].OutOfBounds = "no" }}, Keep, "KeptUnproved"},
		"Retained":         {"somebody wants them to stay", changes{annotated(executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain)}, Keep, "KeptRetained"},
		"SwitchOff":        {"the forwarder may not", changes{func(o *Observation) { o.Allowed = false }}, Keep, "StorageSwitchOff"},
		"NothingProves":    {"only acknowledged", changes{entry(hub, func(p *executionv1.SinkProgress) { p.Verdict = executionv1.VerdictAccepted })}, Keep, "KeptUnproved"},
		"SinkFails":        {"health is lost", changes{fails}, Keep, "ForwardingUnhealthy"},
		"Silent":           {"nothing was heard lately", changes{func(o *Observation) { o.Sinks[0].Health.Heard = now.Add(-freshFor) }}, Probe, ""},
		"NeverHeard":       {"after a start nothing is known", changes{func(o *Observation) { o.Sinks[0].Health = plan.Health{} }}, Probe, ""},
		"ProbeInVain":      {"it was asked", changes{func(o *Observation) { o.Sinks[0].Health = plan.Health{}; o.Evidence.Probed[hub] = true }}, Keep, "ForwardingUnhealthy"},
		"Trial":            {"a probe was answered", changes{func(o *Observation) { o.Sinks[0].Health.Phase = plan.Trial }}, Prove, ""},
		"LongPending":      {"a Scan has waited for an hour", changes{func(o *Observation) { o.Sinks[0].OldestPending = now.Add(-longestPending) }}, Keep, "ForwardingUnhealthy"},
		"Pending":          {"a Scan waits", changes{func(o *Observation) { o.Sinks[0].OldestPending = now.Add(-longestPending + time.Second) }}, Prove, ""},
		"Refused":          {"a record was refused a moment ago", changes{func(o *Observation) { o.Sinks[0].Refused = now.Add(-refusalRest + time.Second) }}, Keep, "ForwardingUnhealthy"},
		"RefusedOnce":      {"that is long ago", changes{func(o *Observation) { o.Sinks[0].Refused = now.Add(-refusalRest) }}, Prove, ""},
		"Proved":           {"count and chain agree", changes{proof(held(complete, 3, 0xab, 0xcd))}, Ask, ""},
		"ProvedByAcks":     {"the sink tells nothing of single Scans", changes{proof(sink.Verdict{Proved: true})}, Ask, ""},
		"OtherCount":       {"the far end has lost a record", changes{proof(held(complete, 2, 0xab, 0xcd))}, Keep, "KeptUnproved"},
		"OtherChain":       {"the far end has others", changes{proof(held(complete, 3, 0xab))}, Keep, "KeptUnproved"},
		"Open":             {"the far end has lost the closing record", changes{proof(held(forwardingv1.Completeness_COMPLETENESS_OPEN, 3, 0xab, 0xcd))}, Keep, "KeptUnproved"},
		"NotKept":          {"the far end keeps nothing any longer", changes{proof(sink.Verdict{Completeness: complete, Records: 3, Chain: []byte{0xab, 0xcd}})}, Keep, "KeptUnproved"},
		"Compared":         {"the operator keeps the newest run", changes{upTo(Ask), operatorSays(apiresults.ReasonNeededForComparison)}, Keep, "KeptForComparison"},
		"RetainedSince":    {"the operator sees what has changed", changes{upTo(Ask), operatorSays(apiresults.ReasonRetained)}, Keep, "KeptRetained"},
		"OperatorUnwell":   {"the operator sees the health of sinks", changes{upTo(Ask), operatorSays(apiresults.ReasonNotHealthy)}, Keep, "ForwardingUnhealthy"},
		"Changed":          {"the findings are others", changes{upTo(Ask), operatorSays(apiresults.ReasonResultsChanged)}, Keep, "KeptUnproved"},
		"OperatorNoSettle": {"a new run has begun", changes{upTo(Ask), operatorSays(apiresults.ReasonNotSettled)}, None, ""},
		"RefusedAtLast":    {"what has changed since the dry run counts", changes{upTo(Release), operatorSays(apiresults.ReasonResultsChanged)}, Keep, "KeptUnproved"},
		"LostBeforeAsk":    {"nothing was done yet", changes{upTo(Ask), fails}, Keep, "ForwardingUnhealthy"},
		"LostBeforeDelete": {"nothing was done yet", changes{upTo(DeleteReports), fails}, Keep, "ForwardingUnhealthy"},
		"LostAtLast":       {"only reports are gone", changes{upTo(Release), fails}, Keep, "ForwardingUnhealthy"},
		"RerunAtLast":      {"a new run makes new reports", changes{upTo(Release), annotated(executionv1.AnnotationRerun, "scanner")}, None, ""},
		"Done":             {"the operator goes on alone", changes{upTo(Done)}, Done, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := forwarded()
			for _, change := range tc.change {
				change(o)
			}
			d := Next(o)
			if d.Step != tc.step || d.Reason != tc.reason || (d.Message == "") != (tc.reason == "") {
				t.Errorf("%s: %+v, want %s %s", tc.why, d, tc.step, tc.reason)
			}
			if d.Step == Keep && d.RequeueAfter == 0 {
				t.Errorf("%s: nobody looks again", tc.why)
			}
			if says := strings.Contains(d.Message, "hook/persistence-reports"); says != (name == "LostAtLast") {
				t.Errorf("%s: tells of reports that are gone: %t", tc.why, says)
			}
		})
	}
}

// TestRequest: the operator is told what was proved.
func TestRequest(t *testing.T) {
	r := Request(forwarded(), true)
	if !r.DryRun || r.UID != "u" || r.Revision != 1 || r.ETag != "e" || r.Records != 3 || r.Chain != "abcd" || strings.Join(r.Sinks, " ") != hub+" "+siem {
		t.Errorf("%+v", r)
	}
}
