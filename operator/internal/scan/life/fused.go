// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// A fused Job runs scanner and parser in one pod. The rows know Jobs of one phase only, so such a Job is observed as two: that of
// the scanner, and, when the scanner has ended, that of the parser. Where the parser has told no outcome, for whatever reason,
// there is no second one: the parser then gets a Job of its own, as if the phases were separate.

// QuickParser is how long a parser in the scanner's pod may take before the Scan shows that it runs: nobody could see a shorter
// time, and the status is written once less.
const QuickParser = time.Second

// ScannerEnded returns when the scanner in a fused pod has ended with 0; the zero time for others, and where the lurker has failed: it
// does so where the scanner has left no result, and then the parser does not begin.
func ScannerEnded(p *corev1.Pod) time.Time {
	var ended time.Time
	if !executionv1.IsFusedPod(p) {
		return ended
	}
	for _, s := range p.Status.ContainerStatuses {
		t := s.State.Terminated
		switch {
		case s.Name == executionv1.ContainerLurker && lastFailure(p, s) != nil:
			return time.Time{}
		case s.Name == p.Spec.Containers[0].Name && t != nil && t.ExitCode == 0:
			ended = t.FinishedAt.Time
		}
	}
	return ended
}

// ActivePart returns what a pod shows of the phase that it is in. In a fused pod the parser is nothing but waiting while the
// scanner works, and what becomes of the scanner is settled when it has ended.
func ActivePart(p *corev1.Pod) *corev1.Pod {
	if !executionv1.IsFusedPod(p) {
		return p
	}
	part, ended := *p, ScannerEnded(p)
	leave := executionv1.ContainerParser
	if !ended.IsZero() {
		leave = p.Spec.Containers[0].Name
		part.CreationTimestamp.Time = ended // from now on the parser has its time to start
		part.Spec.InitContainers, part.Status.InitContainerStatuses = nil, nil
	}
	part.Spec.Containers = slices.DeleteFunc(slices.Clone(p.Spec.Containers), func(c corev1.Container) bool { return c.Name == leave })
	part.Status.ContainerStatuses = slices.DeleteFunc(slices.Clone(p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool { return s.Name == leave })
	return &part
}

// Views returns a Job as the rows know Jobs: one for each phase that it has begun.
func Views(j Job, scan *executionv1.Scan, now time.Time) []Job {
	if !j.Fused || j.Outcome == Failed {
		return []Job{j} // where the raw result is stored, the parser gets a Job
	}
	scanner, parser := j, j
	parser.Role = ParserRole
	scanner.Report = Report{}
	switch {
	case j.Outcome == Complete && (j.Report.State == ReportInvalid || j.Report.State == ReportGone):
		return []Job{scanner}
	case j.Outcome == Complete:
		if !j.ScannerEnded.IsZero() {
			scanner.Finished, parser.Created, parser.Started = j.ScannerEnded, j.ScannerEnded, j.ScannerEnded
		}
		return []Job{scanner, parser}
	}
	began := j.ScannerEnded
	if shown := phases[scan.Status.State] == PhaseParsing; shown && began.IsZero() {
		// The pod is gone from the cache, or another pod has taken its place. The Scan does not go back.
		began = j.Started
		if c := FindCondition(scan.Status.Conditions, executionv1.ConditionParsed); c != nil {
			began = c.LastTransitionTime.Time
		}
	} else if !shown && now.Sub(began) < QuickParser || began.IsZero() {
		return []Job{j}
	}
	scanner = Job{
		Name: j.Name, Namespace: j.Namespace, Role: ScannerRole, Attempt: j.Attempt, Rerun: j.Rerun, Result: j.Result, Created: j.Created, Started: j.Started,
		Handover: j.Handover, Fused: true, HasTTL: j.HasTTL, Deleted: j.Deleted, Outcome: Complete, Finished: began,
	}
	parser.Created, parser.Started = began, began
	return []Job{scanner, parser}
}

// untilParserShows is the time until a Scan shows that its parser runs in the scanner's pod; false while the scanner runs.
func untilParserShows(o *Observation, j Job) (time.Duration, bool) {
	return max(j.ScannerEnded.Add(QuickParser).Sub(o.Now), time.Millisecond), !j.ScannerEnded.IsZero()
}

// hasFusedJob holds if the current run of the scanner is a Job that runs the parser as well: no parser's Job is lost then.
func hasFusedJob(o *Observation) bool {
	j, ok := o.JobOf(ScannerRole)
	return ok && j.Fused
}

// scannerHasFailed holds if the scanner's Job has failed for the scanner's sake. A fused Job whose raw result is stored has failed
// after the scanner, and the parser gets a Job of its own.
func scannerHasFailed(o *Observation) bool {
	j, ok := o.JobOf(ScannerRole)
	return ok && j.Outcome == Failed && (!j.Fused || !o.HasRawResult)
}
