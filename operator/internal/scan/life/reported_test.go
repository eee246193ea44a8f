// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// reports has a Job tell that it has stored so many findings; negative for none at all.
func reports(count int64, after time.Duration) func(*Job) {
	return func(j *Job) {
		j.Handover, j.Finished = true, testobjects.Epoch.Add(after)
		j.Report = Report{State: ReportReceived, Outcome: &apioutcome.Outcome{}}
		if count >= 0 {
			j.Report.Outcome.Findings = &apioutcome.Findings{
				Count: count, Severities: apioutcome.Severities{Low: count}, Stored: apioutcome.Stored{Size: count, SHA256: "sum"},
			}
		}
	}
}

func reportAs(state ReportState) func(*Job) {
	return func(j *Job) { j.Handover, j.Report = true, Report{State: state, Why: "it is a sentence"} }
}

func hookLabel(name string) Role { return hookRole(names.LabelValue(name)) }

// TestTakeFindings goes through who may have written findings last, and whether that is known.
func TestTakeFindings(t *testing.T) {
	writes := func(name string, state executionv1.HookState) executionv1.HookStatus {
		return executionv1.HookStatus{HookName: name, State: state, Type: executionv1.ReadAndWrite}
	}
	done := executionv1.HookStateCompleted
	for name, test := range map[string]struct {
		hooks []executionv1.HookStatus
		see   []func(*Observation)
		// was are the counts in the status, and want those that should be there; -1 for none.
		was, want int64
		unknown   bool // the bytes are not known
	}{
		"Parser":             {nil, list(withJob(ParserRole, Complete, reports(3, 1))), -1, 3, false},
		"ForgedMeanwhile":    {nil, list(withJob(ParserRole, Complete, reports(3, 1))), 99, 3, false},
		"ParserOfOthers":     {nil, list(withJob(ParserRole, Complete)), 7, 7, true},
		"ParserGone":         {nil, list(withJob(ParserRole, Complete, reportAs(ReportGone))), 99, -1, true},
		"HookAfterParser":    {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, reports(2, 2))), 3, 2, false},
		"InTheSameSecond":    {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, reports(2, 1))), 3, 2, false},
		"HookWroteNothing":   {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, reports(-1, 2))), -1, 3, false},
		"HookRuns":           {[]executionv1.HookStatus{writes("a", executionv1.HookStateInProgress)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Running, func(j *Job) { j.Handover = true })), 99, 3, false},
		"HookOfOthersRuns":   {[]executionv1.HookStatus{writes("a", executionv1.HookStateInProgress)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Running)), 8, 8, true},
		"HookOfOthersWasIt":  {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, func(j *Job) { j.Finished = testobjects.Epoch.Add(time.Hour) })), 8, 8, true},
		"OursAfterOthers":    {[]executionv1.HookStatus{writes("a", done), writes("b", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, func(j *Job) { j.Finished = testobjects.Epoch.Add(2) }), withJob(hookLabel("b"), Complete, reports(1, 3))), 8, 1, false},
		"HookRunAgainLast":   {[]executionv1.HookStatus{writes("a", done), writes("b", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, reports(5, 9)), withJob(hookLabel("b"), Complete, reports(4, 3))), 4, 5, false},
		"HookFailed":         {[]executionv1.HookStatus{writes("a", executionv1.HookStateFailed)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Failed, func(j *Job) { j.Handover = true })), 3, 3, true},
		"HookGoneAsRecorded": {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete, reportAs(ReportGone))), 8, 8, false},
		"HookJobGone":        {[]executionv1.HookStatus{writes("a", done)}, list(withJob(ParserRole, Complete, reports(3, 1))), 8, 8, false},
		"ReaderIsNoWriter":   {[]executionv1.HookStatus{{HookName: "a", State: done, Type: executionv1.ReadOnly}}, list(withJob(ParserRole, Complete, reports(3, 1)), withJob(hookLabel("a"), Complete)), 9, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s")
			scan.Status.State = executionv1.ScanStateHookProcessing
			scan.Status.StoredFindings = &executionv1.StoredObject{Size: 1, SHA256: "before"}
			if test.was >= 0 {
				scan.Status.Findings.Count = &test.was
			}
			if len(test.hooks) > 0 {
				scan.Status.OrderedHookStatuses = [][]executionv1.HookStatus{test.hooks}
			}
			o := observationOf(scan, test.see...)
			s := NewStatus(o)
			s.applyReports(o)
			if got := ptr.Deref(s.Findings.Count, -1); got != test.want {
				t.Errorf("count %d, want %d", got, test.want)
			}
			if (s.StoredFindings == nil) != test.unknown {
				t.Errorf("stored findings %v", s.StoredFindings)
			}
			again := s.DeepCopy()
			s.applyReports(o)
			if ptr.Deref(again.Findings.Count, -1) != ptr.Deref(s.Findings.Count, -1) {
				t.Error("taking it over twice is not the same")
			}
		})
	}
}

