// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// SucceededContainer returns the end of the container of a pod that reports for the Job, whatever containers others have added:
// the parser where there is one, else the first; nil if that container has not succeeded.
func SucceededContainer(p *corev1.Pod) *corev1.ContainerStateTerminated {
	name := ""
	if len(p.Spec.Containers) > 0 {
		name = p.Spec.Containers[0].Name
	}
	if executionv1.IsFusedPod(p) {
		name = executionv1.ContainerParser
	}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode == 0 && s.Name == name {
			return t
		}
	}
	return nil
}

// ReportGrace is how long after the end of a Job its report is awaited before the Job's pods are read from the API server.
const ReportGrace = 2 * time.Second

// NewReport returns the report of the pods of a Job, that of the last pod that succeeded.
func NewReport(pods []corev1.Pod) Report {
	var last *corev1.ContainerStateTerminated
	for i := range pods {
		if t := SucceededContainer(&pods[i]); t != nil && (last == nil || !t.FinishedAt.Before(&last.FinishedAt)) {
			last = t
		}
	}
	if last == nil {
		return Report{State: ReportGone}
	}
	out, err := apioutcome.Decode([]byte(last.Message))
	if err != nil {
		return Report{State: ReportInvalid, Why: err.Error()}
	}
	return Report{State: ReportReceived, Outcome: out}
}

// ReportState says whether the report of a Job is known.
type ReportState int

const (
	// The zero value is for Jobs that have not succeeded, or whose image writes the status itself.
	_ ReportState = iota
	// ReportAwaited means that the pod's termination message is not known yet.
	ReportAwaited
	// ReportGone means that no pod is left that has a termination message.
	ReportGone
	// ReportInvalid means that the pod has succeeded, and its termination message is not an outcome.
	ReportInvalid
	// ReportReceived means that the outcome is known.
	ReportReceived
)

// Report is what the pod of a Job reported by its termination message.
type Report struct {
	State   ReportState
	Outcome *apioutcome.Outcome
	// Categories are the counts that are stored beside the findings.
	Categories map[string]int64
	// Why says why the termination message is not an outcome.
	Why string
}

// reportedConditions are the conditions that parsers and hooks may report; all others are the operator's own.
var reportedConditions = []string{executionv1.ConditionCascadingRulesMatched, executionv1.ConditionExceptionsApplied}

// uncounted is the message of the condition Parsed if the number of findings is not known.
const uncounted = "The findings are stored. How many there are is not known: the parser's pod was gone before its last words were read."

func parserReports(want ReportState) func(*Observation) bool {
	return func(o *Observation) bool {
		j, ok := o.JobOf(ParserRole)
		return ok && j.Outcome == Complete && j.Report.State == want
	}
}

// awaitParserReport waits for the report of a parser that has ended: it comes with the pod's watch, or with a read after
// ReportGrace.
func awaitParserReport(o *Observation, d *Decision) {
	j, _ := o.JobOf(ParserRole)
	d.RequeueAfter = untilReport(o, j)
}

func untilReport(o *Observation, j Job) time.Duration {
	return max(j.Finished.Add(ReportGrace).Sub(o.Now), time.Millisecond)
}

// rejectParserReport fails a Scan whose parser does not report as its ParseDefinition says.
func rejectParserReport(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.scanned(o)
	j, _ := o.JobOf(ParserRole)
	d.fail(o, s, executionv1.ConditionParsed, Cause{executionv1.ReasonParserFailed, fmt.Sprintf(
		"The parser (Job %s) ended well and told no outcome: %s. If its image works by the Kubernetes API, as those of secureCodeBox do, "+
			"take scanAccess: Handover out of ParseDefinition %q (parser.scanAccess of its chart).", j.Name, j.Report.Why, s.RawResultType)})
}

// applyReports copies the reports of parser and hooks into the status.
func (s *Status) applyReports(o *Observation) {
	if j, ok := o.JobOf(ParserRole); ok && j.Outcome == Complete {
		s.applyReached(o, j.Report)
		if j.Report.State == ReportReceived {
			s.applyConditions(o, j.Report.Outcome.Conditions)
		}
	}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			if j, ok := o.JobOf(hookRole(names.LabelValue(h.HookName))); ok && j.Report.State == ReportReceived {
				s.applyConditions(o, j.Report.Outcome.Conditions)
			}
		}
	}
	s.applyFindings(o)
}

func (s *Status) applyReached(o *Observation, t Report) {
	switch {
	case t.State == ReportGone && s.condition(executionv1.ConditionTargetReached) == nil:
		s.set(o, executionv1.ConditionTargetReached, metav1.ConditionUnknown, Cause{
			executionv1.ReasonReachUnknown, "The parser's pod was gone before its last words were read.",
		})
	case t.State != ReportReceived || t.Outcome.Reached == nil:
	case t.Outcome.Reached.Status == apioutcome.True:
		s.set(o, executionv1.ConditionTargetReached, metav1.ConditionTrue, Cause{executionv1.ReasonTargetReached, t.Outcome.Reached.Message})
	case t.Outcome.Reached.Status == apioutcome.False:
		s.set(o, executionv1.ConditionTargetReached, metav1.ConditionFalse, Cause{executionv1.ReasonNothingReached, t.Outcome.Reached.Message})
	default:
		s.set(o, executionv1.ConditionTargetReached, metav1.ConditionUnknown, Cause{executionv1.ReasonReachUnknown, t.Outcome.Reached.Message})
	}
}

