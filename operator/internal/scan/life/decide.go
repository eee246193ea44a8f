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
	"github.com/scanyard/scanyard/apis/handover"
	apioutcome "github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// transition is a row of the life of a Scan.
type transition struct {
	name string
	// needs are what has to be read before the row is taken, in this order.
	needs []Need
	when  func(*Observation) bool
	then  func(*Observation, *Decision)
}

// needs that several rows have. A failing Scan needs the hooks that run on failures.
var (
	none    []Need
	toRun   = []Need{NeedResult}
	toFail  = []Need{NeedResult, NeedHooks}
	toParse = []Need{NeedResult, NeedHooks, NeedDefinition}
	toHook  = []Need{NeedHookJobs, NeedHooks, NeedResult, NeedDefinition}
	toRerun = []Need{NeedHooks, NeedHookJobs, NeedStored}
	again   = append([]Need{NeedWhole}, toRerun...)
	toGo    = []Need{NeedWhole}
	toStart = []Need{NeedScanner, NeedHooks, NeedScanType}
)

// transitions is the whole life of a Scan, most final first. The first row that applies is taken.
var transitions = []transition{
	{"StorageUnavailable", none, isKeptFromStorage, awaitStorage},
	{"HeldBack", toGo, isHeld(IsDeleted), hold},
	{"Deleted", toGo, IsDeleted, cleanUp},
	{"CancelledLeftOver", none, hasLeftOver, deleteLeftOver},
	{"CancelFailureHooks", []Need{NeedCanceller}, wantsHooksCancelled, cancelFailureHooks},
	{"AfterFailure", toRerun, HasFailureHooks, runFailureHooks},
	{"CancelTooLate", []Need{NeedCanceller}, isLateCancel, refuseCancel},
	{"Rerun", again, wantsRerun, rerun},
	{"Releasing", toGo, isReleasing, releaseResults},
	{"HeldBeyondTTL", toGo, isHeld(isExpired), hold},
	{"Expired", none, isExpired, deleteScan},
	{"Settled", none, IsSettled, keepSettled},
	{"FinalizerMissing", none, LacksFinalizer, addFinalizer},
	{"Cancel", []Need{NeedCanceller}, WantsCancel, cancelScan},
	{"Suspended", none, IsSuspended, suspend},
	{"InvalidSpec", []Need{NeedHooks}, isInvalid, rejectSpec},

	{"Hooks", toHook, hasReached(phaseParsed), runHooks},

	{"ParserFailed", toFail, jobIs(ParserRole, Failed), parserFailed},
	{"ParserOverdue", toFail, jobOverdue(ParserRole), stopOverdue(ParserRole)},
	{"ParserRuns", toRun, jobIs(ParserRole, Running), parserRuns},
	{"ParserWords", none, parserReports(ReportAwaited), awaitParserReport},
	{"ParserToldNothing", toFail, parserReports(ReportInvalid), rejectParserReport},
	{"Parsed", toHook, parserDone, runHooks},
	{"ParserLost", append([]Need{NeedParser}, toFail...), isParserLost, jobLost(ParserRole)},

	{"ScannerFailed", append([]Need{NeedRawResult}, toFail...), scannerHasFailed, scannerFailed},
	{"ScannerOverdue", toFail, jobOverdue(ScannerRole), stopOverdue(ScannerRole)},
	{"ScannerRuns", toRun, jobIs(ScannerRole, Running), scannerRuns},
	{"ScannedButNoParser", toFail, scannerDoneAnd(isMissing), awaitParser},
	{"ParserNotAllowed", toParse, scannerDoneAnd(isParserForbidden), rejectParser},
	{"Scanned", toParse, scannerDoneAnd(not(isMissing)), startParser},
	{"ScannerLost", append([]Need{NeedResult, NeedScanner}, toFail...), hasReached(PhaseScanning), jobLost(ScannerRole)},

	{"NoScanType", toFail, isMissing, awaitScanType},
	{"InvalidScanType", toFail, hasInvalidScanType, rejectScanType},
	{"Queued", toStart, mustWait, WaitForTurn},
	{"NotAllowed", toStart, isScannerForbidden, rejectScanner},
	{"Start", toStart, always, startScanner},
}

