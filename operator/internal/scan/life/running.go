// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// --- rows: scanner ---

func startScanner(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateScanning)
	result := jobs.ResultOf(o.ScanType)
	s.RawResultFile, s.RawResultType = result.File, result.Type
	s.StartedAt = &metav1.Time{Time: o.Now}
	s.Admitted(o)
	s.wait(o, executionv1.ConditionScanned, Cause{executionv1.ReasonRunning, "The scanner is running."})
	l := s.requestOf(o, ScannerRole, o.Attempts().For(ScannerRole))
	l.Hooks = hookNames(hooksFor(o.Hooks, executionv1.RunOnSuccess))
	d.Create = []JobRequest{l}
	d.ForgetReleased = HasReleaseAnnotation(o.Scan) // of a Scan that this one was copied from
	d.Links = o.Settings.StatusLinks
	d.Status = s.result()
	d.RequeueAfter = LookForPods
}

func scannerRuns(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateScanning)
	d.watchJob(o, s, ScannerRole, executionv1.ConditionScanned, "The scanner is running.")
}

func scannerFailed(o *Observation, d *Decision) {
	s := NewStatus(o)
	j, _ := o.JobOf(ScannerRole)
	s.containerFailed(j)
	d.fail(o, s, executionv1.ConditionScanned, Cause{executionv1.ReasonScannerFailed, failure(o, j, "scanner", executionv1.ConditionScanned)})
}

// --- rows: parser ---

func awaitParser(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateScanCompleted)
	s.scanned(o)
	d.await(o, s, executionv1.ConditionParsed, Cause{executionv1.ReasonParseDefinitionNotFound, o.Missing}, o.Settings.MissingKindGrace)
}

func startParser(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateParsing)
	s.scanned(o)
	s.wait(o, executionv1.ConditionParsed, Cause{executionv1.ReasonRunning, "The parser is running."})
	l := s.requestOf(o, ParserRole, o.Attempts().For(ParserRole))
	l.Hooks = hookNames(hooksFor(o.Hooks, executionv1.RunOnSuccess))
	d.Create = []JobRequest{l}
	d.Links = o.Settings.StatusLinks
	d.Status = s.result()
	d.RequeueAfter = LookForPods
}

func parserRuns(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.advance(executionv1.ScanStateParsing)
	s.scanned(o)
	d.watchJob(o, s, ParserRole, executionv1.ConditionParsed, "The parser is running.")
}

func parserFailed(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.scanned(o)
	j, _ := o.JobOf(ParserRole)
	s.containerFailed(j)
	d.fail(o, s, executionv1.ConditionParsed, Cause{executionv1.ReasonParserFailed, failure(o, j, "parser", executionv1.ConditionParsed)})
}

// --- rows: both ---

// LookForPods is the time after which a Job without a pod is checked again. No watch shows
// that pods are refused, for instance by a quota; the Job controller only writes an Event.
const LookForPods = 3 * time.Second

// untilNextLook returns the time until a Job without a pod is checked again; it grows with
// the age of the Job.
func untilNextLook(o *Observation, j Job) time.Duration {
	if o.Now.Sub(j.Created) > time.Minute {
		return 10 * LookForPods
	}
	return LookForPods
}

// watchJob writes the state of a running Job into the status and waits for the Job.
func (d *Decision) watchJob(o *Observation, s *Status, r Role, phase, message string) {
	j, _ := o.JobOf(r)
	s.containerFailed(j)
	t := Cause{executionv1.ReasonRunning, message}
	switch last := FindCondition(o.Scan.Status.Conditions, phase); {
	case j.FailedPods == 0:
	case j.PodGone && last != nil && last.Status == metav1.ConditionUnknown && last.Reason == executionv1.ReasonContainerFailing:
		// The Job controller has removed the pod and its failure with it. The condition keeps the failure until the
		// next pod exists or the Job has failed.
		t = Cause{last.Reason, last.Message}
	default:
		t.Message += " " + j.failedTries()
	}
	switch {
	case j.Trouble != nil:
		t = *j.Trouble
		d.warn(o, metav1.ConditionUnknown, t)
	case j.Suspended:
		t = jobSuspended(j.Name)
	}
	s.wait(o, phase, t)
	d.Links = o.Settings.StatusLinks
	d.Status = s.result()
	_, d.RequeueAfter = o.overdue(j)
	if left, ended := untilParserShows(o, j); ended && r == ScannerRole {
		d.RequeueAfter = min(d.RequeueAfter, left)
	}
	if j.NoPod && !j.Suspended {
		d.RequeueAfter = min(d.RequeueAfter, untilNextLook(o, j))
	}
}

// jobSuspended writes into the status that another client has suspended the Job.
func jobSuspended(name string) Cause {
	return Cause{executionv1.ReasonJobSuspended, fmt.Sprintf("Job %s is suspended; whoever queues Jobs, such as Kueue, lets it go on.", name)}
}

// stopOverdue ends a Job that has passed its deadline, and the Scan with it.
func stopOverdue(r Role) func(*Observation, *Decision) {
	return func(o *Observation, d *Decision) {
		s := NewStatus(o)
		phase, name := executionv1.ConditionScanned, "scanner"
		if r == ParserRole {
			s.scanned(o)
			phase, name = executionv1.ConditionParsed, "parser"
		}
		j, _ := o.JobOf(r)
		d.Stop = []Job{j}
		d.fail(o, s, phase, overdue(o, j, name))
	}
}

// overdue returns that a Job has passed its deadline, and why its pods did not start.
func overdue(o *Observation, j Job, name string) Cause {
	why, _ := o.overdue(j)
	message := fmt.Sprintf("The %s (Job %s) %s", name, j.Name, why)
	if j.Trouble != nil {
		message += ": " + j.Trouble.Message
	}
	return Cause{executionv1.ReasonDeadlineExceeded, message}
}

// jobLost ends a Scan whose Job was deleted before its outcome was observed.
func jobLost(r Role) func(*Observation, *Decision) {
	return func(o *Observation, d *Decision) {
		s := NewStatus(o)
		phase, name, file := executionv1.ConditionScanned, "scanner", s.RawResultFile
		if r == ParserRole {
			s.scanned(o)
			phase, name, file = executionv1.ConditionParsed, "parser", executionv1.FindingsFile
		}
		d.fail(o, s, phase, Cause{
			executionv1.ReasonJobLost,
			fmt.Sprintf(
				"The %s Job was removed before its outcome was seen, and storage has no %s. Was it deleted by hand, or is ttlSecondsAfterFinished very short?",
				name, file,
			),
		})
	}
}

// failure returns why a Job failed. If its pods are gone, the last message of the phase's
// condition is used.
func failure(o *Observation, j Job, name, phase string) string {
	message := fmt.Sprintf("The %s failed (Job %s): %s", name, j.Name, j.Failure)
	c := FindCondition(o.Scan.Status.Conditions, phase)
	if j.Fused && phase == executionv1.ConditionScanned && meta.IsStatusConditionTrue(o.Scan.Status.Conditions, phase) {
		c = FindCondition(o.Scan.Status.Conditions, executionv1.ConditionParsed) // the lurker failed when the Scan had gone on
	}
	if c == nil || c.Status != metav1.ConditionUnknown || !troubleReasons[c.Reason] {
		return message
	}
	if !j.Explained {
		message += "; before that: " + c.Message
	}
	return message
}
