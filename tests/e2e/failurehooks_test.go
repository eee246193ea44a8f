// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
func webhookAs(ctx context.Context, name, ns string, values map[string]any) {
	GinkgoHelper()
	values["fullnameOverride"] = name
	release(ctx, install.Release{Chart: "generic-webhook", Name: name, Namespace: ns, Values: values})
}

// wantHooksCompleted holds the condition and the Event that tell of failed hooks.
func wantHooksCompleted(ctx context.Context, s *executionv1.Scan, status metav1.ConditionStatus, says ...string) {
	GinkgoHelper()
	c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionHooksCompleted)
	if c == nil || c.Status != status {
		Fail(fmt.Sprintf("condition HooksCompleted is %+v, want %s", c, status))
	}
	for _, part := range says {
		Expect(c.Message).To(ContainSubstring(part), "condition HooksCompleted does not say %q: %s", part, c.Message)
	}
	wantEvent(ctx, s, executionv1.ReasonHookFailed)
}

var _ = Describe("Hooks that fail", Label("hooks"), func() {
	It("let the Scan continue with failurePolicy Ignore, and are named in its status", slow, func(ctx SpecContext) {
		broken := startFarEnd(func(exchange) reply { return reply{status: http.StatusBadGateway} })
		ns := prepared(ctx)
		webhookAs(ctx, "unimportant", ns, webhookValues(broken.URL, map[string]any{"failurePolicy": "Ignore", "priority": 1}))
		webhookAs(ctx, "after", ns, webhookValues(w.hooks.URL("/"+ns), nil))
		got := done(ctx, shellScan(ns, "lenient", quick))
		Expect(hookStates(got)).To(BeComparableTo([][]string{{"unimportant Failed"}, {"after Completed"}}), "hooks")
		wantHooksCompleted(ctx, got, metav1.ConditionTrue, `Hook "unimportant" failed`, broken.host(), "502 Bad Gateway")
		Expect(delivered(ctx, "/"+ns)).To(HaveLen(1), "calls of the hook")
	})

	It("do not hide why the Scan has failed", slow, func(ctx SpecContext) {
		broken := startFarEnd(func(exchange) reply { return reply{status: http.StatusBadGateway} })
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt", once), parser(ns, "test-txt"))
		chart(ctx, "generic-webhook", ns, webhookValues(broken.URL, map[string]any{"runOn": "Failure"}))
		s := shellScan(ns, "unheard", "exit 3")
		create(ctx, s)
		got := until(ctx, s, "have told everybody", toldEverybody)
		wantTrouble(ctx, got, executionv1.ReasonScannerFailed, "code 3")
		wantHooksCompleted(ctx, got, metav1.ConditionFalse, `Hook "generic-webhook" failed`, broken.host(), "502 Bad Gateway")
	})

	It("run for Scans that succeeded, for Scans that failed, or for both, once each", slow, func(ctx SpecContext) {
		there := startFarEnd(func(exchange) reply { return reply{} })
		broken := hook("", "broken", "fail", executionv1.ReadOnly, -1)
		ns := namespace(ctx)
		broken.Namespace = ns
		create(ctx, shellType(ns, "nmap-xml", once), parser(ns, "nmap-xml"), broken)
		for name, runOn := range map[string]string{"on-success": "Success", "on-failure": "Failure", "always": "Always"} {
			webhookAs(ctx, name, ns, webhookValues(there.URL+"/"+name, map[string]any{"runOn": runOn}))
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
		all := map[string]*executionv1.Scan{}
		for name, tc := range cases {
			s := shellScan(ns, strings.ToLower(name), tc.script)
			if !tc.broken {
				s.Spec.HookSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hook", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			}
			create(ctx, s)
			all[name] = s
		}
		for name, tc := range cases {
			By(name, func() {
				got := until(ctx, all[name], "have told everybody", toldEverybody)
				Expect(got.Status.State).To(Equal(tc.state), "Scan ended %s: %s", got.Status.State, got.Status.ErrorDescription)
				if tc.reason != "" {
					wantTrouble(ctx, got, tc.reason)
				}
				calls := map[string][]int{}
				for _, hook := range []string{"on-success", "on-failure", "always"} {
					for _, p := range there.accepted("/"+hook, got) {
						Expect(p.Findings).NotTo(BeNil(), "hook %s sent no list of findings", hook)
						if hook == "on-failure" && (p.Scan.Status.State != executionv1.ScanStateErrored || p.Scan.Status.ErrorDescription == "") {
							Fail(fmt.Sprintf("hook %s sent a Scan that is %q: %q", hook, p.Scan.Status.State, p.Scan.Status.ErrorDescription))
						}
						calls[hook] = append(calls[hook], len(p.Findings))
					}
				}
				Expect(calls).To(BeComparableTo(tc.calls), "findings by call of hooks")
				if tc.reason == executionv1.ReasonScannerFailed {
					// Without findings there is nothing to run hooks over.
					rerun(ctx, got, "hooks")
					wantEvent(ctx, got, executionv1.ReasonRerunRefused)
				}
			})
		}
	})

	// A far end goes away in the middle of a delivery, and comes back when
	// the hook has given up. The hook is asked to run again, and the far end, which remembers
	// keys, has then taken each finding once.
	It("run again on request, and a remote server that remembers keys has each finding once", slow, func(ctx SpecContext) {
		var back atomic.Bool
		var mu sync.Mutex
		taken := map[string]int{} // requests by key
		there := startFarEnd(func(e exchange) reply {
			mu.Lock()
			defer mu.Unlock()
			key := e.Header.Get("Idempotency-Key")
			if known := taken[key] > 0; !known && len(taken) == 2 && !back.Load() {
				return reply{status: http.StatusServiceUnavailable}
			}
			taken[key]++
			return reply{}
		})
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		chart(ctx, "generic-webhook", ns, webhookValues(there.URL, map[string]any{"env": env(map[string]string{"DELIVERY_ATTEMPTS": "1", "WEBHOOK_BATCH_SIZE": "1"})}))
		s := shellScan(ns, "interrupted", "printf '%s' '"+nmapXML("22", "80", "443")+"' >"+resultPath)
		got := errored(ctx, s, executionv1.ReasonHookFailed, `Hook "generic-webhook"`, there.host(), "503 Service Unavailable")
		back.Store(true)
		rerun(ctx, got, "hooks")
		got = until(ctx, s, "run its hook again", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateDone })
		Expect(hookStates(got)).To(BeComparableTo([][]string{{"generic-webhook Completed"}}), "hooks")
		if c := meta.FindStatusCondition(got.Status.Conditions, executionv1.ConditionHooksCompleted); c == nil || c.Status != metav1.ConditionTrue {
			Fail(fmt.Sprintf("condition HooksCompleted is %+v, want True", c))
		}
		if n := w.ran.Of(got.UID)["read-only-hook/generic-webhook"]; n != 2 {
			Fail(fmt.Sprintf("the hook had %d Jobs, want 2", n))
		}
		var want []string
		for _, f := range findings(ctx, got) {
			want = append(want, f.ID.String())
		}
		keys := map[string][]string{} // by finding
		for _, e := range there.all() {
			if e.status/100 != 2 {
				continue
			}
			for _, f := range e.payload().Findings {
				if key := e.Header.Get("Idempotency-Key"); !slices.Contains(keys[f.ID], key) {
					keys[f.ID] = append(keys[f.ID], key)
				}
			}
		}
		slices.Sort(want)
		Expect(slices.Sorted(maps.Keys(keys))).To(BeComparableTo(want), "findings that arrived (-stored +arrived)")
		for id, k := range keys {
			if len(k) != 1 || k[0] == "" {
				Fail(fmt.Sprintf("finding %s came with the keys %q, want one", id, k))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		again := 0
		for _, n := range taken {
			again += n - 1
		}
		Expect(again).NotTo(Equal(0), "nothing was sent again: the far end had nothing to remember")
	})
})

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
func rerun(ctx context.Context, s *executionv1.Scan, what string) {
	GinkgoHelper()
	changed := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, executionv1.AnnotationRerun, what)
	Expect(w.admin.Patch(ctx, changed, client.MergeFrom(s))).To(Succeed())
}
