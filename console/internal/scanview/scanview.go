// SPDX-License-Identifier: Apache-2.0

// Package scanview decides what pages show of a Scan: pure functions from the object to words, phases and classes of colour.
package scanview

import (
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// State is the state of a Scan in a word.
func State(s *executionv1.Scan) string {
	switch {
	case s.DeletionTimestamp != nil:
		return "Deleting"
	case s.Settled():
		return string(s.Status.State)
	case s.Spec.Suspend != nil && *s.Spec.Suspend:
		return "Suspended"
	case s.Status.State == executionv1.ScanStateNew:
		return "Waiting"
	}
	return string(s.Status.State)
}

// Class is the class of colour of a Scan's state.
func Class(s *executionv1.Scan) string {
	switch State(s) {
	case "Done":
		if reached := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionTargetReached); reached != nil && reached.Status == metav1.ConditionFalse {
			return "wait"
		}
		return "good"
	case "Errored":
		return "bad"
	case "Waiting", "Suspended":
		return "wait"
	case "Deleting":
		return "off"
	}
	return "run"
}

// Says is the most important sentence about a Scan now.
func Says(s *executionv1.Scan) string {
	if s.Status.State == executionv1.ScanStateErrored && s.Status.ErrorDescription != "" {
		return s.Status.ErrorDescription
	}
	if s.Status.State == executionv1.ScanStateDone {
		reached := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionTargetReached)
		if reached != nil && reached.Status == metav1.ConditionFalse {
			return "Nothing was reached: " + reached.Message
		}
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionReady); ready != nil && ready.Message != "" {
		return ready.Message
	}
	if s.Status.State == executionv1.ScanStateNew {
		return "It waits for the operator."
	}
	return ""
}

// Place is where a Scan stands in the queue; empty for one that does not wait.
func Place(s *executionv1.Scan) string {
	if s.Status.Queue == nil || s.Status.State != executionv1.ScanStateNew {
		return ""
	}
	return strconv.Itoa(s.Status.Queue.Position) + " of " + strconv.Itoa(s.Status.Queue.Of)
}

// Counts are the findings of a Scan by severity: critical, which Scans do not know, high, medium, low, informational.
func Counts(f executionv1.FindingStats) [5]int64 {
	var out [5]int64
	s := f.FindingSeverities
	for i, n := range []*int64{nil, s.High, s.Medium, s.Low, s.Informational} {
		if n != nil {
			out[i] = *n
		}
	}
	return out
}

// Total is the number of findings; false where none were counted yet.
func Total(f executionv1.FindingStats) (int64, bool) {
	if f.Count == nil {
		return 0, false
	}
	return *f.Count, true
}

// Lifetime is how long a Scan took, or has taken so far; 0 if it has not started.
func Lifetime(s *executionv1.Scan, now time.Time) time.Duration {
	switch {
	case s.Status.StartedAt == nil:
		return 0
	case s.Status.FinishedAt != nil:
		return max(0, s.Status.FinishedAt.Sub(s.Status.StartedAt.Time))
	}
	return max(0, now.Sub(s.Status.StartedAt.Time))
}

// Series is what the runs of the same scan have in common: the schedule, or else type and parameters.
func Series(s *executionv1.Scan) string {
	if owner := executionv1.ScheduleOf(s); owner != nil {
		return s.Namespace + "/schedule/" + owner.Name
	}
	return s.Namespace + "/" + s.Spec.ScanType + "/" + strings.Join(s.Spec.Parameters, "\x00")
}

// Latest are the newest runs with findings, one of each series, in the order given: the newest first.
func Latest(newestFirst []*executionv1.Scan) []*executionv1.Scan {
	seen := map[string]bool{}
	var out []*executionv1.Scan
	for _, s := range newestFirst {
		if s.Status.State != executionv1.ScanStateDone || seen[Series(s)] {
			continue
		}
		seen[Series(s)] = true
		out = append(out, s)
	}
	return out
}

