// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	// freshFor is how long the last answer of a sink makes the sink healthy.
	freshFor = 2 * time.Minute
	// longestPending is how long a Scan may wait for a healthy sink.
	longestPending = time.Hour
	// refusalRest is how long a sink is not healthy after it has refused a record.
	refusalRest = 10 * time.Minute

	lookAgain  = 10 * time.Minute
	lookSooner = 30 * time.Second
)

// Step is what is done next.
type Step string

// The steps, in their order.
const (
	// None: there is nothing to do for this Scan now.
	None Step = "None"
	// Keep: the results could go and are kept; the condition says why.
	Keep Step = "Keep"
	// Probe asks a sink of which nothing was heard lately whether it would take records.
	Probe Step = "Probe"
	// Prove asks a sink what it holds of the Scan.
	Prove Step = "Prove"
	// Ask asks the operator whether it would remove the results.
	Ask Step = "Ask"
	// DeleteReports deletes the reports of the Scan.
	DeleteReports Step = "DeleteReports"
	// Release asks the operator to remove the results.
	Release Step = "Release"
	// Done: the operator removes them.
	Done Step = "Done"
)

// Sink is one effective sink of the Scan's namespace with what is known of it.
type Sink struct {
	plan.Sink

	// OldestPending is when the oldest Scan ended that waits for the sink, Refused when it last refused a record; zero: none.
	OldestPending, Refused time.Time
}

// Evidence is what this pass has found out.
type Evidence struct {
	// Probed are the sinks that were asked whether they would take records.
	Probed map[string]bool
	// Proofs is what sinks hold of the Scan.
	Proofs map[string]sink.Verdict
	// Agreed: the operator would remove the results. Refusal is why it does not.
	Agreed  bool
	Refusal *apiresults.Refusal
	// ReportsDeleted, Released: done.
	ReportsDeleted, Released bool
}

// Observation is everything that is looked at.
type Observation struct {
	Now  time.Time
	Scan *executionv1.Scan
	Mode settingsv1alpha2.AfterForwarding
	// Allowed: the forwarder may give results up.
	Allowed  bool
	Sinks    []Sink
	Keys     plan.Keys
	Evidence Evidence
}

// Decision is the next step.
type Decision struct {
	Step Step
	// Sink is the ID of the sink to probe, or that is to prove.
	Sink string
	// Reason and Message are of the condition ResultsStored of a Scan whose results are kept.
	Reason, Message string
	// RequeueAfter is when to look again; 0: when the Scan changes.
	RequeueAfter time.Duration
}

// Next decides. It is a pure function.
func Next(o *Observation) Decision {
	if o.Evidence.Released {
		return Decision{Step: Done}
	}
	if !isOver(o) {
		return Decision{Step: None}
	}
	entries, lacking := o.entries()
	switch {
	case len(lacking) > 0 && !isForwarded(o.Scan):
		return Decision{Step: None} // it is on its way
	case len(lacking) > 0:
		return keep(executionv1.ReasonKeptUnproved, lookAgain, "lacking are: %s", strings.Join(lacking, ", "))
	}
	for _, check := range []func(*Observation, []executionv1.SinkProgress) *Decision{
		refused, forbidden, unhealthy, unproved, refusedByOperator,
	} {
		if d := check(o, entries); d != nil {
			return *d
		}
	}
	switch e := &o.Evidence; {
	case !e.Agreed:
		return Decision{Step: Ask}
	case !e.ReportsDeleted:
		return Decision{Step: DeleteReports}
	}
	return Decision{Step: Release}
}

func keep(reason string, after time.Duration, format string, args ...any) Decision {
	return Decision{Step: Keep, Reason: reason, Message: fmt.Sprintf(format, args...), RequeueAfter: after}
}

// isOver holds where the settings let the results go, and nothing is to come of the Scan any more.
func isOver(o *Observation) bool {
	mode := o.Mode == settingsv1alpha2.AfterForwardingRemove || o.Mode == settingsv1alpha2.AfterForwardingKeepLastRun
	if !mode || len(o.Sinks) == 0 || !o.Scan.DeletionTimestamp.IsZero() || !o.Scan.Settled() || o.Scan.Released() {
		return false
	}
	if asked := o.Scan.Annotations[executionv1.AnnotationRerun]; asked != "" && asked != o.Scan.Status.LastRerun {
		return false
	}
	_, over := plan.IsOver(o.Scan)
	return over
}

func isForwarded(scan *executionv1.Scan) bool {
	return slices.ContainsFunc(scan.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == executionv1.ConditionForwarded && c.Status == metav1.ConditionTrue
	})
}

// entries are what each sink has of the present run, as the forwarder has sealed it; lacking are the sinks without all.
func (o *Observation) entries() (entries []executionv1.SinkProgress, lacking []string) {
	for i := range o.Sinks {
		s := &o.Sinks[i]
		fresh := plan.Fresh(o.Scan, &s.Sink)
		at := slices.IndexFunc(o.Scan.Status.Forwarding, func(p executionv1.SinkProgress) bool {
			return plan.SameRun(&p, &fresh) && plan.Complete(&p) && o.Keys.Valid(o.Scan.UID, p)
		})
		if at < 0 || s.OutOfBounds != "" {
			lacking = append(lacking, s.ID)
			continue
		}
		entries = append(entries, o.Scan.Status.Forwarding[at])
	}
	return entries, lacking
}

// refused keeps a Scan of which a sink has refused records.
func refused(_ *Observation, entries []executionv1.SinkProgress) *Decision {
	for i := range entries {
		if n := entries[i].DeadLetters; n > 0 {
			return new(keep(executionv1.ReasonKeptUnproved, lookAgain, "%s has refused %d records", entries[i].Sink, n))
		}
	}
	return nil
}

