// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// The values of the annotation scanyard.io/rerun.
const (
	rerunScanner = "scanner"
	rerunParser  = "parser"
	rerunHooks   = "hooks"
	rerunOneHook = "hook/"
	rerunLinks   = "links"
)

// asksRerun reports whether the annotation is set and was not answered yet.
func asksRerun(s *executionv1.Scan) bool {
	asked := s.Annotations[executionv1.AnnotationRerun]
	return asked != "" && asked != s.Status.LastRerun
}

func wantsRerun(o *Observation) bool { return IsSettled(o) && asksRerun(o.Scan) }

// asked returns the value of the annotation without the part that only makes the value new.
func asked(s *executionv1.Scan) string {
	what, _, _ := strings.Cut(s.Annotations[executionv1.AnnotationRerun], "@")
	return what
}

// needsStored reports whether the answer depends on stored files.
func needsStored(s *executionv1.Scan) bool {
	what := asked(s)
	return asksRerun(s) && (what == rerunParser || what == rerunLinks)
}

// rerun answers the annotation of an ended Scan: it opens the Scan again at the requested
// phase, or refuses with a reason.
func rerun(o *Observation, d *Decision) {
	s := NewStatus(o)
	if !asksRerun(&executionv1.Scan{ObjectMeta: o.Scan.ObjectMeta, Status: *s.ScanStatus}) {
		d.Status = s.result() // a Job shows that it was acted upon; the record had been lost
		d.RequeueAfter, _ = untilExpiry(o)
		return
	}
	what := asked(o.Scan)
	var again []*executionv1.HookStatus
	refusal := refusedRelease(o, what)
	if refusal == "" {
		again, refusal = s.hooksAgain(what)
	}
	if refusal == "" {
		refusal = refusedRerun(o, what)
	}
	if refusal == "" && what != rerunLinks {
		waiting, why := d.awaitUnended(o, s)
		if waiting {
			return
		}
		refusal = why
	}
	s.LastRerun = o.Scan.Annotations[executionv1.AnnotationRerun]
	switch {
	case refusal != "":
		d.refuseRerun(o, s, refusal)
		d.RequeueAfter, _ = untilExpiry(o)
	case what == rerunLinks:
		d.writeLinks(o, s)
		d.RequeueAfter, _ = untilExpiry(o)
	default:
		s.reopen(o, what, again, max(highestAttempt(o), releasedRun(o.Scan))+1)
		d.ForgetReleased = HasReleaseAnnotation(o.Scan)
		d.FreshLinks = o.Settings.StatusLinks
		d.RequeueAfter = ConflictRetry
	}
	d.Status = s.result()
}

// refusedRerun returns why an ended Scan cannot do the requested re-run; "": it can.
func refusedRerun(o *Observation, what string) string {
	switch {
	case what == rerunLinks && !o.Settings.StatusLinks:
		return linksAreOff
	case what == rerunLinks && !o.StoredRaw && !o.StoredFindings:
		return "nothing is stored of this Scan, so there is nothing to link to"
	case what == rerunLinks:
		return ""
	case isExpired(o):
		return "spec.ttlSecondsAfterFinished has passed and the Scan is about to be deleted; create another one"
	case o.Scan.Cancelled():
		return "spec.cancel is true; set it to false first"
	case what == rerunParser && !o.StoredRaw:
		return fmt.Sprintf("storage has no raw result of this Scan (%s); run the scanner again", orNone(o.Scan.Status.RawResultFile))
	default:
		return ""
	}
}

// linksAreOff tells the user who can switch links on.
const linksAreOff = "download links are switched off; who runs the operator can switch them on with --status-links, " +
	"and who may write ScanSettings with spec.storage.linksInStatus"

// awaitUnended waits until no Job of an earlier run is left: an old pod could overwrite
// the files of a new one. It returns why it stops waiting.
func (d *Decision) awaitUnended(o *Observation, s *Status) (waiting bool, refusal string) {
	left := time.Duration(-1)
	var blocking string
	for _, j := range o.Jobs {
		if j.Outcome != Running {
			continue
		}
		own := o.Settings.CleanupDeadline
		if !j.Deleted.IsZero() {
			own = j.Deleted.Add(own).Sub(o.Now)
		}
		if left < 0 || own < left {
			left, blocking = max(own, 0), j.Name
		}
	}
	switch {
	case left < 0:
		return false, ""
	case left == 0:
		return false, fmt.Sprintf("the pods of Job %s do not end; look at them, then ask again", blocking)
	}
	d.deleteUnended(o)
	s.set(o, executionv1.ConditionRerun, metav1.ConditionUnknown, Cause{
		executionv1.ReasonRerunWaits, fmt.Sprintf("The pods of Job %s have to end first.", blocking),
	})
	d.Status = s.result()
	d.RequeueAfter = left
	return true, ""
}

// refuseRerun answers that the re-run is refused. The Scan does not change.
func (d *Decision) refuseRerun(o *Observation, s *Status, why string) {
	t := Cause{executionv1.ReasonRerunRefused, fmt.Sprintf("Annotation %s is %q: %s", executionv1.AnnotationRerun, s.LastRerun, why)}
	s.set(o, executionv1.ConditionRerun, metav1.ConditionFalse, t)
	d.AnswerEvent = &Event{t.Reason, t.Message}
}

