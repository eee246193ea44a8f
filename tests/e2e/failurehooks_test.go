// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
)

// webhookValues are values of a generic-webhook that does not try again by itself; its
// Job does.
func webhookValues(url string, hook map[string]any) map[string]any {
	values := map[string]any{"env": env(map[string]string{"DELIVERY_ATTEMPTS": "1"})}
	maps.Copy(values, hook)
	return map[string]any{"webhookUrl": url, "hook": values}
}

// env is a list of variables as charts take it.
func env(variables map[string]string) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		out = append(out, map[string]any{"name": name, "value": variables[name]})
	}
	return out
}

// webhookAs installs generic-webhook under another name.
func webhookAs(t *testing.T, name, ns string, values map[string]any) {
	t.Helper()
	values["fullnameOverride"] = name
	release(t, install.Release{Chart: "generic-webhook", Name: name, Namespace: ns, Values: values})
}

// wantHooksCompleted holds the condition and the Event that tell of failed hooks.
func wantHooksCompleted(t *testing.T, s *executionv1.Scan, status metav1.ConditionStatus, says ...string) {
	t.Helper()
	c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionHooksCompleted)
	if c == nil || c.Status != status {
		t.Fatalf("condition HooksCompleted is %+v, want %s", c, status)
	}
	for _, part := range says {
		if !strings.Contains(c.Message, part) {
			t.Errorf("condition HooksCompleted does not say %q: %s", part, c.Message)
		}
	}
	wantEvent(t, s, executionv1.ReasonHookFailed)
}

