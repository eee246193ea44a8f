// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// runHooks leads the Scan through its hooks, group by group: the hooks of a group run
// at the same time and all run to their end; the next group starts when all have
// ended well.
func runHooks(o *observed, d *decision) {
	s := newStatus(o)
	s.parsed(o)
	if bad := invalidHook(o.hooks, s.RawResultFile); bad != "" && len(s.OrderedHookStatuses) == 0 {
		d.fail(o, s, executionv1.ConditionHooksCompleted, trouble{executionv1.ReasonInvalidHook, bad})
		return
	}
	if len(s.OrderedHookStatuses) == 0 {
		s.OrderedHookStatuses = group(hooksFor(o.hooks, executionv1.RunOnSuccess))
		s.migrateHooks()
		s.numberHooks(o.runs().again())
	}
	r := &hookRun{o: o, d: d, s: s, requeueAfter: -1}
	for i := range s.OrderedHookStatuses {
		if r.runGroup(s.OrderedHookStatuses[i]) {
			continue
		}
		if len(r.failures) > 0 && !r.active {
			cancelFrom(s.OrderedHookStatuses[i:])
			d.fail(o, s, executionv1.ConditionHooksCompleted, trouble{r.reason, strings.Join(r.failures, "; ")})
			return
		}
		r.waitForGroup()
		return
	}
	r.warnIgnored()
	d.done(o, s, r.ignored)
}

// warnIgnored tells by an Event of failures that do not count, once.
func (r *hookRun) warnIgnored() {
	if len(r.ignored) == 0 || r.d.notice != nil {
		return
	}
	last := r.ignored[len(r.ignored)-1]
	c := findCondition(r.o.scan.Status.Conditions, executionv1.ConditionHooksCompleted)
	if c == nil || !strings.Contains(c.Message, last) {
		r.d.notice = &notice{executionv1.ReasonHookFailed, last}
	}
}

// hooksFor returns those of the hooks that run when a Scan has gone one way.
func hooksFor(hooks []catalog.Hook, outcome executionv1.HookRunOn) []catalog.Hook {
	var own []catalog.Hook
	for _, h := range hooks {
		on := h.Spec.RunOn
		if on == "" {
			on = executionv1.RunOnSuccess
		}
		if on == outcome || on == executionv1.RunOnAlways {
			own = append(own, h)
		}
	}
	return own
}

// invalidHook says which hook can never run. The CRD refuses unknown types; hooks
// that were stored before it did may still have one. The name of the raw result is the
// ScanType's, so that only here it can be seen that an output would replace it.
func invalidHook(hooks []catalog.Hook, rawResult string) string {
	for _, h := range hooks {
		if slices.Contains(h.Spec.Outputs, rawResult) {
			return fmt.Sprintf("Hook %q: spec.outputs names %s, which is the raw result of this Scan in storage; choose another name", h.Name, rawResult)
		}
		if h.Spec.Type != executionv1.ReadOnly && h.Spec.Type != executionv1.ReadAndWrite {
			return fmt.Sprintf("Hook %q: spec.type %q is neither ReadOnly nor ReadAndWrite", h.Name, h.Spec.Type)
		}
	}
	return ""
}

// group puts hooks, which come sorted by priority and name, into the groups in which
// they run: for each priority, each ReadAndWrite hook by itself, then all ReadOnly
// hooks together.
func group(hooks []catalog.Hook) [][]executionv1.HookStatus {
	var groups [][]executionv1.HookStatus
	for start := 0; start < len(hooks); {
		end := start
		for end < len(hooks) && hooks[end].Spec.Priority == hooks[start].Spec.Priority {
			end++
		}
		var readers []executionv1.HookStatus
		for _, h := range hooks[start:end] {
			hs := executionv1.HookStatus{
				HookName: h.Name, State: executionv1.HookStatePending, Priority: h.Spec.Priority, Type: h.Spec.Type, FailurePolicy: h.Spec.FailurePolicy,
			}
			if h.Spec.Type == executionv1.ReadAndWrite {
				groups = append(groups, []executionv1.HookStatus{hs})
			} else {
				readers = append(readers, hs)
			}
		}
		if len(readers) > 0 {
			groups = append(groups, readers)
		}
		start = end
	}
	return groups
}

// migrateHooks takes over what old versions of secureCodeBox have recorded: hooks that
// had ended before the upgrade do not run again.
func (s *status) migrateHooks() {
	for _, old := range s.ReadAndWriteHookStatus {
		for _, g := range s.OrderedHookStatuses {
			for i := range g {
				if g[i].HookName == old.HookName && old.State == executionv1.HookStateCompleted {
					g[i].State, g[i].JobName = old.State, old.JobName
				}
			}
		}
	}
}

// numberHooks gives hooks that have just been chosen the number of their run.
func (s *status) numberHooks(run int) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			g[i].Attempt = run
		}
	}
}

// cancelFrom marks the hooks that will not run any more.
func cancelFrom(groups [][]executionv1.HookStatus) {
	for _, g := range groups {
		for i := range g {
			if g[i].State == executionv1.HookStatePending {
				g[i].State = executionv1.HookStateCancelled
			}
		}
	}
}

// hookRun is one look at the hooks of a Scan.
type hookRun struct {
	o *observed
	d *decision
	s *status

	active       bool // some hook of the group runs or is about to
	trouble      *trouble
	held         string // a Job that is suspended
	failures     []string
	reason       string   // of the first failure
	ignored      []string // failures that do not count
	requeueAfter time.Duration
}

