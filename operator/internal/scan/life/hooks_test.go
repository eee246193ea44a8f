// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

func catalogHooks(hooks ...Hook) func(*Observation) {
	return func(o *Observation) { o.Hooks = hooks }
}

func hook(name string, kind executionv1.HookType, priority int) Hook {
	return Hook{Name: name, Spec: testobjects.HookSpec(kind, priority)}
}

func hookWithOutput(name, output string) Hook {
	h := hook(name, executionv1.ReadOnly, 0)
	h.Spec.Outputs = []string{output}
	return h
}

// shape is a group list as "a/Pending b/Failed | c/Pending".
func shape(groups [][]executionv1.HookStatus) string {
	var gs []string
	for _, g := range groups {
		var hs []string
		for _, h := range g {
			hs = append(hs, h.HookName+"/"+string(h.State))
		}
		gs = append(gs, strings.Join(hs, " "))
	}
	return strings.Join(gs, " | ")
}

func TestGroup(t *testing.T) {
	ro, rw := executionv1.ReadOnly, executionv1.ReadAndWrite
	cases := map[string]struct {
		reason string
		hooks  []Hook
		want   string
	}{
		"None":      {"no hook, no group", nil, ""},
		"ReadOnly":  {"readers run together", []Hook{hook("a", ro, 0), hook("b", ro, 0)}, "a/Pending b/Pending"},
		"Writers":   {"writers run one after another, before the readers of their priority", []Hook{hook("a", ro, 0), hook("b", rw, 0), hook("c", rw, 0)}, "b/Pending | c/Pending | a/Pending"},
		"Priority":  {"a higher priority runs first", []Hook{hook("z", ro, 5), hook("a", rw, 0), hook("b", ro, 0)}, "z/Pending | a/Pending | b/Pending"},
		"ManyRanks": {"each priority is a class of its own", []Hook{hook("a", ro, 2), hook("b", rw, 2), hook("c", ro, 1), hook("d", ro, -1)}, "b/Pending | a/Pending | c/Pending | d/Pending"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := shape(group(tc.hooks)); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestRunHooks(t *testing.T) {
	ro, rw := executionv1.ReadOnly, executionv1.ReadAndWrite
	status := func(name string, state executionv1.HookState) executionv1.HookStatus {
		return executionv1.HookStatus{HookName: name, State: state, Type: ro, JobName: "job-" + name}
	}
	type groups = [][]executionv1.HookStatus
	pending, inProgress, hookFailed := executionv1.HookStatePending, executionv1.HookStateInProgress, executionv1.HookStateFailed
	cases := map[string]struct {
		reason  string
		before  groups
		with    []func(*Observation)
		want    string
		state   executionv1.ScanState
		launch  []string
		message string
	}{
		"NoHooks": {"a Scan without hooks is done", nil, nil, "", executionv1.ScanStateDone, nil, ""},
		"FirstGroup": {
			"the first group starts, later ones wait", nil, list(catalogHooks(hook("w", rw, 0), hook("a", ro, 0), hook("b", ro, 0))),
			"w/InProgress | a/Pending b/Pending", executionv1.ScanStateHookProcessing,
			[]string{"w"},
			"",
		},
		"NextGroup": {
			"the next group starts when all of the group has ended well",
			groups{{status("w", inProgress)}, {status("a", pending), status("b", pending)}},
			list(catalogHooks(hook("w", rw, 0), hook("a", ro, 0), hook("b", ro, 0)), withJob(hookRole("w"), Complete)),
			"w/Completed | a/InProgress b/InProgress", executionv1.ScanStateHookProcessing,
			[]string{"a", "b"},
			"",
		},
		"AllDone": {
			"the Scan is done",
			groups{{status("a", inProgress), status("b", inProgress)}},
			list(withJob(hookRole("a"), Complete), withJob(hookRole("b"), Complete)), "a/Completed b/Completed", executionv1.ScanStateDone, nil, "",
		},
		"OneFailsOthersRun": {
			"the others of a group run to their end",
			groups{{status("a", inProgress), status("b", inProgress)}, {status("c", pending)}},
			list(withJob(hookRole("a"), Failed), withJob(hookRole("b"), Running)), "a/Failed b/InProgress | c/Pending", executionv1.ScanStateHookProcessing, nil, "",
		},
		"GroupFailed": {
			"later groups are cancelled, and the message names the hook",
			groups{{status("a", hookFailed), status("b", inProgress)}, {status("c", pending)}},
			list(withJob(hookRole("a"), Failed), withJob(hookRole("b"), Complete)), "a/Failed b/Completed | c/Cancelled", executionv1.ScanStateErrored, nil, `Hook "a" failed`,
		},
		"TwoFail": {
			"each failed hook is named",
			groups{{status("a", inProgress), status("b", inProgress)}},
			list(withJob(hookRole("a"), Failed), withJob(hookRole("b"), Failed)), "a/Failed b/Failed", executionv1.ScanStateErrored, nil, `Hook "b" failed`,
		},
		"TypeEdited": {
			"a Job counts though the hook has another type now",
			groups{{status("a", inProgress)}},
			list(catalogHooks(hook("a", rw, 0)), withJob(hookRole("a"), Running)), "a/InProgress", executionv1.ScanStateHookProcessing, nil, "",
		},
		"JobGone": {
			"a Job that is gone is not one that has ended well",
			groups{{status("a", inProgress)}},
			list(catalogHooks(hook("a", ro, 0))),
			"a/Failed", executionv1.ScanStateErrored, nil, "was removed before its outcome was seen",
		},
		"HookDeleted": {
			"a hook that is deleted before it runs is not passed over in silence",
			groups{{status("a", pending)}},
			nil,
			"a/Failed", executionv1.ScanStateErrored, nil, "was deleted",
		},
		"UnknownType": {
			"a hook that can never run is not passed over in silence", nil, list(catalogHooks(hook("a", "Sometimes", 0))),
			"", executionv1.ScanStateErrored, nil, `"Sometimes" is neither`,
		},
		"OutputReplacesTheRawResult": {
			"a hook's output must not replace what the scanner found", nil, list(catalogHooks(hookWithOutput("a", "nmap-results.xml"))),
			"", executionv1.ScanStateErrored, nil, "choose another name",
		},
		"Adopted": {
			"a Job that exists is not started again when the status was lost", nil, list(catalogHooks(hook("a", ro, 0)), withJob(hookRole("a"), Running)),
			"a/InProgress", executionv1.ScanStateHookProcessing, nil, "",
		},
		"Overdue": {
			"a hook that hangs ends",
			groups{{status("a", inProgress)}},
			list(withJob(hookRole("a"), Running, startedAgo(3*time.Hour))),
			"a/Failed", executionv1.ScanStateErrored, nil, "did not end within its deadline of 2h0m0s",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing), testobjects.WithHooks(tc.before...))
			o := observationOf(scan, tc.with...)
			d := Decide(o)
			checkInvariants(t, o, d)
			if got := shape(d.Status.OrderedHookStatuses); got != tc.want {
				t.Errorf("%s: hooks %q, want %q", tc.reason, got, tc.want)
			}
			if d.Status.State != tc.state {
				t.Errorf("%s: state %q, want %q", tc.reason, d.Status.State, tc.state)
			}
			var launched []string
			for _, l := range d.Create {
				launched = append(launched, l.Hook.Name)
			}
			if diff := cmp.Diff(tc.launch, launched); diff != "" {
				t.Errorf("%s: launches (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(d.Status.ErrorDescription, tc.message) {
				t.Errorf("%s: errorDescription %q, want %q in it", tc.reason, d.Status.ErrorDescription, tc.message)
			}
		})
	}
}

// TestDoneAsksForLinks: an operator that was killed after each Job it made has written none before.
func TestDoneAsksForLinks(t *testing.T) {
	for _, links := range []bool{true, false} {
		o := observationOf(testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateScanning)), withJob(ScannerRole, Complete), withJob(ParserRole, Complete))
		o.Settings.StatusLinks = links
		if d := Decide(o); d.Status == nil || d.Status.State != executionv1.ScanStateDone || d.Links != links {
			t.Errorf("with links %t the decision is %+v", links, d)
		}
	}
}

// TestFailedHookSaysWhy: the reason is a field of the hook, told by one Event, and still there when its
// Job is gone.
func TestFailedHookSaysWhy(t *testing.T) {
	s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing))
	s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{
		{{HookName: "mail", State: executionv1.HookStateInProgress, FailurePolicy: executionv1.HookIgnore}, {HookName: "slow", State: executionv1.HookStateInProgress}},
	}
	mail, slow := withJob(hookRole("mail"), Failed, func(j *Job) { j.Failure = "no server" }), withJob(hookRole("slow"), Running)
	d := Decide(observationOf(s, mail, slow))
	const want = "no server"
	if got := d.Status.OrderedHookStatuses[0][0].Message; !strings.Contains(got, want) || d.Event == nil || !strings.Contains(d.Event.Message, want) {
		t.Fatalf("message %q, Event %v", got, d.Event)
	}
	s.Status = *d.Status
	d = Decide(observationOf(s, slow))
	if got := d.Status.OrderedHookStatuses[0][0].Message; !strings.Contains(got, want) || d.Event != nil {
		t.Errorf("later: message %q, Event %v", got, d.Event)
	}
}
