// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func hookOn(name string, on executionv1.HookRunOn, policy executionv1.HookFailurePolicy) Hook {
	h := hook(name, executionv1.ReadOnly, 0)
	h.Spec.RunOn, h.Spec.FailurePolicy = on, policy
	return h
}

// events is what is to happen after a pass: Jobs that a decision launched run, and
// those that are listed end.
func (o *Observation) afterPass(d Decision, ended map[string]Outcome) {
	o.Scan.Status = *d.Status.DeepCopy()
	for _, l := range d.Create {
		j := o.jobFor(l)
		if j.Outcome = ended[j.endsAs()]; j.Outcome == Failed {
			j.Failure = "it failed"
		}
		o.Jobs = append(o.Jobs, j)
		if l.Hook != nil {
			NameHookJob(&o.Scan.Status, l.Hook.Name, j.Name)
		}
	}
	o.Now = o.Now.Add(time.Second)
}

// jobFor is what act makes of a launch.
func (o *Observation) jobFor(l JobRequest) Job {
	n := l.Attempt
	if l.Hook == nil {
		n = o.Attempts().For(l.Role)
	}
	return Job{
		Name: fmt.Sprintf("job-%s%s", l.Role.JobType, l.Role.Hook), Namespace: testobjects.Namespace, Role: l.Role, Attempt: n,
		Rerun: rerunOf(&o.Scan.Status, n), Created: o.Now, Started: o.Now,
	}
}

// endsAs is the name under which a test says how a Job ends.
func (j Job) endsAs() string {
	if j.Role.Hook != "" {
		return j.Role.Hook
	}
	return j.Role.JobType
}

// live decides until nothing changes, and returns the steps.
func live(t *testing.T, o *Observation, ended map[string]Outcome) (steps string, notices []string) {
	t.Helper()
	for range 12 {
		d := Decide(o)
		checkInvariants(t, o, d)
		if d.Event != nil {
			notices = append(notices, d.Event.Message)
		}
		if d.AnswerEvent != nil {
			notices = append(notices, d.AnswerEvent.Message)
		}
		if d.Status == nil || d.Step == "Settled" {
			return strings.TrimSpace(steps), notices
		}
		if !strings.HasSuffix(steps, d.Step+" ") {
			steps += d.Step + " "
		}
		o.afterPass(d, ended)
	}
	t.Fatalf("it does not come to an end: %s", steps)
	return "", nil
}

func hooksCondition(o *Observation) (metav1.ConditionStatus, string) {
	c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionHooksCompleted)
	if c == nil {
		return "", ""
	}
	return c.Status, c.Message
}