func (s *Status) applyConditions(o *Observation, all []apioutcome.Condition) {
	for _, c := range all {
		if slices.Contains(reportedConditions, c.Type) {
			s.set(o, c.Type, metav1.ConditionStatus(c.Status), Cause{c.Reason, Clean(c.Message)})
		}
	}
}

// writer is a Job that may have written findings.
type writer struct {
	Job
	// recorded means that the status had the result of the Job when this pass began.
	recorded bool
}

// applyFindings copies the counts and the digest of the findings from the report of the last Job that wrote findings. If that
// Job has no report, the status stays as the Job's image wrote it.
func (s *Status) applyFindings(o *Observation) {
	writers, whole := s.writers(o)
	if !whole {
		return
	}
	for _, w := range writers {
		switch {
		case !w.Handover, w.Outcome == Failed, w.Report.State == ReportInvalid:
			s.StoredFindings = nil
			return
		case w.Outcome == Running, w.Report.State == ReportAwaited:
		case w.Report.State == ReportGone:
			if !w.recorded {
				s.Findings, s.StoredFindings = executionv1.FindingStats{}, nil
			}
			return
		case w.Report.State == ReportReceived && w.Report.Outcome.Findings != nil:
			s.setFindings(w.Report.Outcome.Findings, w.Report.Categories)
			return
		}
	}
}

// writers returns the Jobs of the current run that may have written findings, the last one first. whole is false if the Job of
// an ended hook is gone: then the order is not known, and the status already has the result of that hook.
func (s *Status) writers(o *Observation) (all []writer, whole bool) {
	if j, ok := o.JobOf(ParserRole); ok {
		was := meta.IsStatusConditionTrue(o.Scan.Status.Conditions, executionv1.ConditionParsed)
		all = append(all, writer{j, was})
	}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			if h.Type != executionv1.ReadAndWrite {
				continue
			}
			j, ok := o.JobOf(hookRole(names.LabelValue(h.HookName)))
			switch {
			case ok:
				all = append(all, writer{j, hasEnded(o.Scan, h.HookName)})
			case h.State == executionv1.HookStateCompleted, h.State == executionv1.HookStateFailed, h.State == executionv1.HookStateInProgress:
				return nil, false
			}
		}
	}
	slices.Reverse(all) // Jobs end by the second: of two, the one that was started later wins
	slices.SortStableFunc(all, func(a, b writer) int { return b.ended().Compare(a.ended()) })
	return all, true
}

// ended returns when a Job ended. A running Job ends after all others.
func (w writer) ended() time.Time {
	if w.Finished.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return w.Finished
}

// hasEnded reports whether a hook has ended by the status that was read.
func hasEnded(scan *executionv1.Scan, hook string) bool {
	for _, g := range scan.Status.OrderedHookStatuses {
		for _, h := range g {
			if h.HookName == hook {
				return h.State == executionv1.HookStateCompleted || h.State == executionv1.HookStateFailed
			}
		}
	}
	return false
}

func (s *Status) setFindings(f *apioutcome.Findings, stored map[string]int64) {
	count := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	categories := f.Categories
	if f.CategoriesStored != nil {
		categories = stored
	}
	if categories == nil {
		categories = map[string]int64{} // all parsers of the contract write an empty map
	}
	s.Findings = executionv1.FindingStats{
		Count: new(f.Count),
		FindingSeverities: executionv1.FindingSeverities{
			Informational: count(f.Severities.Informational), Low: count(f.Severities.Low),
			Medium: count(f.Severities.Medium), High: count(f.Severities.High),
		},
		FindingCategories: categories,
	}
	if o := f.Open; o != nil {
		s.Findings.Excepted = new(f.Excepted)
		s.Findings.Open = &executionv1.FindingSeverities{
			Informational: count(o.Informational), Low: count(o.Low), Medium: count(o.Medium), High: count(o.High),
		}
	}
	for _, e := range f.Exceptions {
		kind := "FindingException"
		if e.Cluster {
			kind = "ClusterFindingException"
		}
		s.Findings.Exceptions = append(s.Findings.Exceptions, executionv1.ExceptionCount{Name: e.Name, Kind: kind, Count: e.Count})
	}
	s.StoredFindings = new(StoredObject(f.Stored))
}

// StoredObject returns the size and the digest of a stored object as fields of the status.
func StoredObject(s apioutcome.Stored) executionv1.StoredObject {
	return executionv1.StoredObject{Size: s.Size, SHA256: s.SHA256}
}
