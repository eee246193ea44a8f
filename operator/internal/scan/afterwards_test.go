// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

func hookOn(name string, on executionv1.HookRunOn, policy executionv1.HookFailurePolicy) catalog.Hook {
	h := hook(name, executionv1.ReadOnly, 0)
	h.Spec.RunOn, h.Spec.FailurePolicy = on, policy
	return h
}

// events is what is to happen after a pass: Jobs that a decision launched run, and
// those that are listed end.
func (o *observed) afterPass(d decision, ended map[string]outcome) {
	o.scan.Status = *d.status.DeepCopy()
	for _, l := range d.launch {
		j := o.jobFor(l)
		if j.outcome = ended[j.endsAs()]; j.outcome == failed {
			j.failure = "it failed"
		}
		o.jobs = append(o.jobs, j)
		if l.hook != nil {
			nameHookJob(&o.scan.Status, l.hook.Name, j.name)
		}
	}
	o.now = o.now.Add(time.Second)
}

// jobFor is what act makes of a launch.
func (o *observed) jobFor(l launch) job {
	n := l.attempt
	if l.hook == nil {
		n = o.runs().of(l.role)
	}
	return job{
		name: fmt.Sprintf("job-%s%s", l.role.jobType, l.role.hook), namespace: gen.Namespace, role: l.role, attempt: n,
		rerun: rerunOf(&o.scan.Status, n), created: o.now, started: o.now,
	}
}

// endsAs is the name under which a test says how a Job ends.
func (j job) endsAs() string {
	if j.role.hook != "" {
		return j.role.hook
	}
	return j.role.jobType
}

// live decides until nothing changes, and returns the steps.
func live(t *testing.T, o *observed, ended map[string]outcome) (steps string, notices []string) {
	t.Helper()
	for range 12 {
		d := decide(o)
		checkInvariants(t, o, d)
		if d.notice != nil {
			notices = append(notices, d.notice.message)
		}
		if d.answer != nil {
			notices = append(notices, d.answer.message)
		}
		if d.status == nil || d.step == "Settled" {
			return strings.TrimSpace(steps), notices
		}
		if !strings.HasSuffix(steps, d.step+" ") {
			steps += d.step + " "
		}
		o.afterPass(d, ended)
	}
	t.Fatalf("it does not come to an end: %s", steps)
	return "", nil
}

func hooksCondition(o *observed) (metav1.ConditionStatus, string) {
	c := findCondition(o.scan.Status.Conditions, executionv1.ConditionHooksCompleted)
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
		hooks     []catalog.Hook
		parser    outcome
		ended     map[string]outcome
		want      string
		state     executionv1.ScanState
		condition metav1.ConditionStatus
		message   string
		notices   int
	}{
		"Ignored": {
			"a failure that is ignored does not keep the others from running",
			[]catalog.Hook{hookOn("a", "", executionv1.HookIgnore), hookOn("b", success, "")},
			complete,
			map[string]outcome{"a": failed, "b": complete},
			"a/Failed b/Completed", done, metav1.ConditionTrue, `Ignored as failurePolicy says: Hook "a" failed`, 1,
		},
		"NotIgnored": {
			"the default is Fail",
			[]catalog.Hook{hookOn("a", "", "")},
			complete,
			map[string]outcome{"a": failed},
			"a/Failed", errored, metav1.ConditionFalse, `Hook "a" failed`, 1,
		},
		"SuccessOnly": {
			"hooks for failures do not run when all goes well",
			[]catalog.Hook{hookOn("a", failure, ""), hookOn("b", always, "")},
			complete,
			map[string]outcome{"b": complete},
			"b/Completed", done, metav1.ConditionTrue, "1 hook has run.", 0,
		},
		"ParserFailed": {
			"hooks for failures hear of it, others do not run",
			[]catalog.Hook{hookOn("a", failure, ""), hookOn("b", always, ""), hookOn("c", success, "")},
			failed,
			map[string]outcome{"a": complete, "b": complete},
			"a/Completed b/Completed", errored, "", "", 1,
		},
		"FailureHookFails": {
			"its failure shows, and the others run",
			[]catalog.Hook{hookOn("a", failure, ""), hookOn("b", failure, "")},
			failed,
			map[string]outcome{"a": failed, "b": complete},
			"a/Failed b/Completed", errored, metav1.ConditionFalse, `Hook "a" failed`, 2,
		},
		"HookFailed": {
			"a hook that always runs and had no turn gets it; one that had is not called twice",
			[]catalog.Hook{hookOn("a", always, ""), hookOn("b", success, ""), hookOn("c", failure, "")},
			complete,
			map[string]outcome{"a": complete, "b": failed, "c": complete},
			"a/Completed b/Failed | c/Completed", errored, metav1.ConditionFalse, `Hook "b" failed`, 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scan := gen.Scan("s", gen.WithState(executionv1.ScanStateParsing))
			o := observation(scan, catalogHooks(tc.hooks...), withJob(parserRole, tc.parser))
			_, notices := live(t, o, tc.ended)
			if got := shape(o.scan.Status.OrderedHookStatuses); got != tc.want {
				t.Errorf("%s: hooks %q, want %q", tc.reason, got, tc.want)
			}
			if o.scan.Status.State != tc.state {
				t.Errorf("%s: state %q, want %q", tc.reason, o.scan.Status.State, tc.state)
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
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateErrored)), catalogHooks(hookOn("late", executionv1.RunOnFailure, "")))
	if d := decide(o); d.step != "Settled" || len(d.launch) > 0 {
		t.Errorf("step %q launches %v: a hook that was installed later must not run", d.step, d.launch)
	}
	// secureCodeBox leaves hooks Pending when a Scan is Errored.
	o = observation(gen.Scan("s", gen.WithState(executionv1.ScanStateErrored), gen.WithHooks(hooksOf("old"))), catalogHooks(hookOn("old", executionv1.RunOnAlways, "")))
	if d := decide(o); d.step != "Settled" || len(d.launch) > 0 {
		t.Errorf("step %q launches %v: hooks of an adopted Scan must not run", d.step, d.launch)
	}
}