// forbidden keeps a Scan whose results nobody may give up, or that no sink proves to have.
func forbidden(o *Observation, entries []executionv1.SinkProgress) *Decision {
	switch {
	case o.Scan.Annotations[executionv1.AnnotationOnDelete] == executionv1.OnDeleteRetain:
		return new(keep(executionv1.ReasonKeptRetained, lookAgain, "the annotation %s is %q", executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain))
	case !o.Allowed:
		return new(keep(executionv1.ReasonStorageSwitchOff, lookAgain,
			"the settings say %s, and the forwarder may not remove results: set forwarder.storageSwitch.enabled in charts/forwarding", o.Mode))
	case !slices.ContainsFunc(entries, proves):
		return new(keep(executionv1.ReasonKeptUnproved, lookAgain, "no sink proves that it keeps the results"))
	}
	return nil
}

func proves(p executionv1.SinkProgress) bool { return p.Verdict == executionv1.VerdictComplete }

// unhealthy keeps a Scan while a sink is not healthy, and has sinks probed of which nothing was heard lately.
func unhealthy(o *Observation, _ []executionv1.SinkProgress) *Decision {
	for i := range o.Sinks {
		s := &o.Sinks[i]
		var why string
		switch {
		case s.Health.Phase == plan.Failing:
			why = string(s.Health.Reason)
		case !s.OldestPending.IsZero() && o.Now.Sub(s.OldestPending) >= longestPending:
			why = "a Scan has waited for it for an hour or longer"
		case !s.Refused.IsZero() && o.Now.Sub(s.Refused) < refusalRest:
			why = "it has refused a record a moment ago"
		case o.Now.Sub(s.Health.Heard) < freshFor:
			continue
		case !o.Evidence.Probed[s.ID]:
			return &Decision{Step: Probe, Sink: s.ID}
		default:
			why = "it does not answer"
		}
		message := fmt.Sprintf("%s is not healthy (%s): the results go when all sinks are", s.ID, why)
		if o.Evidence.ReportsDeleted {
			message += "; the reports of the Scan are removed already, the annotation " + executionv1.AnnotationRerun + ": hook/persistence-reports makes them anew"
		}
		return new(keep(executionv1.ReasonForwardingUnhealthy, lookSooner, "%s", message))
	}
	return nil
}

// unproved has every proving sink asked once more, and keeps a Scan of which one holds something else than it once proved.
func unproved(o *Observation, entries []executionv1.SinkProgress) *Decision {
	for i := range entries {
		p := &entries[i]
		if !proves(*p) {
			continue
		}
		held, asked := o.Evidence.Proofs[p.Sink]
		if !asked {
			return &Decision{Step: Prove, Sink: p.Sink}
		}
		if !agrees(&held, p) {
			return new(keep(executionv1.ReasonKeptUnproved, lookAgain,
				"%s does not prove any longer that it has all %d records: raise its epoch to send them again", p.Sink, p.Records))
		}
	}
	return nil
}

// agrees tells whether a sink still has what it once proved. One that tells nothing of single Scans proves by what it acknowledges.
func agrees(held *sink.Verdict, p *executionv1.SinkProgress) bool {
	switch {
	case !held.Proved:
		return false
	case held.Completeness == forwardingv1.Completeness_COMPLETENESS_UNSPECIFIED:
		return true
	}
	return held.Completeness == forwardingv1.Completeness_COMPLETENESS_COMPLETE && held.Records == uint64(max(p.Records, 0)) &&
		hex.EncodeToString(held.Chain) == p.Chain
}

// refusedByOperator keeps a Scan whose results the operator does not remove.
func refusedByOperator(o *Observation, _ []executionv1.SinkProgress) *Decision {
	r := o.Evidence.Refusal
	if r == nil {
		return nil
	}
	switch r.Reason {
	case apiresults.ReasonNeededForComparison:
		return new(keep(executionv1.ReasonKeptForComparison, lookAgain, "%s", r.Message))
	case apiresults.ReasonRetained:
		return new(keep(executionv1.ReasonKeptRetained, lookAgain, "%s", r.Message))
	case apiresults.ReasonNotHealthy:
		return new(keep(executionv1.ReasonForwardingUnhealthy, lookSooner, "%s", r.Message))
	case apiresults.ReasonNotForwarded, apiresults.ReasonNotProved, apiresults.ReasonResultsChanged:
		return new(keep(executionv1.ReasonKeptUnproved, lookAgain, "%s", r.Message))
	}
	return &Decision{Step: None, RequeueAfter: lookSooner} // it runs again, is deleted, or the settings have changed
}

// Told is what people are told of results that were given up.
func Told(r *apiresults.ReleaseRequest) string {
	return fmt.Sprintf("the results are removed from the cluster: %d records are with %s, chain %s", r.Records, strings.Join(r.Sinks, ", "), r.Chain)
}

// Request is what the operator is asked for.
func Request(o *Observation, dryRun bool) apiresults.ReleaseRequest {
	r := apiresults.ReleaseRequest{
		DryRun: dryRun, Namespace: o.Scan.Namespace, Name: o.Scan.Name, UID: string(o.Scan.UID), Revision: o.Scan.Revision(),
	}
	entries, _ := o.entries()
	for i := range entries {
		p := &entries[i]
		r.Sinks = append(r.Sinks, p.Sink)
		r.ETag = p.ETag
		if proves(*p) && r.Chain == "" {
			r.Records, r.Chain = p.Records, p.Chain
		}
	}
	return r
}