// Decide returns what to do after an observation. It is a pure function.
func Decide(o *Observation) Decision {
	for _, s := range transitions {
		if !s.when(o) {
			continue
		}
		d := Decision{Step: s.name}
		s.then(o, &d)
		d.answerEarly(o)
		return d
	}
	return Decision{Step: "None"}
}

func always(*Observation) bool { return true }

func not(f func(*Observation) bool) func(*Observation) bool {
	return func(o *Observation) bool { return !f(o) }
}

// IsDeleted holds for a Scan that has a deletion timestamp, and finalizers.
func IsDeleted(o *Observation) bool { return !o.Scan.DeletionTimestamp.IsZero() }

// IsSettled holds for a Scan that is Done or Errored.
func IsSettled(o *Observation) bool { return o.Scan.Settled() }

// LacksFinalizer holds if the Scan lacks the finalizer that removes its results from storage.
func LacksFinalizer(o *Observation) bool {
	return !slices.Contains(o.Scan.Finalizers, executionv1.FinalizerStorage)
}

// HasAnyFinalizer holds if the Scan has our finalizer or that of secureCodeBox.
func HasAnyFinalizer(o *Observation) bool {
	return !LacksFinalizer(o) || slices.Contains(o.Scan.Finalizers, executionv1.FinalizerStorageLegacy)
}

// hasFinalizer holds if the Scan has a finalizer that the operator removes.
func hasFinalizer(o *Observation) bool { return HasAnyFinalizer(o) || hasDelivery(o) }

// IsSuspended holds if spec.suspend is true: nothing further is started.
func IsSuspended(o *Observation) bool { return o.Scan.Spec.Suspend != nil && *o.Scan.Spec.Suspend }

func isMissing(o *Observation) bool { return o.Missing != "" }

func hasReached(p Phase) func(*Observation) bool {
	return func(o *Observation) bool { return PhaseOf(o.Scan, o.Jobs) >= p }
}

func jobIs(r Role, want Outcome) func(*Observation) bool {
	return func(o *Observation) bool {
		j, ok := o.JobOf(r)
		return ok && j.Outcome == want
	}
}

func jobOverdue(r Role) func(*Observation) bool {
	return func(o *Observation) bool {
		j, ok := o.JobOf(r)
		if !ok || j.Outcome != Running {
			return false
		}
		why, _ := o.overdue(j)
		return why != ""
	}
}

// parserDone holds if the findings are stored: the parser's Job is complete, or the Job
// is gone and the findings are in storage.
func parserDone(o *Observation) bool {
	j, ok := o.JobOf(ParserRole)
	return ok && j.Outcome == Complete || !ok && PhaseOf(o.Scan, o.Jobs) == PhaseParsing && o.HasFindings
}

// isParserLost holds if the Scan has a parser whose Job is gone.
func isParserLost(o *Observation) bool {
	return PhaseOf(o.Scan, o.Jobs) >= PhaseParsing && !hasFusedJob(o)
}

// scannerDoneAnd holds if the raw result is stored, no parser has been started and a
// further condition holds.
func scannerDoneAnd(also func(*Observation) bool) func(*Observation) bool {
	return func(o *Observation) bool {
		j, ok := o.JobOf(ScannerRole)
		done := ok && (j.Outcome == Complete || j.Outcome == Failed && !scannerHasFailed(o)) || !ok && (o.HasRawResult || PhaseOf(o.Scan, o.Jobs) == PhaseScanned)
		return done && also(o)
	}
}

// isInvalid holds for a Scan whose spec can never run.
func isInvalid(o *Observation) bool { return invalidSpec(o) != "" }

// invalidSpec returns what is wrong with the spec of a Scan; "" if it is valid.
func invalidSpec(o *Observation) string {
	if o.Scan.Spec.ScanType == "" {
		return "spec.scanType is empty: name the ScanType to run"
	}
	if selector := o.Scan.Spec.HookSelector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			return "spec.hookSelector: " + err.Error()
		}
	}
	return cmp.Or(jobs.TakesLurkersVolume(&o.Scan.Spec), jobs.TakesToken(&o.Scan.Spec), tooLarge(o.Scan))
}

