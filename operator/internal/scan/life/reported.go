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

// Spoken is how the container of a pod that speaks for its Job ended well; nil where it did not. It is the first one,
// whatever others have been added.
func Spoken(p *corev1.Pod) *corev1.ContainerStateTerminated {
	name := ""
	if len(p.Spec.Containers) > 0 {
		name = p.Spec.Containers[0].Name
	}
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode == 0 && s.Name == name {
			return t
		}
	}
	return nil
}

// ReportGrace is how long after the end of a Job its last words are waited for before the API is asked for its pods.
const ReportGrace = 2 * time.Second

// NewReport is what the pods of a Job have told: the last that ended well.
func NewReport(pods []corev1.Pod) Report {
	var last *corev1.ContainerStateTerminated
	for i := range pods {
		if t := Spoken(&pods[i]); t != nil && (last == nil || !t.FinishedAt.Before(&last.FinishedAt)) {
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

// ReportState is how much is known of what the pod of a Job has told.
type ReportState int

const (
	// The zero value is of Jobs that have not ended well, or whose image writes the status itself.
	_ ReportState = iota
	// ReportAwaited means that the pod's last words have not come yet.
	ReportAwaited
	// ReportGone means that there is no pod any more that could tell.
	ReportGone
	// ReportInvalid means that the pod has ended well and told no outcome.
	ReportInvalid
	// ReportReceived means that there is an outcome.
	ReportReceived
)

// Report is what the pod of a Job has told.
type Report struct {
	State   ReportState
	Outcome *apioutcome.Outcome
	// Categories are those that are stored beside the findings.
	Categories map[string]int64
	// Why says what is wrong with last words that are no outcome.
	Why string
}

// reportedConditions are the conditions that parsers and hooks may have told; all others are the operator's own.
var reportedConditions = []string{executionv1.ConditionCascadingRulesMatched, executionv1.ConditionExceptionsApplied}

// uncounted is what the condition Parsed says where nobody could tell how many findings there are.
const uncounted = "The findings are stored. How many there are is not known: the parser's pod was gone before its last words were read."

func parserReports(want ReportState) func(*Observation) bool {
	return func(o *Observation) bool {
		j, ok := o.JobOf(ParserRole)
		return ok && j.Outcome == Complete && j.Report.State == want
	}
}

// awaitParserReport waits for the last words of a parser that has ended. They come with its pod, or the API is asked.
func awaitParserReport(o *Observation, d *Decision) {
	j, _ := o.JobOf(ParserRole)
	d.RequeueAfter = untilReport(o, j)
}

func untilReport(o *Observation, j Job) time.Duration {
	return max(j.Finished.Add(ReportGrace).Sub(o.Now), time.Millisecond)
}

// rejectParserReport ends a Scan whose parser does not do what its ParseDefinition says.
func rejectParserReport(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.scanned(o)
	j, _ := o.JobOf(ParserRole)
	d.fail(o, s, executionv1.ConditionParsed, Cause{executionv1.ReasonParserFailed, fmt.Sprintf(
		"The parser (Job %s) ended well and told no outcome: %s. If its image works by the Kubernetes API, as those of secureCodeBox do, "+
			"take scanAccess: Handover out of ParseDefinition %q (parser.scanAccess of its chart).", j.Name, j.Report.Why, s.RawResultType)})
}

// takeReports takes over what parser and hooks have told.
func (s *Status) takeReports(o *Observation) {
	if j, ok := o.JobOf(ParserRole); ok && j.Outcome == Complete {
		s.takeReached(o, j.Report)
		if j.Report.State == ReportReceived {
			s.takeConditions(o, j.Report.Outcome.Conditions)
		}
	}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			if j, ok := o.JobOf(hookRole(names.LabelValue(h.HookName))); ok && j.Report.State == ReportReceived {
				s.takeConditions(o, j.Report.Outcome.Conditions)
			}
		}
	}
	s.takeFindings(o)
}

func (s *Status) takeReached(o *Observation, t Report) {
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

func (s *Status) takeConditions(o *Observation, all []apioutcome.Condition) {
	for _, c := range all {
		if slices.Contains(reportedConditions, c.Type) {
			s.set(o, c.Type, metav1.ConditionStatus(c.Status), Cause{c.Reason, Clean(c.Message)})
		}
	}
}

// writer is a Job that may have written findings.
type writer struct {
	Job
	// recorded means that the status had taken over what it did when this pass began.
	recorded bool
}

// takeFindings takes over the counts, and which bytes the findings are, of the last Job that has written findings.
// Where that one does not tell, the status stays as its image has written it.
func (s *Status) takeFindings(o *Observation) {
	writers, whole := s.writers(o)
	if !whole {
		return
	}
	for _, w := range writers {
		switch {
		case !w.Handed, w.Outcome == Failed, w.Report.State == ReportInvalid:
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

// writers are the Jobs of the present run that may have written findings, the last first. whole is false where a hook
// has ended whose Job is gone: then the order is not known, and what it did is recorded.
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

// ended is when a Job ended; one that runs ends after all others.
func (w writer) ended() time.Time {
	if w.Finished.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return w.Finished
}

// hasEnded says whether the status that was read has a hook as ended.
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
		categories = map[string]int64{} // as all parsers of the contract leave it
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

// StoredObject is what was stored, as a status says it.
func StoredObject(s apioutcome.Stored) executionv1.StoredObject {
	return executionv1.StoredObject{Size: s.Size, SHA256: s.SHA256}
}
