// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// quotaRetry is how often a Job that a quota keeps out is tried again: nothing tells
// when a quota has room.
const quotaRetry = 15 * time.Second

// rejection is why the API server did not take a Job.
type rejection struct {
	trouble

	// final means that trying again cannot help.
	final bool
}

// classify tells refusals of a Job, which the user has to hear of, from failures of
// the API, which are tried again.
func classify(err error) (rejection, bool) {
	message := clean(err.Error())
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return rejection{trouble{executionv1.ReasonJobRejected, "The API server refuses the Job made of ScanType and Scan: " + message}, true}, true
	case apierrors.IsForbidden(err) && isQuota(message):
		return rejection{trouble{executionv1.ReasonQuotaExceeded, "The Job cannot be created: " + message}, false}, true
	case strings.Contains(message, "admission webhook") && strings.Contains(message, "denied the request"),
		strings.Contains(message, "ValidatingAdmissionPolicy") && strings.Contains(message, "denied request"):
		return rejection{trouble{executionv1.ReasonJobRejected, "A policy of the cluster refuses the Job: " + message}, true}, true
	default:
		return rejection{}, false
	}
}

// decideRejected says what to do when the Job of a launch was refused. It replaces the
// decision that asked for it; Jobs launched before it stay.
func decideRejected(o *observed, before *decision, l launch, why rejection) decision {
	d := decision{step: before.step + "Rejected"}
	if l.hook != nil {
		rejectHook(o, before, &d, l, why)
		return d
	}
	s := newStatus(o)
	phase := executionv1.ConditionScanned
	if l.role == parserRole {
		s.advance(executionv1.ScanStateScanCompleted)
		s.scanned(o)
		phase = executionv1.ConditionParsed
	}
	if why.final {
		d.fail(o, s, phase, why.trouble)
		return d
	}
	d.await(o, s, phase, why.trouble, o.startDeadline())
	if d.requeueAfter > 0 && !settledState(d.status) {
		d.requeueAfter = min(d.requeueAfter, quotaRetry)
	}
	return d
}

func settledState(s *executionv1.ScanStatus) bool {
	return s.State == executionv1.ScanStateDone || s.State == executionv1.ScanStateErrored
}

// rejectHook marks the one hook; the others of its group go on.
func rejectHook(o *observed, before, d *decision, l launch, why rejection) {
	s := &status{before.status.DeepCopy()}
	final := why.final || hasWaited(o, why)
	t := trouble{why.reason, fmt.Sprintf("Hook %q: %s", l.hook.Name, why.message)}
	for _, g := range s.OrderedHookStatuses {
		for i := range g {
			if g[i].State == executionv1.HookStateInProgress && g[i].JobName == "" {
				g[i].State = executionv1.HookStatePending // its turn did not come
			}
			if g[i].HookName == l.hook.Name && g[i].State == executionv1.HookStatePending && final {
				g[i].State = executionv1.HookStateFailed
			}
		}
	}
	d.status = s.ScanStatus
	d.requeueAfter = quotaRetry
	if final {
		d.requeueAfter = time.Second
	}
	if settledState(s.ScanStatus) { // it stays as it ended
		message := s.conditionMessage(executionv1.ConditionHooksCompleted, []string{t.message})
		s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionFalse, trouble{t.reason, message})
		s.result()
		return
	}
	if c := findCondition(o.scan.Status.Conditions, executionv1.ConditionHooksCompleted); c == nil || c.Reason != t.reason {
		s.forget(executionv1.ConditionHooksCompleted) // its transition time says since when this is waited for
	}
	s.wait(o, executionv1.ConditionHooksCompleted, t)
	d.warn(o, t)
	s.result()
}

// hasWaited says whether a hook has been kept out for as long as pods may wait.
func hasWaited(o *observed, why rejection) bool {
	c := findCondition(o.scan.Status.Conditions, executionv1.ConditionHooksCompleted)
	return c != nil && c.Reason == why.reason &&
		o.now.Sub(c.LastTransitionTime.Time) >= o.startDeadline()
}
