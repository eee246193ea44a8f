// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// NameHookJob writes the name of a started Job into the status of its hook.
func NameHookJob(s *executionv1.ScanStatus, hook, job string) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			if g[i].HookName == hook && g[i].State == executionv1.HookStateInProgress {
				g[i].JobName = job
			}
		}
	}
}

// runHooks runs the hooks of the Scan group by group: the hooks of a group run at the
// same time, and all run to their end; the next group starts when all have succeeded.
func runHooks(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.parsed(o)
	s.applyReports(o)
	if bad := invalidHook(o.Hooks, s.RawResultFile); bad != "" && len(s.OrderedHookStatuses) == 0 {
		d.fail(o, s, executionv1.ConditionHooksCompleted, Cause{executionv1.ReasonInvalidHook, bad})
		return
	}
	if len(s.OrderedHookStatuses) == 0 {
		s.OrderedHookStatuses = group(hooksFor(o.Hooks, executionv1.RunOnSuccess))
		s.migrateHooks()
		s.numberHooks(o.Attempts().hookAttempt())
	}
	r := &hookRun{o: o, d: d, s: s, requeueAfter: -1}
	for i := range s.OrderedHookStatuses {
		if r.runGroup(s.OrderedHookStatuses[i]) {
			continue
		}
		if len(r.failures) > 0 && !r.active {
			cancelFrom(s.OrderedHookStatuses[i:])
			d.fail(o, s, executionv1.ConditionHooksCompleted, Cause{r.reason, strings.Join(r.failures, "; ")})
			return
		}
		r.waitForGroup()
		return
	}
	r.warnIgnored()
	s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionTrue, Cause{executionv1.ReasonCompleted, hooksMessage(s.OrderedHookStatuses, r.ignored)})
	if mustForward(o) {
		d.awaitForwarding(o, s)
		return
	}
	d.done(o, s)
}

// warnIgnored sends one Event about failures that are ignored.
func (r *hookRun) warnIgnored() {
	if len(r.ignored) == 0 || r.d.Event != nil {
		return
	}
	if r.news != "" {
		r.d.Event = &Event{executionv1.ReasonHookFailed, r.news}
	}
}

