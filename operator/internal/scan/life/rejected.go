// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/text"
)

// quotaRetry is how often a Job that a quota refused is tried again: no watch shows when
// a quota has room.
const quotaRetry = 15 * time.Second

// Rejection is why the API server refused a Job.
type Rejection struct {
	Cause

	// Final means that trying again cannot help.
	Final bool
}

// Classify returns the Rejection of a Job, which is reported to the user; false: the error
// is a failure of the API, which is retried.
func Classify(err error) (Rejection, bool) {
	message := Clean(err.Error())
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return Rejection{Cause{executionv1.ReasonJobRejected, "The API server refuses the Job made of ScanType and Scan: " + message}, true}, true
	case apierrors.IsForbidden(err) && isQuota(message):
		return Rejection{Cause{executionv1.ReasonQuotaExceeded, "The Job cannot be created: " + message}, false}, true
	case strings.Contains(message, "admission webhook") && strings.Contains(message, "denied the request"),
		strings.Contains(message, "ValidatingAdmissionPolicy") && strings.Contains(message, "denied request"):
		return Rejection{Cause{executionv1.ReasonJobRejected, "A policy of the cluster refuses the Job: " + message}, true}, true
	default:
		return Rejection{}, false
	}
}

// DecideRejected decides after a Job was refused. The result replaces the Decision that
// requested the Job; Jobs that were created before it stay.
func DecideRejected(o *Observation, before *Decision, l JobRequest, why Rejection) Decision {
	d := Decision{Step: before.Step + "Rejected"}
	if l.Hook != nil {
		rejectHook(o, before, &d, l, why)
		return d
	}
	s := NewStatus(o)
	phase := executionv1.ConditionScanned
	if l.Role == ParserRole {
		s.advance(executionv1.ScanStateScanCompleted)
		s.scanned(o)
		phase = executionv1.ConditionParsed
	}
	if why.Final {
		d.fail(o, s, phase, why.Cause)
		return d
	}
	d.await(o, s, phase, why.Cause, o.startDeadline())
	if d.RequeueAfter > 0 && !SettledState(d.Status) {
		d.RequeueAfter = min(d.RequeueAfter, quotaRetry)
	}
	return d
}

// rejectHook marks the refused hook; the other hooks of its group continue.
func rejectHook(o *Observation, before, d *Decision, l JobRequest, why Rejection) {
	s := &Status{before.Status.DeepCopy()}
	final := why.Final || hasWaited(o, why)
	t := Cause{why.Reason, fmt.Sprintf("Hook %q: %s", l.Hook.Name, why.Message)}
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			if g[i].State == executionv1.HookStateInProgress && g[i].JobName == "" {
				g[i].State = executionv1.HookStatePending // it was not started
			}
			if g[i].HookName == l.Hook.Name && g[i].State == executionv1.HookStatePending && final {
				g[i].State, g[i].Message = executionv1.HookStateFailed, text.Cut(t.Message, maxHookMessage)
			}
		}
	}
	d.Status = s.ScanStatus
	d.RequeueAfter = quotaRetry
	if final {
		d.RequeueAfter = time.Second
	}
	if SettledState(s.ScanStatus) { // the Scan keeps its final state
		if final {
			s.hooksFailed(o, t.Reason)
		} else {
			s.hooksFailed(o, t.Reason, t.Message)
		}
		s.result()
		return
	}
	if c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionHooksCompleted); c == nil || c.Reason != t.Reason {
		s.forget(executionv1.ConditionHooksCompleted) // so that its transition time is the begin of this wait
	}
	s.wait(o, executionv1.ConditionHooksCompleted, t)
	d.warn(o, metav1.ConditionUnknown, t)
	s.result()
}

// hasWaited reports whether a hook was refused for as long as pods may wait.
func hasWaited(o *Observation, why Rejection) bool {
	c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionHooksCompleted)
	return c != nil && c.Reason == why.Reason &&
		o.Now.Sub(c.LastTransitionTime.Time) >= o.startDeadline()
}