func TestTTLWaitsForFailureHooks(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), catalogHooks(hookOn("a", executionv1.RunOnFailure, "")), withJob(parserRole, failed))
	o.scan.Spec.TTLSecondsAfterFinished = new(int32)
	d := decide(o)
	o.afterPass(d, nil)
	if d = decide(o); d.step != "AfterFailure" || len(d.launch) != 1 {
		t.Fatalf("step %q launches %v", d.step, d.launch)
	}
	o.afterPass(d, nil)
	if d = decide(o); d.step != "AfterFailure" || d.deleteScan {
		t.Errorf("step %q while the hook runs", d.step)
	}
	o.jobs[len(o.jobs)-1].outcome = complete
	d = decide(o)
	o.afterPass(d, nil)
	if d = decide(o); d.step != "Expired" || !d.deleteScan {
		t.Errorf("step %q after the hook", d.step)
	}
}

func askRerun(value string) func(*observed) {
	return func(o *observed) {
		o.scan.Annotations = map[string]string{executionv1.AnnotationRerun: value}
	}
}

func TestRerun(t *testing.T) {
	hooks := catalogHooks(hookOn("a", "", ""), hookOn("b", "", ""), hookOn("n", executionv1.RunOnFailure, ""))
	ended := map[string]outcome{"a": complete, "b": failed, "n": complete}
	// start is a Scan one of whose hooks has failed.
	start := func(t *testing.T) *observed {
		o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), hooks, withJob(parserRole, complete))
		live(t, o, ended)
		return o
	}
	cases := map[string]struct {
		reason   string
		asked    string
		ended    map[string]outcome
		want     string
		attempts map[string]int
		state    executionv1.ScanState
		refused  string
	}{
		"Failed":      {"the failed hook runs again and the Scan is done", "hooks", map[string]outcome{"b": complete}, "a/Completed b/Completed", map[string]int{"b": 2}, executionv1.ScanStateDone, ""},
		"FailedAgain": {"those who hear of failures hear of it again", "hooks@2", map[string]outcome{"b": failed, "n": complete}, "a/Completed b/Failed | n/Completed", map[string]int{"b": 2, "n": 2}, executionv1.ScanStateErrored, ""},
		"One":         {"one hook runs again, whatever became of it", "hook/a@x", map[string]outcome{"a": complete, "n": complete}, "a/Completed b/Failed | n/Completed", map[string]int{"a": 2, "n": 2}, executionv1.ScanStateErrored, ""},
		"Unknown":     {"the answer lists what there is", "hook/z", nil, "a/Completed b/Failed | n/Completed", map[string]int{}, executionv1.ScanStateErrored, "there are: a, b"},
		"Typo":        {"the answer says what can be asked", "hoks", nil, "a/Completed b/Failed | n/Completed", map[string]int{}, executionv1.ScanStateErrored, `ask for "scanner", "parser", "hooks"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := start(t)
			askRerun(tc.asked)(o)
			_, notices := live(t, o, tc.ended)
			if got := shape(o.scan.Status.OrderedHookStatuses); got != tc.want || o.scan.Status.State != tc.state {
				t.Errorf("%s: %s with hooks %q, want %s %q", tc.reason, o.scan.Status.State, got, tc.state, tc.want)
			}
			for _, g := range o.scan.Status.OrderedHookStatuses {
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
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)), withJob(parserRole, failed))
	live(t, o, nil)
	askRerun("hooks")(o)
	_, notices := live(t, o, nil)
	if o.scan.Status.State != executionv1.ScanStateErrored || len(notices) != 1 || !strings.Contains(notices[0], "before its findings were stored") {
		t.Errorf("state %s, Events %q", o.scan.Status.State, notices)
	}
}

// TestFailureHooksFailureIsToldOnce: while another hook of the group runs, the same failure is no news.
func TestFailureHooksFailureIsToldOnce(t *testing.T) {
	o := observation(gen.Scan("s", gen.WithState(executionv1.ScanStateParsing)),
		catalogHooks(hookOn("a", executionv1.RunOnFailure, ""), hookOn("b", executionv1.RunOnFailure, "")), withJob(parserRole, failed))
	o.afterPass(decide(o), nil)
	o.afterPass(decide(o), map[string]outcome{"a": failed})
	for i := range o.jobs {
		if o.jobs[i].name == "job-read-only-hookb" {
			o.jobs[i].outcome = running
		}
	}
	first := decide(o)
	o.afterPass(first, nil)
	second := decide(o)
	if first.notice == nil || !strings.Contains(first.notice.message, `Hook "a" failed`) || second.notice != nil {
		t.Errorf("Events %v and then %v, want one", first.notice, second.notice)
	}
}
