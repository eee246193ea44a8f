// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

var place = &fair.Standing{
	Position: 2, Of: 9, NamespacePosition: 1, NamespaceOf: 4, Limit: fair.Limit{Kind: fair.NamespaceLimit, Namespace: "team"}, Bound: 3,
}

const placeText = "Position 2 of 9, 1 of 4 in its namespace: at most 3 run at a time in namespace team."

func withReport(o *Observation) { o.Turn = Turn{Wait: true, Limited: true, Report: place} }

// admittedAs gives a Scan the condition Admitted.
func admittedAs(value metav1.ConditionStatus, reason string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: executionv1.ConditionAdmitted, Status: value, Reason: reason, Message: "before", LastTransitionTime: metav1.Time{Time: testobjects.Epoch},
		})
	}
}

// saidOf is a condition as status, reason and message; empty where there is none.
func saidOf(s *executionv1.ScanStatus, kind string) [3]string {
	if c := FindCondition(s.Conditions, kind); c != nil {
		return [3]string{string(c.Status), c.Reason, c.Message}
	}
	return [3]string{}
}

// A Scan that waits costs no write unless there is something to tell.
func TestWaitingCostsNoWrite(t *testing.T) {
	d := Decide(observationOf(testobjects.Scan("s"), withoutTurn))
	if d.Step != "Queued" || d.Status != nil || d.RequeueAfter != 0 || len(d.Create) > 0 {
		t.Errorf("%+v", d)
	}
}

func TestWaitIsReported(t *testing.T) {
	cases := map[string]struct {
		scan *executionv1.Scan
		// event says whether the user is told by one too.
		event bool
	}{
		"First": {testobjects.Scan("s"), true},
		"Again": {testobjects.Scan("s", admittedAs(metav1.ConditionFalse, executionv1.ReasonClusterLimit)), false},
		// Its first run had its turn; this is another wait.
		"OfARerun": {testobjects.Scan("s", admittedAs(metav1.ConditionTrue, executionv1.ReasonAdmitted)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(tc.scan, withReport))
			want := map[string][3]string{
				executionv1.ConditionAdmitted: {"False", executionv1.ReasonNamespaceLimit, placeText},
				executionv1.ConditionScanned:  {"Unknown", executionv1.ReasonQueued, "Waits for its turn. " + placeText},
				executionv1.ConditionReady:    {"Unknown", executionv1.ReasonQueued, "Waits for its turn. " + placeText},
			}
			for kind := range want {
				if diff := cmp.Diff(want[kind], saidOf(d.Status, kind)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
			if (d.QueuedEvent != nil) != tc.event || d.ReportedPlace != place {
				t.Errorf("event %v, told %v", d.QueuedEvent, d.ReportedPlace)
			}
			if d.Status.State != executionv1.ScanStateNew || len(d.Create) > 0 {
				t.Errorf("state %q, launches %v", d.Status.State, d.Create)
			}
		})
	}
}

// Whatever ends the wait, the condition does not go on to speak of a place.
func TestWaitEnds(t *testing.T) {
	waiting := admittedAs(metav1.ConditionFalse, executionv1.ReasonClusterLimit)
	started := [3]string{"True", executionv1.ReasonAdmitted, "The Scan has started."}
	cases := map[string]struct {
		o    *Observation
		step string
		want [3]string
	}{
		"ByItsTurn":     {observationOf(testobjects.Scan("s", waiting)), "Start", started},
		"WithoutAWait":  {observationOf(testobjects.Scan("s")), "Start", [3]string{}},
		"OutOfTurn":     {observationOf(testobjects.Scan("s"), func(o *Observation) { o.Turn.OutOfTurn = true }), "Start", [3]string{"True", executionv1.ReasonWaitedLongest, "The Scan has started: it had waited longer than any other."}},
		"BySuspension":  {observationOf(testobjects.Scan("s", waiting, testobjects.Suspended)), "Suspended", [3]string{}},
		"ByAnError":     {observationOf(testobjects.Scan("s", waiting, func(s *executionv1.Scan) { s.Spec.ScanType = "" })), "InvalidSpec", [3]string{}},
		"ByAJobBehind":  {observationOf(testobjects.Scan("s", admittedAs(metav1.ConditionTrue, executionv1.ReasonAdmitted)), withJob(ScannerRole, Running)), "ScannerRuns", [3]string{"True", executionv1.ReasonAdmitted, "before"}},
		"ByCancelation": {observationOf(testobjects.Scan("s", waiting, func(s *executionv1.Scan) { s.Spec.Cancel = new(true) })), "Cancel", [3]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.o)
			if d.Step != tc.step {
				t.Fatalf("step %s", d.Step)
			}
			if diff := cmp.Diff(tc.want, saidOf(d.Status, executionv1.ConditionAdmitted)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No deadline runs while Kueue holds a Job back, and each begins when it lets it go.
func TestDeadlinesUnderKueue(t *testing.T) {
	aside := func(o *Observation) { o.Turn.Delegated = true }
	held := func(j *Job) { j.Suspended, j.Started = true, time.Time{} }
	letGo := func(j *Job) { j.Started = time.Time{} }
	long := 100 * testSettings.ScannerDeadline
	cases := map[string]struct {
		with []func(*Observation)
		want string
	}{
		"Held":                   {list(aside, withJob(ScannerRole, Running, held), atAge(long)), "ScannerRuns"},
		"HeldParser":             {list(aside, withJob(ScannerRole, Complete), withJob(ParserRole, Running, held), atAge(long)), "ParserRuns"},
		"LetGoAndNotYetStarted":  {list(aside, withJob(ScannerRole, Running, letGo), atAge(long)), "ScannerRuns"},
		"Started":                {list(aside, withJob(ScannerRole, Running, func(j *Job) { j.Started = testobjects.Epoch.Add(long) }), atAge(long+time.Minute)), "ScannerRuns"},
		"StartedLongAgo":         {list(aside, withJob(ScannerRole, Running), atAge(long)), "ScannerOverdue"},
		"HeldByItsScanTypeAlone": {list(withJob(ScannerRole, Running, held), atAge(long)), "ScannerOverdue"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), tc.with...))
			if d.Step != tc.want {
				t.Errorf("step %s, want %s", d.Step, tc.want)
			}
		})
	}
}