func hasInvalidScanType(o *Observation) bool { return invalidScanType(o) != "" }

// invalidScanType returns what is wrong with the ScanType; "" if it is valid. The CRD
// refuses invalid ScanTypes, but older ones may be stored.
func invalidScanType(o *Observation) string {
	if o.ScanType == nil {
		return ""
	}
	x := o.ScanType.ExtractResults
	switch {
	case len(o.ScanType.JobTemplate.Spec.Template.Spec.Containers) == 0:
		return "spec.jobTemplate.spec.template.spec.containers is empty: a ScanType needs a scanner container"
	case x.Type == "":
		return "spec.extractResults.type is empty: name the ParseDefinition that reads the result"
	case !strings.HasPrefix(x.Location, executionv1.ResultsDir) || strings.HasSuffix(x.Location, "/"):
		return fmt.Sprintf(
			"spec.extractResults.location %q is not a file below %s, the only folder that is shared with the lurker",
			x.Location, executionv1.ResultsDir,
		)
	case names.CheckFile(jobs.ResultOf(o.ScanType).File) != nil:
		return fmt.Sprintf("spec.extractResults.location %q does not end in a file name that results can be stored under", x.Location)
	case slices.Contains([]string{apioutcome.CategoriesFile, handover.ExceptionsFile}, jobs.ResultOf(o.ScanType).File):
		return "spec.extractResults.location ends in " + jobs.ResultOf(o.ScanType).File + ", which is a name of the operator's own in storage"
	case jobs.ResultOf(o.ScanType).File == executionv1.FindingsFile:
		return "spec.extractResults.location ends in findings.json, which is the name of the findings in storage"
	case jobs.ResultOf(o.ScanType).File == executionv1.ScannerLogFile:
		return "spec.extractResults.location ends in scanyard-scanner.log, which is the name of the scanner's log in storage"
	}
	return ""
}

// --- rows: before the first Job ---

func addFinalizer(_ *Observation, d *Decision) { d.AddFinalizer = true }

// suspend keeps the Scan in its state. Only the Ready condition changes, so that the
// conditions of the phases keep the time at which a wait began.
func suspend(o *Observation, d *Decision) {
	s := NewStatus(o)
	s.leaveQueue()
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown,
		Cause{executionv1.ReasonSuspended, "spec.suspend is true: nothing further is started until it is false."})
	d.Status = s.result()
}

func rejectSpec(o *Observation, d *Decision) {
	d.fail(o, NewStatus(o), executionv1.ConditionScanned, Cause{executionv1.ReasonInvalidSpec, invalidSpec(o)})
}

func rejectScanType(o *Observation, d *Decision) {
	d.fail(o, NewStatus(o), executionv1.ConditionScanned, Cause{
		executionv1.ReasonInvalidScanType,
		fmt.Sprintf("ScanType %q: %s", o.Scan.Spec.ScanType, invalidScanType(o)),
	})
}

func awaitScanType(o *Observation, d *Decision) {
	d.await(o, NewStatus(o), executionv1.ConditionScanned, Cause{executionv1.ReasonScanTypeNotFound, o.Missing}, o.Settings.MissingKindGrace)
}

// await waits for an object whose watch brings the Scan back, for no longer than grace.
func (d *Decision) await(o *Observation, s *Status, phase string, t Cause, grace time.Duration) {
	left := grace
	if c := FindCondition(o.Scan.Status.Conditions, phase); c != nil && c.Reason == t.Reason {
		left = c.LastTransitionTime.Add(grace).Sub(o.Now)
	} else {
		s.forget(phase) // so that its transition time is the begin of this wait
	}
	if left <= 0 {
		d.fail(o, s, phase, t)
		return
	}
	s.wait(o, phase, t)
	d.warn(o, metav1.ConditionUnknown, t)
	d.Status = s.result()
	d.RequeueAfter = left
}
