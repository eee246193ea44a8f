// SPDX-License-Identifier: Apache-2.0

package scanview

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Progress is how far a phase is.
type Progress string

const (
	// Pending is a phase that has not begun.
	Pending Progress = "pending"
	// Waiting is a phase that a reason keeps from continuing.
	Waiting Progress = "waiting"
	// Running is a phase that is running.
	Running Progress = "running"
	// Done is a phase that has succeeded.
	Done Progress = "done"
	// Failed is the phase that ended the Scan.
	Failed Progress = "failed"
	// Skipped is a phase that the Scan never reached.
	Skipped Progress = "skipped"
)

// Phase is one of the phases of a Scan, or one hook.
type Phase struct {
	Name     string
	Progress Progress
	// Job is the name of its newest Job, where known; Attempts counts its Jobs.
	Job      string
	Attempts int
	// Began and Ended are zero if the phase has not begun or ended, or if the time is not known any more.
	Began, Ended time.Time
	Reason       string
	Message      string
	// Hook is the hook's own status, if the phase is one hook.
	Hook *executionv1.HookStatus
}

// Duration returns how long a phase has taken, or takes until now; 0 if unknown.
func (p Phase) Duration(now time.Time) time.Duration {
	switch {
	case p.Began.IsZero() || p.Ended.IsZero() && p.Progress != Running && p.Progress != Waiting:
		return 0
	case p.Ended.IsZero():
		return max(0, now.Sub(p.Began))
	default:
		return max(0, p.Ended.Sub(p.Began))
	}
}

// phase names of the conditions, in the order in which they run.
var phaseConditions = []struct{ name, condition string }{
	{PhaseScanner, executionv1.ConditionScanned},
	{PhaseParser, executionv1.ConditionParsed},
	{PhaseHooks, executionv1.ConditionHooksCompleted},
}

// Names of the phases.
const (
	PhaseScanner = "scanner"
	PhaseParser  = "parser"
	PhaseHooks   = "hooks"
	// HookPrefix begins the name of a phase that is one hook: "hook/NAME". The annotation scanyard.io/rerun takes the same names.
	HookPrefix = "hook/"
)

// Phases returns scanner, parser and hooks, from the conditions of a Scan.
func Phases(s *executionv1.Scan) []Phase {
	out := make([]Phase, 0, len(phaseConditions))
	var began time.Time
	if s.Status.StartedAt != nil {
		began = s.Status.StartedAt.Time
	}
	for _, pc := range phaseConditions {
		p := Phase{Name: pc.name, Progress: Pending, Began: began}
		began = time.Time{}
		if c := meta.FindStatusCondition(s.Status.Conditions, pc.condition); c != nil {
			p.Reason, p.Message = c.Reason, c.Message
			p.Progress = progressOf(c)
			if c.Status != metav1.ConditionUnknown {
				p.Ended = c.LastTransitionTime.Time
				began = p.Ended
			}
		} else {
			p.Began = time.Time{}
		}
		if p.Progress == Pending && s.Settled() {
			p.Progress = Skipped
			if s.Status.State == executionv1.ScanStateDone {
				p.Progress = Done // the operator writes no conditions
			}
		}
		out = append(out, p)
	}
	return out
}

func progressOf(c *metav1.Condition) Progress {
	switch {
	case c.Status == metav1.ConditionTrue:
		return Done
	case c.Status == metav1.ConditionFalse:
		return Failed
	case c.Reason == executionv1.ReasonRunning:
		return Running
	default:
		return Waiting
	}
}

// Detailed returns the phases with their Jobs, and each hook as a phase of its own. Jobs know the times
// better than conditions do.
func Detailed(s *executionv1.Scan, jobs []batchv1.Job) []Phase {
	phases := Phases(s)
	out := []Phase{withJobs(phases[0], jobs, executionv1.JobTypeScanner), withJobs(phases[1], jobs, executionv1.JobTypeParser)}
	for _, group := range s.Status.OrderedHookStatuses {
		for i := range group {
			out = append(out, hookPhase(&group[i], jobs))
		}
	}
	if len(out) == len(phases)-1 {
		out = append(out, phases[2]) // no hook is known by name
	}
	return out
}

// withJobs adds the times and attempts of a phase's Jobs.
func withJobs(p Phase, jobs []batchv1.Job, kind string) Phase {
	var newest *batchv1.Job
	for i := range jobs {
		if jobs[i].Labels[executionv1.LabelJobType] != kind {
			continue
		}
		p.Attempts++
		if newest == nil || newest.CreationTimestamp.Before(&jobs[i].CreationTimestamp) {
			newest = &jobs[i]
		}
	}
	if newest == nil && kind == executionv1.JobTypeParser {
		return fusedPhase(p, jobs)
	}
	ended := p.Ended
	p = withJob(p, newest)
	if newest != nil && executionv1.IsFused(newest) && !ended.IsZero() {
		p.Ended = ended // the Job goes on with the parser
	}
	return p
}

// fusedPhase is the phase of a parser that has no Job of its own. When it began and ended is in the conditions.
func fusedPhase(p Phase, jobs []batchv1.Job) Phase {
	for i := range jobs {
		if j := &jobs[i]; executionv1.IsFused(j) && p.Progress != Pending && p.Progress != Skipped {
			p.Job = j.Name
			p.Attempts++
		}
	}
	return p
}

func withJob(p Phase, j *batchv1.Job) Phase {
	if j == nil {
		return p
	}
	p.Job = j.Name
	p.Began, p.Ended = j.CreationTimestamp.Time, jobEnd(j)
	return p
}

// jobEnd returns when a Job has ended, either way; zero before its end.
func jobEnd(j *batchv1.Job) time.Time {
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

var hookProgress = map[executionv1.HookState]Progress{
	executionv1.HookStatePending: Pending, executionv1.HookStateInProgress: Running, executionv1.HookStateCompleted: Done,
	executionv1.HookStateCancelled: Skipped, executionv1.HookStateFailed: Failed,
}

func hookPhase(h *executionv1.HookStatus, jobs []batchv1.Job) Phase {
	p := Phase{
		Name: HookPrefix + h.HookName, Progress: hookProgress[h.State], Job: h.JobName, Attempts: max(1, h.Attempt), Message: h.Message, Hook: h,
	}
	for i := range jobs {
		if jobs[i].Name == h.JobName {
			return withJob(p, &jobs[i])
		}
	}
	return p
}
