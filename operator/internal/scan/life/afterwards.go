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

// Reopened says whether something is left to do for a Scan that has ended.
func Reopened(s *executionv1.Scan) bool {
	return s.Settled() && (hasOpenFailureHook(s.Status.OrderedHookStatuses) || asksRerun(s) || asksCancel(s))
}

// IsReopened holds where something is left to do for a Scan that has ended.
func IsReopened(o *Observation) bool { return Reopened(o.Scan) }

// --- hooks of Scans that are Errored ---

// HasFailureHooks holds for an Errored Scan whose hooks for failures have not all ended.
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

// addFailureHooks notes the hooks that run because the Scan is Errored. They are noted
// in the same write, so that a hook that is installed later does not run for it. A hook
// that runs Always and had its turn has told already.
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

// runFailureHooks leads an Errored Scan through the hooks that run for it. The Scan stays
// as it ended; a failure of one of these hooks only shows in the condition HooksCompleted,
// and the others run nevertheless.
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

// hooksFailed says of an Errored Scan which of its hooks have failed, after what had ended it, where
// that were hooks. Further are messages of what is not noted with a hook.
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