// hooksFor returns the hooks that run after an outcome of the Scan.
func hooksFor(hooks []Hook, outcome executionv1.HookRunOn) []Hook {
	var own []Hook
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

// invalidHook returns which hook can never run; "": all can. The CRD refuses unknown types,
// but older hooks may be stored. The ScanType names the raw result, so that only here an
// output can be compared with it.
func invalidHook(hooks []Hook, rawResult string) string {
	for _, h := range hooks {
		if slices.Contains(h.Spec.Outputs, rawResult) {
			return fmt.Sprintf("Hook %q: spec.outputs names %s, which is the raw result of this Scan in storage; choose another name", h.Name, rawResult)
		}
		if slices.Contains(h.Spec.Outputs, executionv1.ScannerLogFile) {
			return fmt.Sprintf("Hook %q: spec.outputs names %s, which is the scanner's log in storage; choose another name", h.Name, executionv1.ScannerLogFile)
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
func group(hooks []Hook) [][]executionv1.HookStatus {
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

// migrateHooks converts the hook status of old versions of secureCodeBox: hooks that
// ended before the upgrade do not run again.
func (s *Status) migrateHooks() {
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

// numberHooks sets the number of the run on newly selected hooks.
func (s *Status) numberHooks(run int) {
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			g[i].Attempt = run
		}
	}
}

// cancelFrom marks the hooks that no longer run as cancelled.
func cancelFrom(groups [][]executionv1.HookStatus) {
	for _, g := range groups {
		for i := range g {
			if g[i].State == executionv1.HookStatePending {
				g[i].State = executionv1.HookStateCancelled
			}
		}
	}
}

// hookRun is one pass over the hooks of a Scan.
type hookRun struct {
	o *Observation
	d *Decision
	s *Status

	active       bool // some hook of the group runs or is about to
	trouble      *Cause
	held         string   // a Job that is suspended
	tries        []string // hooks that are tried again, and why
	failures     []string
	reason       string   // of the first failure
	ignored      []string // failures that do not count
	news         string   // the last failure that the status that was read does not have
	requeueAfter time.Duration
}

// runGroup updates the states of a group and starts its pending hooks. It reports
// whether the whole group has succeeded.
func (r *hookRun) runGroup(hooks []executionv1.HookStatus) bool {
	done := true
	for i := range hooks {
		r.runHook(&hooks[i])
		done = done && hasEndedWell(&hooks[i])
	}
	return done
}

func (r *hookRun) runHook(h *executionv1.HookStatus) {
	j, found := r.o.JobOf(hookRole(names.LabelValue(h.HookName)))
	switch {
	case found && j.Attempt >= h.Attempt:
		h.JobName = j.Name
		if j.Attempt > 1 {
			h.Attempt = j.Attempt // it may have been overwritten
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

// before returns why a hook without a Job failed, from the status of an earlier pass.
func (r *hookRun) before(h *executionv1.HookStatus) string {
	return cmp.Or(h.Message, fmt.Sprintf("Hook %q was %s", h.HookName, strings.ToLower(string(h.State))))
}

func (r *hookRun) followJob(h *executionv1.HookStatus, j Job) {
	if j.Ended != nil {
		r.s.containerFailed(j)
	}
	switch j.Outcome {
	case Complete:
		switch {
		case j.Report.State == ReportAwaited:
			h.State, h.Message, r.active = executionv1.HookStateInProgress, "", true
			r.wakeIn(untilReport(r.o, j))
			return
		case j.Report.State == ReportInvalid && h.Type == executionv1.ReadAndWrite:
			h.State = executionv1.HookStateFailed
			r.fail(h, executionv1.ReasonHookFailed, fmt.Sprintf("Hook %q (Job %s) ended well and told no outcome: %s. If its image works by the "+
				"Kubernetes API, take scanAccess: Handover out of the hook (hook.scanAccess of its chart)", h.HookName, j.Name, j.Report.Why))
			return
		}
		if h.State != executionv1.HookStateCompleted {
			r.d.revokeAway(r.o, j)
		}
		h.State, h.Message = executionv1.HookStateCompleted, ""
	case Failed:
		h.State = executionv1.HookStateFailed
		r.fail(h, executionv1.ReasonHookFailed, fmt.Sprintf("Hook %q failed (Job %s): %s", h.HookName, j.Name, j.Failure))
	case Running:
		why, left := r.o.overdue(j)
		if why != "" {
			h.State = executionv1.HookStateFailed
			r.d.Stop = append(r.d.Stop, j)
			t := overdue(r.o, j, fmt.Sprintf("hook %q", h.HookName))
			r.fail(h, t.Reason, t.Message)
			return
		}
		h.State = executionv1.HookStateInProgress
		r.active = true
		if r.trouble == nil && j.Trouble != nil {
			r.trouble = &Cause{j.Trouble.Reason, fmt.Sprintf("Hook %q: %s", h.HookName, j.Trouble.Message)}
		}
		if again := j.failedTries(); again != "" {
			r.tries = append(r.tries, fmt.Sprintf("Hook %q: %s", h.HookName, again))
		}
		if j.Suspended {
			r.held = j.Name
		}
		if j.NoPod && !j.Suspended {
			left = min(left, untilNextLook(r.o, j))
		}
		r.wakeIn(left)
	}
}

func (r *hookRun) start(h *executionv1.HookStatus) {
	i := slices.IndexFunc(r.o.Hooks, func(c Hook) bool { return c.Name == h.HookName })
	if i < 0 {
		h.State = executionv1.HookStateFailed
		r.fail(h, executionv1.ReasonHookNotFound, fmt.Sprintf("Hook %q was deleted, or does not match spec.hookSelector any more, before it ran", h.HookName))
		return
	}
	if why := r.o.refusedHook(&r.o.Hooks[i]); why != nil {
		h.State = executionv1.HookStateFailed
		r.fail(h, why.Reason, fmt.Sprintf("Hook %q: %s", h.HookName, why.Message))
		return
	}
	if len(r.d.Create) >= maxLaunches {
		r.active = true // its turn comes when these are there
		r.wakeIn(time.Second)
		return
	}
	l := r.s.requestOf(r.o, hookRole(names.LabelValue(h.HookName)), max(h.Attempt, 1))
	l.Hook, l.HookType, l.Tenant = &r.o.Hooks[i], h.Type, r.o.Hooks[i].Tenant
	r.d.Create = append(r.d.Create, l)
	h.State, h.Message = executionv1.HookStateInProgress, ""
	h.JobName = "" // known when the Job is there
	r.active = true
	r.wakeIn(LookForPods)
}

// maxLaunches bounds the Jobs that one pass creates: other Scans wait for the worker.
const maxLaunches = 32

// hasEndedWell reports whether the Scan continues after the hook.
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

// ignores reports whether a failure of the hook is ignored.
func ignores(h *executionv1.HookStatus) bool { return h.FailurePolicy == executionv1.HookIgnore }

func (r *hookRun) fail(h *executionv1.HookStatus, reason, message string) {
	h.Message = text.Cut(message, maxHookMessage)
	if was := stateOfHook(r.o.Scan, h); was != executionv1.HookStateFailed && was != executionv1.HookStateCancelled {
		r.news = message
	}
	if ignores(h) {
		r.ignored = append(r.ignored, message)
		return
	}
	if r.reason == "" {
		r.reason = reason
	}
	r.failures = append(r.failures, message)
}

// maxHookMessage is the maximum length of a hook's message in the CRD, in characters.
const maxHookMessage = 4096

// stateOfHook returns the state of a hook in the status that was read; Pending if the status has none.
func stateOfHook(scan *executionv1.Scan, hook *executionv1.HookStatus) executionv1.HookState {
	for _, g := range scan.Status.OrderedHookStatuses {
		for _, h := range g {
			if h.HookName == hook.HookName && h.AfterFailure == hook.AfterFailure {
				return h.State
			}
		}
	}
	return executionv1.HookStatePending
}

func (r *hookRun) wakeIn(d time.Duration) {
	if r.requeueAfter < 0 || d < r.requeueAfter {
		r.requeueAfter = d
	}
}

// waitForGroup writes the state of the current group and waits for the group.
func (r *hookRun) waitForGroup() {
	t := Cause{executionv1.ReasonRunning, strings.Join(append([]string{"Hooks are running."}, r.tries...), " ")}
	switch {
	case len(r.failures) > 0:
		t = Cause{r.reason, strings.Join(r.failures, "; ") + "; the other hooks of its group run to their end"}
	case r.trouble != nil:
		t = *r.trouble
		r.d.warn(r.o, metav1.ConditionUnknown, t)
	case r.held != "":
		t = jobSuspended(r.held)
	case len(r.ignored) > 0:
		t.Message += " Ignored as failurePolicy says: " + strings.Join(r.ignored, "; ")
	}
	r.warnIgnored()
	r.s.advance(executionv1.ScanStateHookProcessing)
	r.s.wait(r.o, executionv1.ConditionHooksCompleted, t)
	r.d.Links = r.o.Settings.StatusLinks
	r.d.Status = r.s.result()
	r.d.RequeueAfter = max(r.requeueAfter, 0)
}
