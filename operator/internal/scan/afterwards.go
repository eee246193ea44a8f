// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// reopened says whether something is left to do for a Scan that has ended.
func reopened(s *executionv1.Scan) bool {
	return s.Settled() && (hasOpenFailureHook(s.Status.OrderedHookStatuses) || asksRerun(s) || asksCancel(s))
}

func isReopened(o *observed) bool { return reopened(o.scan) }

// --- hooks of Scans that are Errored ---

func hasFailureHooks(o *observed) bool {
	return o.scan.Settled() && hasOpenFailureHook(o.scan.Status.OrderedHookStatuses)
}

func hasOpenFailureHook(groups [][]executionv1.HookStatus) bool {
	return slices.ContainsFunc(groups, isOpenFailureGroup)
}

func isOpenFailureGroup(g []executionv1.HookStatus) bool {
	return slices.ContainsFunc(g, func(h executionv1.HookStatus) bool {
		return h.AfterFailure && (h.State == executionv1.HookStatePending || h.State == executionv1.HookStateInProgress)
	})
}

// addFailureHooks notes the hooks that run because the Scan is Errored. They are noted
// in the same write, so that a hook that is installed later does not run for it. A hook
// that runs Always and had its turn has told already.
func (s *status) addFailureHooks(o *observed) {
	told := map[string]bool{}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			told[h.HookName] = told[h.HookName] || h.State == executionv1.HookStateCompleted || h.State == executionv1.HookStateFailed
		}
	}
	groups := group(hooksFor(o.hooks, executionv1.RunOnFailure))
	for _, g := range groups {
		g = slices.DeleteFunc(g, func(h executionv1.HookStatus) bool { return told[h.HookName] })
		for i := range g {
			g[i].AfterFailure = true
			g[i].Attempt = nextAttempt(o, hookRole(names.LabelValue(g[i].HookName)))
		}
		if len(g) > 0 {
			s.OrderedHookStatuses = append(s.OrderedHookStatuses, g)
		}
	}
}

// runFailureHooks leads an Errored Scan through the hooks that run for it. The Scan stays
// as it ended; a failure of one of these hooks only shows in the condition HooksCompleted,
// and the others run nevertheless.
func runFailureHooks(o *observed, d *decision) {
	s := newStatus(o)
	r := &hookRun{o: o, d: d, s: s, requeueAfter: -1}
	for i, g := range s.OrderedHookStatuses {
		if !isOpenFailureGroup(g) {
			continue
		}
		r.runGroup(s.OrderedHookStatuses[i])
		if r.active {
			d.requeueAfter = max(r.requeueAfter, 0)
			break
		}
	}
	failures := slices.Concat(r.failures, r.ignored)
	if len(failures) > 0 {
		s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionFalse, trouble{
			executionv1.ReasonHookFailed, s.conditionMessage(executionv1.ConditionHooksCompleted, failures),
		})
		if c := findCondition(o.scan.Status.Conditions, executionv1.ConditionHooksCompleted); c == nil || !strings.Contains(c.Message, failures[len(failures)-1]) {
			d.notice = &notice{executionv1.ReasonHookFailed, strings.Join(failures, "; ")}
		}
	}
	if !hasOpenFailureHook(s.OrderedHookStatuses) {
		for _, j := range o.jobs {
			d.revokeAway(o, j)
		}
		d.releaseAccess = true
		if left, ok := untilExpiry(o); ok {
			d.requeueAfter = left
		}
	}
	d.status = s.result()
}

// conditionMessage adds messages to what a condition that is False says already.
func (s *status) conditionMessage(kind string, more []string) string {
	if c := s.condition(kind); c != nil && c.Status == metav1.ConditionFalse {
		more = slices.DeleteFunc(more, func(m string) bool { return strings.Contains(c.Message, m) })
		more = slices.Insert(more, 0, c.Message)
	}
	return strings.Join(more, "; ")
}
