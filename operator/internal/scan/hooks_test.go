// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/gen"
)

func catalogHooks(hooks ...catalog.Hook) func(*observed) {
	return func(o *observed) { o.hooks = hooks }
}

func hook(name string, kind executionv1.HookType, priority int) catalog.Hook {
	return catalog.Hook{Name: name, Spec: gen.HookSpec(kind, priority)}
}

func hookWithOutput(name, output string) catalog.Hook {
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
		hooks  []catalog.Hook
		want   string
	}{
		"None":      {"no hook, no group", nil, ""},
		"ReadOnly":  {"readers run together", []catalog.Hook{hook("a", ro, 0), hook("b", ro, 0)}, "a/Pending b/Pending"},
		"Writers":   {"writers run one after another, before the readers of their priority", []catalog.Hook{hook("a", ro, 0), hook("b", rw, 0), hook("c", rw, 0)}, "b/Pending | c/Pending | a/Pending"},
		"Priority":  {"a higher priority runs first", []catalog.Hook{hook("z", ro, 5), hook("a", rw, 0), hook("b", ro, 0)}, "z/Pending | a/Pending | b/Pending"},
		"ManyRanks": {"each priority is a class of its own", []catalog.Hook{hook("a", ro, 2), hook("b", rw, 2), hook("c", ro, 1), hook("d", ro, -1)}, "b/Pending | a/Pending | c/Pending | d/Pending"},
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
		with    []func(*observed)
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
			list(catalogHooks(hook("w", rw, 0), hook("a", ro, 0), hook("b", ro, 0)), withJob(hookRole("w"), complete)),
			"w/Completed | a/InProgress b/InProgress", executionv1.ScanStateHookProcessing,
			[]string{"a", "b"},
			"",
		},
		"AllDone": {
			"the Scan is done",
			groups{{status("a", inProgress), status("b", inProgress)}},
			list(withJob(hookRole("a"), complete), withJob(hookRole("b"), complete)), "a/Completed b/Completed", executionv1.ScanStateDone, nil, "",
		},
		"OneFailsOthersRun": {
			"the others of a group run to their end",
			groups{{status("a", inProgress), status("b", inProgress)}, {status("c", pending)}},
			list(withJob(hookRole("a"), failed), withJob(hookRole("b"), running)), "a/Failed b/InProgress | c/Pending", executionv1.ScanStateHookProcessing, nil, "",
		},
		"GroupFailed": {
			"later groups are cancelled, and the message names the hook",
			groups{{status("a", hookFailed), status("b", inProgress)}, {status("c", pending)}},
			list(withJob(hookRole("a"), failed), withJob(hookRole("b"), complete)), "a/Failed b/Completed | c/Cancelled", executionv1.ScanStateErrored, nil, `Hook "a" failed`,
		},
		"TwoFail": {
			"each failed hook is named",
			groups{{status("a", inProgress), status("b", inProgress)}},
			list(withJob(hookRole("a"), failed), withJob(hookRole("b"), failed)), "a/Failed b/Failed", executionv1.ScanStateErrored, nil, `Hook "b" failed`,
		},
		"TypeEdited": {
			"a Job counts though the hook has another type now",
			groups{{status("a", inProgress)}},
			list(catalogHooks(hook("a", rw, 0)), withJob(hookRole("a"), running)), "a/InProgress", executionv1.ScanStateHookProcessing, nil, "",
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
			"a Job that exists is not started again when the status was lost", nil, list(catalogHooks(hook("a", ro, 0)), withJob(hookRole("a"), running)),
			"a/InProgress", executionv1.ScanStateHookProcessing, nil, "",
		},
		"Overdue": {
			"a hook that hangs ends",
			groups{{status("a", inProgress)}},
			list(withJob(hookRole("a"), running, startedAgo(3*time.Hour))),
			"a/Failed", executionv1.ScanStateErrored, nil, "did not end within its deadline of 2h0m0s",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scan := gen.Scan("s", gen.WithState(executionv1.ScanStateHookProcessing), gen.WithHooks(tc.before...))
			o := observation(scan, tc.with...)
			d := decide(o)
			checkInvariants(t, o, d)
			if got := shape(d.status.OrderedHookStatuses); got != tc.want {
				t.Errorf("%s: hooks %q, want %q", tc.reason, got, tc.want)
			}
			if d.status.State != tc.state {
				t.Errorf("%s: state %q, want %q", tc.reason, d.status.State, tc.state)
			}
			var launched []string
			for _, l := range d.launch {
				launched = append(launched, l.hook.Name)
			}
			if diff := cmp.Diff(tc.launch, launched); diff != "" {
				t.Errorf("%s: launches (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(d.status.ErrorDescription, tc.message) {
				t.Errorf("%s: errorDescription %q, want %q in it", tc.reason, d.status.ErrorDescription, tc.message)
			}
		})
	}
}