// TestHookFailureIgnored: with failurePolicy Ignore the Scan goes on, and says what failed.
func TestHookFailureIgnored(t *testing.T) {
	t.Parallel()
	broken := startFarEnd(t, func(exchange) reply { return reply{status: http.StatusBadGateway} })
	ns := prepared(t)
	webhookAs(t, "unimportant", ns, webhookValues(broken.URL, map[string]any{"failurePolicy": "Ignore", "priority": 1}))
	webhookAs(t, "after", ns, webhookValues(w.hooks.URL("/"+ns), nil))
	got := done(t, shellScan(ns, "lenient", quick))
	if diff := cmp.Diff([][]string{{"unimportant Failed"}, {"after Completed"}}, hookStates(got)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	wantHooksCompleted(t, got, metav1.ConditionTrue, `Hook "unimportant" failed`, broken.host(), "502 Bad Gateway")
	if n := len(w.hooks.At("/" + ns)); n != 1 {
		t.Errorf("the hook after it was called %d times", n)
	}
}

// TestFailureHookFails: a hook that cannot tell of a failure does not hide it.
func TestFailureHookFails(t *testing.T) {
	t.Parallel()
	broken := startFarEnd(t, func(exchange) reply { return reply{status: http.StatusBadGateway} })
	ns := namespace(t)
	create(t, shellType(ns, "test-txt", once), parser(ns, "test-txt"))
	chart(t, "generic-webhook", ns, webhookValues(broken.URL, map[string]any{"runOn": "Failure"}))
	s := shellScan(ns, "unheard", "exit 3")
	create(t, s)
	got := until(t, s, "have told everybody", toldEverybody)
	wantTrouble(t, got, executionv1.ReasonScannerFailed, "code 3")
	wantHooksCompleted(t, got, metav1.ConditionFalse, `Hook "generic-webhook" failed`, broken.host(), "502 Bad Gateway")
}

// TestHooksRunOn: hooks hear of Scans that went well, that failed, or of both, once each.
func TestHooksRunOn(t *testing.T) {
	t.Parallel()
	there := startFarEnd(t, func(exchange) reply { return reply{} })
	broken := hook("", "broken", "fail", executionv1.ReadOnly, -1)
	ns := namespace(t)
	broken.Namespace = ns
	create(t, shellType(ns, "nmap-xml", once), parser(ns, "nmap-xml"), broken)
	for name, runOn := range map[string]string{"on-success": "Success", "on-failure": "Failure", "always": "Always"} {
		webhookAs(t, name, ns, webhookValues(there.URL+"/"+name, map[string]any{"runOn": runOn}))
	}
	result := "printf '%s' '" + nmapXML("80") + "' >" + resultPath
	cases := map[string]struct {
		script string
		broken bool
		state  executionv1.ScanState
		reason string
		// calls are how many findings each hook got, by its name.
		calls map[string][]int
	}{
		"Well":         {script: result, state: executionv1.ScanStateDone, calls: map[string][]int{"on-success": {2}, "always": {2}}},
		"ScannerFails": {script: "exit 3", state: executionv1.ScanStateErrored, reason: executionv1.ReasonScannerFailed, calls: map[string][]int{"on-failure": {0}, "always": {0}}},
		"ParserFails":  {script: "echo nonsense >" + resultPath, state: executionv1.ScanStateErrored, reason: executionv1.ReasonParserFailed, calls: map[string][]int{"on-failure": {0}, "always": {0}}},
		// What runs Always has heard of it before it failed.
		"HookFails": {script: result, broken: true, state: executionv1.ScanStateErrored, reason: executionv1.ReasonHookFailed, calls: map[string][]int{"on-success": {2}, "always": {2}, "on-failure": {2}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shellScan(ns, strings.ToLower(name), tc.script)
			if !tc.broken {
				s.Spec.HookSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hook", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			}
			create(t, s)
			got := until(t, s, "have told everybody", toldEverybody)
			if got.Status.State != tc.state {
				t.Fatalf("Scan ended %s: %s", got.Status.State, got.Status.ErrorDescription)
			}
			if tc.reason != "" {
				wantTrouble(t, got, tc.reason)
			}
			calls := map[string][]int{}
			for _, hook := range []string{"on-success", "on-failure", "always"} {
				for _, p := range there.accepted(t, "/"+hook, got) {
					if p.Findings == nil {
						t.Errorf("hook %s sent no list of findings", hook)
					}
					if hook == "on-failure" && (p.Scan.Status.State != executionv1.ScanStateErrored || p.Scan.Status.ErrorDescription == "") {
						t.Errorf("hook %s sent a Scan that is %q: %q", hook, p.Scan.Status.State, p.Scan.Status.ErrorDescription)
					}
					calls[hook] = append(calls[hook], len(p.Findings))
				}
			}
			if diff := cmp.Diff(tc.calls, calls); diff != "" {
				t.Errorf("findings by call of hooks (-want +got):\n%s", diff)
			}
			if tc.reason == executionv1.ReasonScannerFailed {
				// Without findings there is nothing to run hooks over.
				rerun(t, got, "hooks")
				wantEvent(t, got, executionv1.ReasonRerunRefused)
			}
		})
	}
}

// toldEverybody says whether a Scan has ended and so have the hooks that run after failures.
func toldEverybody(s *executionv1.Scan) bool {
	for _, g := range s.Status.OrderedHookStatuses {
		for _, h := range g {
			if h.State == executionv1.HookStatePending || h.State == executionv1.HookStateInProgress {
				return false
			}
		}
	}
	return s.Settled()
}

// rerun asks to run hooks again.
func rerun(t *testing.T, s *executionv1.Scan, what string) {
	t.Helper()
	changed := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, executionv1.AnnotationRerun, what)
	if err := w.admin.Patch(t.Context(), changed, client.MergeFrom(s)); err != nil {
		t.Fatal(err)
	}
}

// TestHookRunsAgain: a far end goes away in the middle of a delivery, and comes back when
// the hook has given up. The hook is asked to run again, and the far end, which remembers
// keys, has then taken each finding once.
func TestHookRunsAgain(t *testing.T) {
	t.Parallel()
	var back atomic.Bool
	var mu sync.Mutex
	taken := map[string]int{} // requests by key
	there := startFarEnd(t, func(e exchange) reply {
		mu.Lock()
		defer mu.Unlock()
		key := e.Header.Get("Idempotency-Key")
		if known := taken[key] > 0; !known && len(taken) == 2 && !back.Load() {
			return reply{status: http.StatusServiceUnavailable}
		}
		taken[key]++
		return reply{}
	})
	ns := namespace(t)
	create(t, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	chart(t, "generic-webhook", ns, webhookValues(there.URL, map[string]any{"env": env(map[string]string{"DELIVERY_ATTEMPTS": "1", "WEBHOOK_BATCH_SIZE": "1"})}))
	s := shellScan(ns, "interrupted", "printf '%s' '"+nmapXML("22", "80", "443")+"' >"+resultPath)
	got := errored(t, s, executionv1.ReasonHookFailed, `Hook "generic-webhook"`, there.host(), "503 Service Unavailable")
	back.Store(true)
	rerun(t, got, "hooks")
	got = until(t, s, "run its hook again", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateDone })
	if diff := cmp.Diff([][]string{{"generic-webhook Completed"}}, hookStates(got)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if c := meta.FindStatusCondition(got.Status.Conditions, executionv1.ConditionHooksCompleted); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition HooksCompleted is %+v, want True", c)
	}
	if n := w.ran.Of(got.UID)["read-only-hook/generic-webhook"]; n != 2 {
		t.Errorf("the hook had %d Jobs, want 2", n)
	}
	var want []string
	for _, f := range findings(t, got) {
		want = append(want, f.ID.String())
	}
	keys := map[string][]string{} // by finding
	for _, e := range there.all() {
		if e.status/100 != 2 {
			continue
		}
		for _, f := range e.payload(t).Findings {
			if key := e.Header.Get("Idempotency-Key"); !slices.Contains(keys[f.ID], key) {
				keys[f.ID] = append(keys[f.ID], key)
			}
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(keys))); diff != "" {
		t.Errorf("findings that arrived (-stored +arrived):\n%s", diff)
	}
	for id, k := range keys {
		if len(k) != 1 || k[0] == "" {
			t.Errorf("finding %s came with the keys %q, want one", id, k)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for _, n := range taken {
		again += n - 1
	}
	if again == 0 {
		t.Error("nothing was sent again: the far end had nothing to remember")
	}
}
