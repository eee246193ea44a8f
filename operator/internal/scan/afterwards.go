// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// reopened says whether something is left to do for a Scan that has ended.
func reopened(s *executionv1.Scan) bool {
	return s.Settled() && (hasOpenFailureHook(s.Status.OrderedHookStatuses) || asksRerun(s))
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
			g[i].Attempt = nextAttempt(o, g[i].HookName)
		}
		if len(g) > 0 {
			s.OrderedHookStatuses = append(s.OrderedHookStatuses, g)
		}
	}
}

// nextAttempt numbers a further run of a hook; 0, which is not written, for the first.
func nextAttempt(o *observed, hook string) int {
	if last := o.lastAttempt(hookRole(names.LabelValue(hook))); last > 0 {
		return last + 1
	}
	return 0
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

// --- hooks that are asked for again ---

func asksRerun(s *executionv1.Scan) bool {
	asked := s.Annotations[executionv1.AnnotationRerun]
	return asked != "" && asked != s.Status.LastRerun
}

func wantsRerun(o *observed) bool { return isSettled(o) && asksRerun(o.scan) }

// rerunHooks opens a Scan that has ended again for some of its hooks.
func rerunHooks(o *observed, d *decision) {
	asked := o.scan.Annotations[executionv1.AnnotationRerun]
	s := newStatus(o)
	s.LastRerun = asked
	d.status = s.ScanStatus
	again, refusal := s.hooksAgain(asked)
	if refusal != "" {
		d.notice = &notice{executionv1.ReasonRerunRefused, fmt.Sprintf("Annotation %s is %q: %s", executionv1.AnnotationRerun, asked, refusal)}
		d.requeueAfter, _ = untilExpiry(o)
		return
	}
	for _, h := range again {
		h.Attempt = nextAttempt(o, h.HookName)
		h.State, h.JobName = executionv1.HookStatePending, ""
	}
	// If it fails again, those who want to hear of failures hear of it again.
	s.OrderedHookStatuses = slices.DeleteFunc(s.OrderedHookStatuses, func(g []executionv1.HookStatus) bool { return g[0].AfterFailure })
	s.State, s.FinishedAt, s.ErrorDescription = executionv1.ScanStateHookProcessing, nil, ""
	s.forget(executionv1.ConditionHooksCompleted)
	s.wait(o, executionv1.ConditionHooksCompleted, trouble{executionv1.ReasonRunning, fmt.Sprintf("%d of the hooks run again.", len(again))})
	d.status = s.result()
	d.requeueAfter = conflictRetry
}

// hooksAgain returns the hooks that an annotation asks for, or why there are none.
func (s *status) hooksAgain(asked string) (again []*executionv1.HookStatus, refusal string) {
	what, _, _ := strings.Cut(asked, "@")
	name, one := strings.CutPrefix(what, "hook/")
	if !one && what != "hooks" {
		return nil, `ask for "hooks" or "hook/NAME", and add "@" with anything behind it to ask a second time`
	}
	if c := s.condition(executionv1.ConditionParsed); c == nil || c.Status != metav1.ConditionTrue {
		return nil, "the Scan ended before its findings were stored, so no hook can run over them; start the Scan anew"
	}
	var known []string
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			h := &g[i]
			if h.AfterFailure {
				continue
			}
			known = append(known, h.HookName)
			ended := h.State == executionv1.HookStateFailed || h.State == executionv1.HookStateCancelled
			if one && h.HookName == name || !one && ended {
				again = append(again, h)
			}
		}
	}
	switch {
	case len(again) > 0:
		return again, ""
	case one:
		return nil, fmt.Sprintf("no such hook has run for this Scan; there are: %s", orNone(strings.Join(known, ", ")))
	default:
		return nil, "no hook of this Scan has failed"
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