func TestParserWords(t *testing.T) {
	for name, test := range map[string]struct {
		state ReportState
		step  string
		then  executionv1.ScanState
		says  string
	}{
		"Awaited": {ReportAwaited, "ParserWords", "", ""},
		"Nothing": {ReportInvalid, "ParserToldNothing", executionv1.ScanStateErrored, "take scanAccess: Handover out of ParseDefinition \"nmap-xml\""},
		"Gone":    {ReportGone, "Parsed", executionv1.ScanStateDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s")
			scan.Status.State = executionv1.ScanStateParsing
			d := Decide(observationOf(scan, withJob(ParserRole, Complete, reportAs(test.state))))
			if d.Step != test.step {
				t.Fatalf("step %s", d.Step)
			}
			if d.Status == nil {
				if d.RequeueAfter <= 0 {
					t.Error("nothing brings it back")
				}
				return
			}
			if d.Status.State != test.then || !strings.Contains(d.Status.ErrorDescription, test.says) {
				t.Errorf("%s: %s", d.Status.State, d.Status.ErrorDescription)
			}
			if test.state == ReportGone {
				if c := FindCondition(d.Status.Conditions, executionv1.ConditionParsed); c.Message != uncounted {
					t.Errorf("it does not say that the count is not known: %s", c.Message)
				}
				if c := FindCondition(d.Status.Conditions, executionv1.ConditionTargetReached); c == nil || c.Status != metav1.ConditionUnknown {
					t.Errorf("condition %v", c)
				}
			}
		})
	}
}

// TestOnlyPermittedScansAreReported holds that a hook cannot tell the operator's own conditions.
func TestOnlyPermittedScansAreReported(t *testing.T) {
	scan := testobjects.Scan("s")
	scan.Status.State = executionv1.ScanStateHookProcessing
	scan.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{HookName: "a", State: executionv1.HookStateCompleted, Type: executionv1.ReadOnly}}}
	o := observationOf(scan, withJob(hookLabel("a"), Complete, func(j *Job) {
		j.Handover, j.Report = true, Report{State: ReportReceived, Outcome: &apioutcome.Outcome{Conditions: []apioutcome.Condition{
			{Type: executionv1.ConditionCascadingRulesMatched, Status: "False", Reason: "CategoryMissing", Message: "https://x/?secret=1"},
			{Type: executionv1.ConditionReady, Status: "True", Reason: "Forged"},
		}}}
	}))
	s := NewStatus(o)
	s.applyReports(o)
	if c := s.condition(executionv1.ConditionCascadingRulesMatched); c == nil || c.Reason != "CategoryMissing" || strings.Contains(c.Message, "secret") {
		t.Errorf("condition %v", c)
	}
	if c := s.condition(executionv1.ConditionReady); c != nil {
		t.Errorf("a hook has told %v", c)
	}
}