func TestFailurePolicyAndRunOn(t *testing.T) {
	const success, failure, always = executionv1.RunOnSuccess, executionv1.RunOnFailure, executionv1.RunOnAlways
	done, errored := executionv1.ScanStateDone, executionv1.ScanStateErrored
	cases := map[string]struct {
		reason    string
		hooks     []Hook
		parser    Outcome
		ended     map[string]Outcome
		want      string
		state     executionv1.ScanState
		condition metav1.ConditionStatus
		message   string
		notices   int
	}{
		"Ignored": {
			"a failure that is ignored does not keep the others from running",
			[]Hook{hookOn("a", "", executionv1.HookIgnore), hookOn("b", success, "")},
			Complete,
			map[string]Outcome{"a": Failed, "b": Complete},
			"a/Failed b/Completed", done, metav1.ConditionTrue, `Ignored as failurePolicy says: Hook "a" failed`, 1,
		},
		"NotIgnored": {
			"the default is Fail",
			[]Hook{hookOn("a", "", "")},
			Complete,
			map[string]Outcome{"a": Failed},
			"a/Failed", errored, metav1.ConditionFalse, `Hook "a" failed`, 1,
		},
		"SuccessOnly": {
			"hooks for failures do not run when all goes well",
			[]Hook{hookOn("a", failure, ""), hookOn("b", always, "")},
			Complete,
			map[string]Outcome{"b": Complete},
			"b/Completed", done, metav1.ConditionTrue, "1 hook has run.", 0,
		},
		"ParserFailed": {
			"hooks for failures hear of it, others do not run",
			[]Hook{hookOn("a", failure, ""), hookOn("b", always, ""), hookOn("c", success, "")},
			Failed,
			map[string]Outcome{"a": Complete, "b": Complete},
			"a/Completed b/Completed", errored, "", "", 1,
		},
		"FailureHookFails": {
			"its failure shows, and the others run",
			[]Hook{hookOn("a", failure, ""), hookOn("b", failure, "")},
			Failed,
			map[string]Outcome{"a": Failed, "b": Complete},
			"a/Failed b/Completed", errored, metav1.ConditionFalse, `Hook "a" failed`, 2,
		},
		"HookFailed": {
			"a hook that always runs and had no turn gets it; one that had is not called twice",
			[]Hook{hookOn("a", always, ""), hookOn("b", success, ""), hookOn("c", failure, "")},
			Complete,
			map[string]Outcome{"a": Complete, "b": Failed, "c": Complete},
			"a/Completed b/Failed | c/Completed", errored, metav1.ConditionFalse, `Hook "b" failed`, 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing))
			o := observationOf(scan, catalogHooks(tc.hooks...), withJob(ParserRole, tc.parser))
			_, notices := live(t, o, tc.ended)
			if got := shape(o.Scan.Status.OrderedHookStatuses); got != tc.want {
				t.Errorf("%s: hooks %q, want %q", tc.reason, got, tc.want)
			}
			if o.Scan.Status.State != tc.state {
				t.Errorf("%s: state %q, want %q", tc.reason, o.Scan.Status.State, tc.state)
			}
			status, message := hooksCondition(o)
			if status != tc.condition || !strings.Contains(message, tc.message) {
				t.Errorf("%s: HooksCompleted is %q %q, want %q %q", tc.reason, status, message, tc.condition, tc.message)
			}
			if len(notices) != tc.notices {
				t.Errorf("%s: Events %q, want %d", tc.reason, notices, tc.notices)
			}
		})
	}
}

func TestFailureHooksAreThoseOfTheFailure(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateErrored)), catalogHooks(hookOn("late", executionv1.RunOnFailure, "")))
	if d := Decide(o); d.Step != "Settled" || len(d.Create) > 0 {
		t.Errorf("step %q launches %v: a hook that was installed later must not run", d.Step, d.Create)
	}
	// secureCodeBox leaves hooks Pending when a Scan is Errored.
	o = observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateErrored), testobjects.WithHooks(hooksOf("old"))), catalogHooks(hookOn("old", executionv1.RunOnAlways, "")))
	if d := Decide(o); d.Step != "Settled" || len(d.Create) > 0 {
		t.Errorf("step %q launches %v: hooks of an adopted Scan must not run", d.Step, d.Create)
	}
}

func TestTTLWaitsForFailureHooks(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), catalogHooks(hookOn("a", executionv1.RunOnFailure, "")), withJob(ParserRole, Failed))
	o.Scan.Spec.TTLSecondsAfterFinished = new(int32)
	d := Decide(o)
	o.afterPass(d, nil)
	if d = Decide(o); d.Step != "AfterFailure" || len(d.Create) != 1 {
		t.Fatalf("step %q launches %v", d.Step, d.Create)
	}
	o.afterPass(d, nil)
	if d = Decide(o); d.Step != "AfterFailure" || d.DeleteScan {
		t.Errorf("step %q while the hook runs", d.Step)
	}
	o.Jobs[len(o.Jobs)-1].Outcome = Complete
	d = Decide(o)
	o.afterPass(d, nil)
	if d = Decide(o); d.Step != "Expired" || !d.DeleteScan {
		t.Errorf("step %q after the hook", d.Step)
	}
}

func askRerun(value string) func(*Observation) {
	return func(o *Observation) {
		o.Scan.Annotations = map[string]string{executionv1.AnnotationRerun: value}
	}
}

