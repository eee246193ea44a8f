// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// Reopened reports whether a Scan that has ended still has work to do.
func Reopened(s *executionv1.Scan) bool {
	return s.Settled() && (hasOpenFailureHook(s.Status.OrderedHookStatuses) || asksRerun(s) || asksCancel(s))
}

// IsReopened holds if a Scan that has ended still has work to do.
func IsReopened(o *Observation) bool { return Reopened(o.Scan) }

// --- hooks of Scans that are Errored ---

// HasFailureHooks holds for an Errored Scan whose failure hooks have not all ended.
func HasFailureHooks(o *Observation) bool {
	return o.Scan.Settled() && hasOpenFailureHook(o.Scan.Status.OrderedHookStatuses)
}

func hasOpenFailureHook(groups [][]executionv1.HookStatus) bool {
	return slices.ContainsFunc(groups, isOpenFailureGroup)
}

func isOpenFailureGroup(g []executionv1.HookStatus) bool {
	return slices.ContainsFunc(g, func(h executionv1.HookStatus) bool {
		return h.AfterFailure && (h.State == executionv1.HookStatePending || h.State == executionv1.HookStateInProgress)
	})
}

// addFailureHooks adds the hooks that run because the Scan is Errored to the status, in
// the write that makes the Scan Errored. So a hook that is installed later does not run for
// the Scan. A hook that runs Always and has run before is not added.
func (s *Status) addFailureHooks(o *Observation) {
	told := map[string]bool{}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			told[h.HookName] = told[h.HookName] || h.State == executionv1.HookStateCompleted || h.State == executionv1.HookStateFailed
		}
	}
	groups := group(hooksFor(o.Hooks, executionv1.RunOnFailure))
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

// runFailureHooks runs the failure hooks of an Errored Scan. The Scan keeps its state; a
// failure of one of these hooks only shows in the condition HooksCompleted, and the others
// still run.
func runFailureHooks(o *Observation, d *Decision) {
	s := NewStatus(o)
	r := &hookRun{o: o, d: d, s: s, requeueAfter: -1}
	for i, g := range s.OrderedHookStatuses {
		if !isOpenFailureGroup(g) {
			continue
		}
		r.runGroup(s.OrderedHookStatuses[i])
		if r.active {
			d.RequeueAfter = max(r.requeueAfter, 0)
			break
		}
	}
	if failures := slices.Concat(r.failures, r.ignored); len(failures) > 0 {
		s.hooksFailed(o, executionv1.ReasonHookFailed)
		if r.news != "" {
			d.Event = &Event{executionv1.ReasonHookFailed, strings.Join(failures, "; ")}
		}
	}
	if !hasOpenFailureHook(s.OrderedHookStatuses) {
		for _, j := range o.Jobs {
			d.revokeAway(o, j)
		}
		d.ReleaseAccess = true
		if left, ok := untilExpiry(o); ok {
			d.RequeueAfter = left
		}
	}
	d.Status = s.result()
}

// hooksFailed sets the condition HooksCompleted of an Errored Scan to the hooks that failed, after the
// cause that ended the Scan if that was a hook. Further are messages that no hook status has.
func (s *Status) hooksFailed(o *Observation, reason string, further ...string) {
	var messages []string
	if meta.IsStatusConditionTrue(s.Conditions, executionv1.ConditionParsed) {
		messages = append(messages, s.ErrorDescription)
	}
	for _, g := range s.OrderedHookStatuses {
		for _, h := range g {
			if h.AfterFailure && h.State == executionv1.HookStateFailed {
				messages = append(messages, h.Message)
			}
		}
	}
	messages = slices.DeleteFunc(append(messages, further...), func(m string) bool { return m == "" })
	s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionFalse, Cause{reason, strings.Join(messages, "; ")})
}
