// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/gen"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

var place = &queue.Standing{
	Position: 2, Of: 9, NamespacePosition: 1, NamespaceOf: 4, Limit: queue.Limit{Kind: queue.NamespaceLimit, Namespace: "team"}, Bound: 3,
}

const placeText = "Position 2 of 9, 1 of 4 in its namespace: at most 3 run at a time in namespace team."

func told(o *observed) { o.admission = admission{wait: true, limited: true, tell: place} }

// admittedAs gives a Scan the condition Admitted.
func admittedAs(value metav1.ConditionStatus, reason string) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: executionv1.ConditionAdmitted, Status: value, Reason: reason, Message: "before", LastTransitionTime: metav1.Time{Time: gen.Epoch},
		})
	}
}

// saidOf is a condition as status, reason and message; empty where there is none.
func saidOf(s *executionv1.ScanStatus, kind string) [3]string {
	if c := findCondition(s.Conditions, kind); c != nil {
		return [3]string{string(c.Status), c.Reason, c.Message}
	}
	return [3]string{}
}

// A Scan that waits costs no write unless there is something to tell.
func TestWaitingCostsNoWrite(t *testing.T) {
	d := decide(observation(gen.Scan("s"), withoutTurn))
	if d.step != "Queued" || d.status != nil || d.requeueAfter != 0 || len(d.launch) > 0 {
		t.Errorf("%+v", d)
	}
}

func TestWaitingIsTold(t *testing.T) {
	cases := map[string]struct {
		scan *executionv1.Scan
		// event says whether the user is told by one too.
		event bool
	}{
		"First": {gen.Scan("s"), true},
		"Again": {gen.Scan("s", admittedAs(metav1.ConditionFalse, executionv1.ReasonClusterLimit)), false},
		// Its first run had its turn; this is another wait.
		"OfARerun": {gen.Scan("s", admittedAs(metav1.ConditionTrue, executionv1.ReasonAdmitted)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(tc.scan, told))
			want := map[string][3]string{
				executionv1.ConditionAdmitted: {"False", executionv1.ReasonNamespaceLimit, placeText},
				executionv1.ConditionScanned:  {"Unknown", executionv1.ReasonQueued, "Waits for its turn. " + placeText},
				executionv1.ConditionReady:    {"Unknown", executionv1.ReasonQueued, "Waits for its turn. " + placeText},
			}
			for kind := range want {
				if diff := cmp.Diff(want[kind], saidOf(d.status, kind)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
			if (d.queued != nil) != tc.event || d.told != place {
				t.Errorf("event %v, told %v", d.queued, d.told)
			}
			if d.status.State != executionv1.ScanStateNew || len(d.launch) > 0 {
				t.Errorf("state %q, launches %v", d.status.State, d.launch)
			}
		})
	}
}

// Whatever ends the wait, the condition does not go on to speak of a place.
func TestWaitEnds(t *testing.T) {
	waiting := admittedAs(metav1.ConditionFalse, executionv1.ReasonClusterLimit)
	started := [3]string{"True", executionv1.ReasonAdmitted, "The Scan has started."}
	cases := map[string]struct {
		o    *observed
		step string
		want [3]string
	}{
		"ByItsTurn":     {observation(gen.Scan("s", waiting)), "Start", started},
		"WithoutAWait":  {observation(gen.Scan("s")), "Start", [3]string{}},
		"OutOfTurn":     {observation(gen.Scan("s"), func(o *observed) { o.admission.outOfTurn = true }), "Start", [3]string{"True", executionv1.ReasonWaitedLongest, "The Scan has started: it had waited longer than any other."}},
		"BySuspension":  {observation(gen.Scan("s", waiting, gen.Suspended)), "Suspended", [3]string{}},
		"ByAnError":     {observation(gen.Scan("s", waiting, func(s *executionv1.Scan) { s.Spec.ScanType = "" })), "InvalidSpec", [3]string{}},
		"ByAJobBehind":  {observation(gen.Scan("s", admittedAs(metav1.ConditionTrue, executionv1.ReasonAdmitted)), withJob(scannerRole, running)), "ScannerRuns", [3]string{"True", executionv1.ReasonAdmitted, "before"}},
		"ByCancelation": {observation(gen.Scan("s", waiting, func(s *executionv1.Scan) { s.Spec.Cancel = new(true) })), "Cancel", [3]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(tc.o)
			if d.step != tc.step {
				t.Fatalf("step %s", d.step)
			}
			if diff := cmp.Diff(tc.want, saidOf(d.status, executionv1.ConditionAdmitted)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No deadline runs while Kueue holds a Job back, and each begins when it lets it go.
func TestDeadlinesUnderKueue(t *testing.T) {
	aside := func(o *observed) { o.admission.aside = true }
	held := func(j *job) { j.suspended, j.started = true, time.Time{} }
	letGo := func(j *job) { j.started = time.Time{} }
	long := 100 * testSettings.ScannerDeadline
	cases := map[string]struct {
		with []func(*observed)
		want string
	}{
		"Held":                   {list(aside, withJob(scannerRole, running, held), atAge(long)), "ScannerRuns"},
		"HeldParser":             {list(aside, withJob(scannerRole, complete), withJob(parserRole, running, held), atAge(long)), "ParserRuns"},
		"LetGoAndNotYetStarted":  {list(aside, withJob(scannerRole, running, letGo), atAge(long)), "ScannerRuns"},
		"Started":                {list(aside, withJob(scannerRole, running, func(j *job) { j.started = gen.Epoch.Add(long) }), atAge(long+time.Minute)), "ScannerRuns"},
		"StartedLongAgo":         {list(aside, withJob(scannerRole, running), atAge(long)), "ScannerOverdue"},
		"HeldByItsScanTypeAlone": {list(withJob(scannerRole, running, held), atAge(long)), "ScannerOverdue"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(observation(gen.Scan("s", gen.WithState(executionv1.ScanStateScanning)), tc.with...))
			if d.step != tc.want {
				t.Errorf("step %s, want %s", d.step, tc.want)
			}
		})
	}
}

// A hook that Kueue holds back shows as such.
func TestHeldHookIsTold(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateHookProcessing), gen.WithHooks(hooksOf("notify"))),
		withJob(hookRole("notify"), running, func(j *job) { j.suspended = true }))
	want := [3]string{"Unknown", executionv1.ReasonJobSuspended, jobSuspended("job-" + executionv1.JobTypeReadOnlyHook + "notify").message}
	if diff := cmp.Diff(want, saidOf(decide(o).status, executionv1.ConditionReady)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIsRefusal(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"None":          {nil, false},
		"Lost":          {errors.New("connection reset by peer"), false},
		"Timeout":       {apierrors.NewTimeoutError("it takes long", 1), false},
		"ServerTimeout": {apierrors.NewServerTimeout(jobs, "create", 1), false},
		"Forbidden":     {apierrors.NewForbidden(jobs, "j", errors.New("exceeded quota")), true},
		"Webhook":       {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"TakenName":     {&nameConflictError{"a", "b"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isRefusal(tc.err); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