// A hook that Kueue holds back shows as such.
func TestHeldHookIsReported(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(hooksOf("notify"))),
		withJob(hookRole("notify"), Running, func(j *Job) { j.Suspended = true }))
	want := [3]string{"Unknown", executionv1.ReasonJobSuspended, jobSuspended("job-" + executionv1.JobTypeReadOnlyHook + "notify").Message}
	if diff := cmp.Diff(want, saidOf(Decide(o).Status, executionv1.ConditionReady)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStandingText(t *testing.T) {
	cases := map[string]struct {
		limit fair.Limit
		want  string
	}{
		"Cluster":             {fair.Limit{Kind: fair.ClusterLimit}, "at most 5 run at a time in the cluster"},
		"Namespace":           {fair.Limit{Kind: fair.NamespaceLimit, Namespace: "a"}, "at most 5 run at a time in namespace a"},
		"ScanType":            {fair.Limit{Kind: fair.ScanTypeLimit, Name: "zap"}, "at most 5 of scan type zap run at a time in the cluster"},
		"TargetWithNamespace": {fair.Limit{Kind: fair.TargetLimit, Namespace: "a", Name: "host", Value: "x"}, "at most 5 with label host=x run at a time in namespace a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := &fair.Standing{Position: 12, Of: 340, NamespacePosition: 3, NamespaceOf: 20, Limit: tc.limit, Bound: 5}
			want := "Position 12 of 340, 3 of 20 in its namespace: " + tc.want + "."
			if diff := cmp.Diff(want, PlaceText(at)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s := &executionv1.Scan{Status: executionv1.ScanStatus{Conditions: []metav1.Condition{{
				Type: executionv1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: LimitReasons[tc.limit.Kind], Message: "in other words",
			}}, Queue: &executionv1.QueuePlace{Position: 12, Of: 340, NamespacePosition: 3, NamespaceOf: 20}}}
			if position, kind := ReportedBefore(s); position != 12 || kind != tc.limit.Kind {
				t.Errorf("read back: %d, %v", position, kind)
			}
		})
	}
}