// Target is what a Scan looks at, as far as it says so.
func Target(s *executionv1.Scan) string {
	if target := s.Labels[executionv1.LabelTarget]; target != "" {
		return target
	}
	for _, p := range slices.Backward(s.Spec.Parameters) {
		if p != "" && !strings.HasPrefix(p, "-") {
			return p
		}
	}
	return s.Name
}

// Phase is a phase of a Scan, or one hook.
type Phase struct {
	Name string
	// Class is the class of colour: good, bad, run, wait, off.
	Class string
	Word  string
	// Began and Ended are zero where that is not known.
	Began, Ended time.Time
	Says         string
	Job          string
	// Rerun is what the annotation scanyard.io/rerun calls the phase.
	Rerun string
}

// Duration is how long a phase took, or takes until now.
func (p Phase) Duration(now time.Time) time.Duration {
	switch {
	case p.Began.IsZero():
		return 0
	case p.Ended.IsZero():
		return max(0, now.Sub(p.Began))
	}
	return max(0, p.Ended.Sub(p.Began))
}

// Phases are scanner, parser and each hook, with the times of their Jobs.
func Phases(s *executionv1.Scan, jobs []batchv1.Job) []Phase {
	began := time.Time{}
	if s.Status.StartedAt != nil {
		began = s.Status.StartedAt.Time
	}
	scanner := phaseOf(s, "scanner", executionv1.ConditionScanned, began, newest(jobs, executionv1.JobTypeScanner))
	parser := phaseOf(s, "parser", executionv1.ConditionParsed, scanner.Ended, newest(jobs, executionv1.JobTypeParser))
	out := []Phase{scanner, parser}
	for _, group := range s.Status.OrderedHookStatuses {
		for i := range group {
			out = append(out, hookOf(&group[i], jobs))
		}
	}
	return out
}

func phaseOf(s *executionv1.Scan, name, condition string, began time.Time, job *batchv1.Job) Phase {
	p := Phase{Name: name, Rerun: name, Class: "off", Word: "not yet"}
	c := meta.FindStatusCondition(s.Status.Conditions, condition)
	switch {
	case c == nil && s.Status.State == executionv1.ScanStateDone:
		p.Class, p.Word = "good", "done"
	case c == nil && s.Settled():
		p.Word = "never ran"
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		p.Class, p.Word, p.Began, p.Ended = "good", "done", began, c.LastTransitionTime.Time
	case c.Status == metav1.ConditionFalse:
		p.Class, p.Word, p.Says, p.Began, p.Ended = "bad", "failed", c.Message, began, c.LastTransitionTime.Time
	case c.Reason == executionv1.ReasonRunning:
		p.Class, p.Word, p.Began = "run", "running", began
	default:
		p.Class, p.Word, p.Says, p.Began = "wait", "waiting", c.Message, began
	}
	return p.with(job)
}

func (p Phase) with(job *batchv1.Job) Phase {
	if job == nil {
		return p
	}
	p.Job, p.Began, p.Ended = job.Name, job.CreationTimestamp.Time, time.Time{}
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			p.Ended = c.LastTransitionTime.Time
		}
	}
	return p
}

var hookWords = map[executionv1.HookState][2]string{
	executionv1.HookStatePending: {"off", "not yet"}, executionv1.HookStateInProgress: {"run", "running"}, executionv1.HookStateCompleted: {"good", "done"},
	executionv1.HookStateCancelled: {"off", "never ran"}, executionv1.HookStateFailed: {"bad", "failed"},
}

func hookOf(h *executionv1.HookStatus, jobs []batchv1.Job) Phase {
	words := hookWords[h.State]
	p := Phase{Name: h.HookName, Rerun: "hook/" + h.HookName, Class: words[0], Word: words[1], Says: h.Message, Job: h.JobName}
	for i := range jobs {
		if jobs[i].Name == h.JobName {
			return p.with(&jobs[i])
		}
	}
	return p
}

func newest(jobs []batchv1.Job, kind string) *batchv1.Job {
	var out *batchv1.Job
	for i := range jobs {
		if jobs[i].Labels[executionv1.LabelJobType] == kind && (out == nil || out.CreationTimestamp.Before(&jobs[i].CreationTimestamp)) {
			out = &jobs[i]
		}
	}
	return out
}