func TestRerun(t *testing.T) {
	hooks := catalogHooks(hookOn("a", "", ""), hookOn("b", "", ""), hookOn("n", executionv1.RunOnFailure, ""))
	ended := map[string]Outcome{"a": Complete, "b": Failed, "n": Complete}
	// start is a Scan one of whose hooks has failed.
	start := func(t *testing.T) *Observation {
		o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), hooks, withJob(ParserRole, Complete))
		live(t, o, ended)
		return o
	}
	cases := map[string]struct {
		reason   string
		asked    string
		ended    map[string]Outcome
		want     string
		attempts map[string]int
		state    executionv1.ScanState
		refused  string
	}{
		"Failed":      {"the failed hook runs again and the Scan is done", "hooks", map[string]Outcome{"b": Complete}, "a/Completed b/Completed", map[string]int{"b": 2}, executionv1.ScanStateDone, ""},
		"FailedAgain": {"those who hear of failures hear of it again", "hooks@2", map[string]Outcome{"b": Failed, "n": Complete}, "a/Completed b/Failed | n/Completed", map[string]int{"b": 2, "n": 2}, executionv1.ScanStateErrored, ""},
		"One":         {"one hook runs again, whatever became of it", "hook/a@x", map[string]Outcome{"a": Complete, "n": Complete}, "a/Completed b/Failed | n/Completed", map[string]int{"a": 2, "n": 2}, executionv1.ScanStateErrored, ""},
		"Unknown":     {"the answer lists what there is", "hook/z", nil, "a/Completed b/Failed | n/Completed", map[string]int{}, executionv1.ScanStateErrored, "there are: a, b"},
		"Typo":        {"the answer says what can be asked", "hoks", nil, "a/Completed b/Failed | n/Completed", map[string]int{}, executionv1.ScanStateErrored, `ask for "scanner", "parser", "hooks"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := start(t)
			askRerun(tc.asked)(o)
			_, notices := live(t, o, tc.ended)
			if got := shape(o.Scan.Status.OrderedHookStatuses); got != tc.want || o.Scan.Status.State != tc.state {
				t.Errorf("%s: %s with hooks %q, want %s %q", tc.reason, o.Scan.Status.State, got, tc.state, tc.want)
			}
			for _, g := range o.Scan.Status.OrderedHookStatuses {
				for _, h := range g {
					if h.Attempt != tc.attempts[h.HookName] {
						t.Errorf("%s: hook %s has attempt %d, want %d", tc.reason, h.HookName, h.Attempt, tc.attempts[h.HookName])
					}
				}
			}
			if tc.refused != "" && (len(notices) != 1 || !strings.Contains(notices[0], tc.refused)) {
				t.Errorf("%s: Events %q, want %q in one", tc.reason, notices, tc.refused)
			}
			if again, _ := live(t, o, nil); again != "" {
				t.Errorf("%s: the same annotation is acted upon twice: %s", tc.reason, again)
			}
		})
	}
}

func TestRerunNeedsFindings(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)), withJob(ParserRole, Failed))
	live(t, o, nil)
	askRerun("hooks")(o)
	_, notices := live(t, o, nil)
	if o.Scan.Status.State != executionv1.ScanStateErrored || len(notices) != 1 || !strings.Contains(notices[0], "before its findings were stored") {
		t.Errorf("state %s, Events %q", o.Scan.Status.State, notices)
	}
}

// TestFailureOfFailureHooksIsReportedOnce: while another hook of the group runs, the same failure is not news.
func TestFailureOfFailureHooksIsReportedOnce(t *testing.T) {
	o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateParsing)),
		catalogHooks(hookOn("a", executionv1.RunOnFailure, ""), hookOn("b", executionv1.RunOnFailure, "")), withJob(ParserRole, Failed))
	o.afterPass(Decide(o), nil)
	o.afterPass(Decide(o), map[string]Outcome{"a": Failed})
	for i := range o.Jobs {
		if o.Jobs[i].Name == "job-read-only-hookb" {
			o.Jobs[i].Outcome = Running
		}
	}
	first := Decide(o)
	o.afterPass(first, nil)
	second := Decide(o)
	if first.Event == nil || !strings.Contains(first.Event.Message, `Hook "a" failed`) || second.Event != nil {
		t.Errorf("Events %v and then %v, want one", first.Event, second.Event)
	}
}