// runGroup brings the states of a group up to date and starts what is pending. It
// says whether the whole group has ended well.
func (r *hookRun) runGroup(hooks []executionv1.HookStatus) bool {
	done := true
	for i := range hooks {
		r.runHook(&hooks[i])
		done = done && hasEndedWell(&hooks[i])
	}
	return done
}

func (r *hookRun) runHook(h *executionv1.HookStatus) {
	j, found := r.o.jobOf(hookRole(names.LabelValue(h.HookName)))
	switch {
	case found && j.attempt >= h.Attempt:
		h.JobName = j.name
		if j.attempt > 1 {
			h.Attempt = j.attempt // it may have been overwritten
		}
		r.followJob(h, j)
	case h.State == executionv1.HookStatePending:
		r.start(h)
	case h.State == executionv1.HookStateInProgress:
		h.State = executionv1.HookStateFailed
		r.fail(h, executionv1.ReasonJobLost, fmt.Sprintf("Hook %q: its Job %s was removed before its outcome was seen", h.HookName, h.JobName))
	case h.State == executionv1.HookStateFailed, h.State == executionv1.HookStateCancelled:
		r.fail(h, executionv1.ReasonHookFailed, r.before(h))
	}
}

// before says why a hook without a Job failed: the condition of an earlier pass knows.
func (r *hookRun) before(h *executionv1.HookStatus) string {
	c := findCondition(r.o.scan.Status.Conditions, executionv1.ConditionHooksCompleted)
	if c != nil && strings.Contains(c.Message, fmt.Sprintf("Hook %q", h.HookName)) {
		return c.Message
	}
	return fmt.Sprintf("Hook %q was %s", h.HookName, strings.ToLower(string(h.State)))
}

func (r *hookRun) followJob(h *executionv1.HookStatus, j job) {
	switch j.outcome {
	case complete:
		if h.State != executionv1.HookStateCompleted {
			r.d.revokeAway(r.o, j)
		}
		h.State = executionv1.HookStateCompleted
	case failed:
		h.State = executionv1.HookStateFailed
		r.fail(h, executionv1.ReasonHookFailed, fmt.Sprintf("Hook %q failed (Job %s): %s", h.HookName, j.name, j.failure))
	case running:
		why, left := r.o.overdue(j)
		if why != "" {
			h.State = executionv1.HookStateFailed
			r.d.stop = append(r.d.stop, j)
			t := overdue(r.o, j, fmt.Sprintf("hook %q", h.HookName))
			r.fail(h, t.reason, t.message)
			return
		}
		h.State = executionv1.HookStateInProgress
		r.active = true
		if r.trouble == nil && j.trouble != nil {
			r.trouble = &trouble{j.trouble.reason, fmt.Sprintf("Hook %q: %s", h.HookName, j.trouble.message)}
		}
		if j.suspended {
			r.held = j.name
		}
		if j.noPod && !j.suspended {
			left = min(left, untilNextLook(r.o, j))
		}
		r.wakeIn(left)
	}
}

func (r *hookRun) start(h *executionv1.HookStatus) {
	i := slices.IndexFunc(r.o.hooks, func(c catalog.Hook) bool { return c.Name == h.HookName })
	if i < 0 {
		h.State = executionv1.HookStateFailed
		r.fail(h, executionv1.ReasonHookNotFound, fmt.Sprintf("Hook %q was deleted, or does not match spec.hookSelector any more, before it ran", h.HookName))
		return
	}
	r.d.launch = append(r.d.launch, launch{role: hookRole(names.LabelValue(h.HookName)), hook: &r.o.hooks[i], hookType: h.Type, attempt: max(h.Attempt, 1)})
	h.State = executionv1.HookStateInProgress
	h.JobName = "" // act fills it in
	r.active = true
	r.wakeIn(lookForPods)
}

// hasEndedWell says whether the Scan goes on after the hook.
func hasEndedWell(h *executionv1.HookStatus) bool {
	switch h.State {
	case executionv1.HookStateCompleted:
		return true
	case executionv1.HookStateFailed, executionv1.HookStateCancelled:
		return ignores(h)
	default:
		return false
	}
}

// ignores says whether a failure of the hook is passed over.
func ignores(h *executionv1.HookStatus) bool { return h.FailurePolicy == executionv1.HookIgnore }

func (r *hookRun) fail(h *executionv1.HookStatus, reason, message string) {
	if ignores(h) {
		r.ignored = append(r.ignored, message)
		return
	}
	if r.reason == "" {
		r.reason = reason
	}
	r.failures = append(r.failures, message)
}

func (r *hookRun) wakeIn(d time.Duration) {
	if r.requeueAfter < 0 || d < r.requeueAfter {
		r.requeueAfter = d
	}
}

// waitForGroup shows how the current group stands and waits for it.
func (r *hookRun) waitForGroup() {
	t := trouble{executionv1.ReasonRunning, "Hooks are running."}
	switch {
	case len(r.failures) > 0:
		t = trouble{r.reason, strings.Join(r.failures, "; ") + "; the other hooks of its group run to their end"}
	case r.trouble != nil:
		t = *r.trouble
		r.d.warn(r.o, t)
	case r.held != "":
		t = jobSuspended(r.held)
	case len(r.ignored) > 0:
		t.message += " Ignored as failurePolicy says: " + strings.Join(r.ignored, "; ")
	}
	r.warnIgnored()
	r.s.advance(executionv1.ScanStateHookProcessing)
	r.s.wait(r.o, executionv1.ConditionHooksCompleted, t)
	r.d.links = r.o.settings.StatusLinks
	r.d.status = r.s.result()
	r.d.requeueAfter = max(r.requeueAfter, 0)
}