// writeLinks replaces the links of the status.
func (d *Decision) writeLinks(o *Observation, s *Status) {
	d.FreshLinks = true
	s.set(o, executionv1.ConditionRerun, metav1.ConditionTrue, Cause{executionv1.ReasonLinksWritten, "The status has fresh links, good for seven days."})
}

// reopen sets an ended Scan back to the phase that runs again. Stored files stay until
// they are overwritten.
func (s *Status) reopen(o *Observation, what string, again []*executionv1.HookStatus, run int) {
	s.FinishedAt, s.ErrorDescription, s.ContainerFailure = nil, "", nil
	s.forget(executionv1.ConditionCancelled)
	s.forget(executionv1.ConditionHooksCompleted)
	s.forget(executionv1.ConditionRerun) // so that its transition time says since when it runs
	t := Cause{executionv1.ReasonRerunStarted, fmt.Sprintf("The %s again (run %d).", whatRuns(what, len(again)), run)}
	if what == rerunScanner || what == rerunParser {
		s.OrderedHookStatuses, s.ReadAndWriteHookStatus = nil, nil
		s.Findings, s.StoredFindings = executionv1.FindingStats{}, nil
		s.forget(executionv1.ConditionTargetReached)
		s.forget(executionv1.ConditionCascadingRulesMatched)
		s.forget(executionv1.ConditionParsed)
		if s.Attempts == nil {
			s.Attempts = &executionv1.PhaseAttempts{}
		}
	}
	switch what {
	case rerunScanner:
		s.State, s.Attempts.Scanner, s.Attempts.Parser, s.StartedAt = executionv1.ScanStateNew, run, run, nil
		s.forget(executionv1.ConditionScanned)
		s.forget(executionv1.ConditionAdmitted)
		s.wait(o, executionv1.ConditionScanned, t)
	case rerunParser:
		s.State, s.Attempts.Parser = executionv1.ScanStateScanCompleted, run
		s.scanned(o)
		s.wait(o, executionv1.ConditionParsed, t)
	default:
		for _, h := range again {
			h.Attempt, h.State, h.JobName, h.Message = run, executionv1.HookStatePending, "", ""
		}
		// If the Scan fails again, its failure hooks run again.
		s.OrderedHookStatuses = slices.DeleteFunc(s.OrderedHookStatuses, func(g []executionv1.HookStatus) bool { return g[0].AfterFailure })
		s.State = executionv1.ScanStateHookProcessing
		s.wait(o, executionv1.ConditionHooksCompleted, t)
	}
	s.forget(executionv1.ConditionResultsStored)
	s.set(o, executionv1.ConditionRerun, metav1.ConditionTrue, t)
}

func whatRuns(what string, hooks int) string {
	switch {
	case what == rerunScanner:
		return "scanner, the parser and the hooks run"
	case what == rerunParser:
		return "parser, over the stored raw result, and the hooks run"
	case hooks == 1:
		return "hook runs"
	default:
		return fmt.Sprintf("%d hooks run", hooks)
	}
}

// hooksAgain returns the hooks that an annotation names, or why none can run.
func (s *Status) hooksAgain(what string) (again []*executionv1.HookStatus, refusal string) {
	name, one := strings.CutPrefix(what, rerunOneHook)
	switch {
	case what == rerunScanner, what == rerunParser, what == rerunLinks:
		return nil, ""
	case !one && what != rerunHooks:
		return nil, `ask for "scanner", "parser", "hooks", "hook/NAME" or "links", and add "@" with anything behind it to ask a second time`
	}
	if c := s.condition(executionv1.ConditionParsed); c == nil || c.Status != metav1.ConditionTrue {
		return nil, "the Scan ended before its findings were stored, so no hook can run over them; run the scanner or the parser again"
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

// answerEarly answers the annotation of a Scan that has not ended. Only links can be
// replaced then. If the status was just replaced by another client, the next pass answers,
// since only it sees whether the re-run has begun.
func (d *Decision) answerEarly(o *Observation) {
	if d.Status == nil || isKeptFromStorage(o) || IsDeleted(o) || o.Scan.Settled() || FindCondition(o.Scan.Status.Conditions, executionv1.ConditionReady) == nil {
		return
	}
	value := o.Scan.Annotations[executionv1.AnnotationRerun]
	if value == "" || value == d.Status.LastRerun {
		return
	}
	s := &Status{d.Status}
	s.LastRerun = value
	switch {
	case asked(o.Scan) != rerunLinks:
		d.refuseRerun(o, s, fmt.Sprintf("the Scan has not ended (%s); ask when it has", stateName(o.Scan.Status.State)))
	case !o.Settings.StatusLinks:
		d.refuseRerun(o, s, linksAreOff)
	default:
		d.writeLinks(o, s)
	}
	d.Status = s.result()
}

func stateName(state executionv1.ScanState) string {
	if state == executionv1.ScanStateNew {
		return "New"
	}
	return string(state)
}
