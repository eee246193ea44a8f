// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

// decision is what act should do. The zero decision does nothing.
type decision struct {
	// step is the name of the row that was taken, for logs and tests.
	step string

	// addFinalizer puts our finalizer in the place of none or of a legacy one.
	addFinalizer bool
	// launch are Jobs to create, after what they need.
	launch []launch
	// stop are Jobs to suspend, so that their pods end.
	stop []job
	// revoke are the Jobs of hooks whose access from another namespace ends.
	revoke []job
	// releaseAccess ends the access of the Scan's parser and hooks.
	releaseAccess bool
	// status is what the status should be; nil leaves it.
	status *executionv1.ScanStatus
	// links asks act to fill in the links that the status lacks.
	links bool
	// freshLinks asks act to write all links anew.
	freshLinks bool
	// notice tells the user by an Event; nil where there is nothing new.
	notice *notice
	// answer tells by an Event what became of an annotation.
	answer *notice

	// told is where the status says that the Scan stands in the queue; nil where it does not.
	told *queue.Standing
	// queued tells by an Event that the Scan waits for its turn; nil where that was told.
	queued *notice

	// deleteJobs are Jobs to delete.
	deleteJobs []job
	// deleteScan deletes the Scan.
	deleteScan bool
	// removeStored removes what the Scan has stored, then its finalizer.
	removeStored bool
	// release removes the finalizer though something may be left behind.
	release bool

	// requeueAfter is when a clock runs out; zero waits for watches only.
	requeueAfter time.Duration
}

// launch is a Job to create.
type launch struct {
	role role
	// hook is set for hook Jobs.
	hook *catalog.Hook
	// hookType is the hook's type when it was selected.
	hookType executionv1.HookType
	// attempt counts the tries of the hook, from 1.
	attempt int
}

// notice is a warning to the user, as an Event on the Scan.
type notice struct{ reason, message string }

// Names of rows that are asked for elsewhere.
const (
	stepStart     = "Start"
	stepFinalizer = "FinalizerMissing"
)

// step is a row of the life of a Scan.
type step struct {
	name string
	when func(*observed) bool
	then func(*observed, *decision)
}

// life is the whole life of a Scan, most final first. The first row that applies is taken.
var life = []step{
	{"Deleted", isDeleted, cleanUp},
	{"CancelledLeftOver", hasLeftOver, deleteLeftOver},
	{"CancelFailureHooks", wantsHooksCancelled, cancelFailureHooks},
	{"AfterFailure", hasFailureHooks, runFailureHooks},
	{"CancelTooLate", isLateCancel, refuseCancel},
	{"Rerun", wantsRerun, rerun},
	{"Expired", isExpired, deleteScan},
	{"Settled", isSettled, keepSettled},
	{stepFinalizer, lacksFinalizer, addFinalizer},
	{"Cancel", wantsCancel, cancelScan},
	{"Suspended", isSuspended, suspend},
	{"InvalidSpec", isInvalid, rejectSpec},

	{"Hooks", hasReached(phaseParsed), runHooks},

	{"ParserFailed", jobIs(parserRole, failed), parserFailed},
	{"ParserOverdue", jobOverdue(parserRole), stopOverdue(parserRole)},
	{"ParserRuns", jobIs(parserRole, running), parserRuns},
	{"Parsed", parserDone, runHooks},
	{"ParserLost", hasReached(phaseParsing), jobLost(parserRole)},

	{"ScannerFailed", jobIs(scannerRole, failed), scannerFailed},
	{"ScannerOverdue", jobOverdue(scannerRole), stopOverdue(scannerRole)},
	{"ScannerRuns", jobIs(scannerRole, running), scannerRuns},
	{"ScannedButNoParser", scannerDoneAnd(isMissing), awaitParser},
	{"Scanned", scannerDoneAnd(not(isMissing)), startParser},
	{"ScannerLost", hasReached(phaseScanning), jobLost(scannerRole)},

	{"NoScanType", isMissing, awaitScanType},
	{"InvalidScanType", hasInvalidScanType, rejectScanType},
	{"Queued", mustWait, waitForTurn},
	{stepStart, always, startScanner},
}

// decide says what to do about what was observed. It is a pure function.
func decide(o *observed) decision {
	for _, s := range life {
		if !s.when(o) {
			continue
		}
		d := decision{step: s.name}
		s.then(o, &d)
		d.answerEarly(o)
		return d
	}
	return decision{step: "None"}
}

func always(*observed) bool { return true }

func not(f func(*observed) bool) func(*observed) bool {
	return func(o *observed) bool { return !f(o) }
}

func isDeleted(o *observed) bool { return !o.scan.DeletionTimestamp.IsZero() }

func isSettled(o *observed) bool { return o.scan.Settled() }

func isExpired(o *observed) bool {
	left, ok := untilExpiry(o)
	return ok && left <= 0
}

// untilExpiry is how long a settled Scan with a TTL is kept. A finish time that some
// client has removed counts as now.
func untilExpiry(o *observed) (time.Duration, bool) {
	ttl, ok := o.ttl()
	if !o.scan.Settled() || !ok {
		return 0, false
	}
	finished := o.now
	if at := o.scan.Status.FinishedAt; at != nil {
		finished = at.Time
	}
	return finished.Add(ttl).Sub(o.now), true
}

func lacksFinalizer(o *observed) bool {
	return !slices.Contains(o.scan.Finalizers, executionv1.FinalizerStorage)
}

func hasAnyFinalizer(o *observed) bool {
	return !lacksFinalizer(o) || slices.Contains(o.scan.Finalizers, executionv1.FinalizerStorageLegacy)
}

func isSuspended(o *observed) bool { return o.scan.Spec.Suspend != nil && *o.scan.Spec.Suspend }

func isMissing(o *observed) bool { return o.missing != nil }

func hasReached(p phase) func(*observed) bool {
	return func(o *observed) bool { return phaseOf(o.scan, o.jobs) >= p }
}

func jobIs(r role, want outcome) func(*observed) bool {
	return func(o *observed) bool {
		j, ok := o.jobOf(r)
		return ok && j.outcome == want
	}
}

func jobOverdue(r role) func(*observed) bool {
	return func(o *observed) bool {
		j, ok := o.jobOf(r)
		if !ok || j.outcome != running {
			return false
		}
		why, _ := o.overdue(j)
		return why != ""
	}
}

// parserDone holds when the findings are stored: the Job says so, or it is gone and
// its result is there.
func parserDone(o *observed) bool {
	j, ok := o.jobOf(parserRole)
	return ok && j.outcome == complete || !ok && phaseOf(o.scan, o.jobs) == phaseParsing && o.hasFindings
}

// scannerDoneAnd holds when the raw result is stored, no parser has been started and
// the condition holds.
func scannerDoneAnd(also func(*observed) bool) func(*observed) bool {
	return func(o *observed) bool {
		j, ok := o.jobOf(scannerRole)
		done := ok && j.outcome == complete || !ok && (o.hasRawResult || phaseOf(o.scan, o.jobs) == phaseScanned)
		return done && also(o)
	}
}

func isInvalid(o *observed) bool { return invalidSpec(o) != "" }

// invalidSpec says what is wrong with a Scan that can never run.
func invalidSpec(o *observed) string {
	if o.scan.Spec.ScanType == "" {
		return "spec.scanType is empty: name the ScanType to run"
	}
	if _, err := catalog.Selector(o.scan); err != nil {
		return err.Error()
	}
	return jobs.TakesLurkersVolume(&o.scan.Spec)
}

func hasInvalidScanType(o *observed) bool { return invalidScanType(o) != "" }

// invalidScanType says what is wrong with a ScanType that can never work. The CRD
// refuses these; ScanTypes that were stored before it did may still have them.
func invalidScanType(o *observed) string {
	if o.scanType == nil {
		return ""
	}
	x := o.scanType.ExtractResults
	switch {
	case len(o.scanType.JobTemplate.Spec.Template.Spec.Containers) == 0:
		return "spec.jobTemplate.spec.template.spec.containers is empty: a ScanType needs a scanner container"
	case x.Type == "":
		return "spec.extractResults.type is empty: name the ParseDefinition that reads the result"
	case !strings.HasPrefix(x.Location, executionv1.ResultsDir) || strings.HasSuffix(x.Location, "/"):
		return fmt.Sprintf("spec.extractResults.location %q is no file below %s, the only folder that is shared with the lurker", x.Location, executionv1.ResultsDir)
	case rawResultFile(o.scanType) == executionv1.FindingsFile:
		return "spec.extractResults.location ends in findings.json, which is the name of the findings in storage"
	}
	return ""
}

// --- rows: the end of a life ---

func cleanUp(o *observed, d *decision) {
	if !hasAnyFinalizer(o) {
		return
	}
	left := o.scan.DeletionTimestamp.Add(o.settings.CleanupDeadline).Sub(o.now)
	for _, j := range o.jobs {
		d.revokeAway(o, j)
		if j.outcome == running || j.namespace != o.scan.Namespace {
			d.deleteJobs = append(d.deleteJobs, j)
		}
	}
	// What still runs may upload: storage is cleaned when it has ended.
	if len(d.deleteJobs) > 0 && left > 0 {
		d.requeueAfter = left
		return
	}
	if left <= 0 {
		d.release = true
	}
	d.removeStored = o.scan.Annotations[executionv1.AnnotationOnDelete] != executionv1.OnDeleteRetain
	if !d.removeStored {
		d.release = true
	}
}

// revokeAway ends the access of a hook that ran in another namespace.
func (d *decision) revokeAway(o *observed, j job) {
	if j.role.hook != "" && j.namespace != o.scan.Namespace {
		d.revoke = append(d.revoke, j)
	}
}

func deleteScan(_ *observed, d *decision) { d.deleteScan = true }

// keepSettled waits for the TTL, and writes again what another client has removed.
func keepSettled(o *observed, d *decision) {
	if left, ok := untilExpiry(o); ok {
		d.requeueAfter = left
	}
	if !needsMending(o.scan) {
		return
	}
	s := newStatus(o)
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: lastEnd(o)}
	}
	if o.scan.Status.State == executionv1.ScanStateDone {
		s.settled(o, metav1.ConditionTrue, executionv1.ReasonCompleted, "The Scan is done.")
	} else {
		message := s.ErrorDescription
		if message == "" {
			message = "The Scan ended with an error."
		}
		s.settled(o, metav1.ConditionFalse, executionv1.ReasonErrored, message)
	}
	d.status = s.result()
}

// needsMending says whether the status of a settled Scan lacks what it has to tell, as
// after a client has replaced it, or holds zero counts.
func needsMending(s *executionv1.Scan) bool {
	return s.Status.FinishedAt == nil || findCondition(s.Status.Conditions, executionv1.ConditionReady) == nil ||
		withoutZeros(s.Status.Findings.FindingSeverities) != s.Status.Findings.FindingSeverities
}

// lastEnd is when the last Job of the Scan ended, to the second; now where none is seen.
func lastEnd(o *observed) time.Time {
	var last time.Time
	for _, j := range o.jobs {
		if j.finished.After(last) {
			last = j.finished
		}
	}
	if last.IsZero() {
		return o.now
	}
	return last
}

// fail ends the Scan. phase is the condition of the phase that ended it.
func (d *decision) fail(o *observed, s *status, phase string, t trouble) {
	s.State = executionv1.ScanStateErrored
	s.ErrorDescription = t.message
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: o.now}
	}
	s.set(o, phase, metav1.ConditionFalse, t)
	s.set(o, executionv1.ConditionReady, metav1.ConditionFalse, t)
	s.addFailureHooks(o)
	d.warn(o, t)
	d.settle(o, s)
}

// done ends the Scan well. ignored says what went wrong and does not count.
func (d *decision) done(o *observed, s *status, ignored []string) {
	t := trouble{executionv1.ReasonCompleted, "The Scan is done."}
	s.State = executionv1.ScanStateDone
	s.ErrorDescription = ""
	if s.FinishedAt == nil {
		s.FinishedAt = &metav1.Time{Time: o.now}
	}
	s.set(o, executionv1.ConditionHooksCompleted, metav1.ConditionTrue, trouble{executionv1.ReasonCompleted, hooksMessage(s.OrderedHookStatuses, ignored)})
	s.set(o, executionv1.ConditionReady, metav1.ConditionTrue, t)
	// No Event: at scale those of Scans that went well are what takes most of the API
	// server's time and the operator's memory. The status tells.
	d.settle(o, s)
}

// settle writes the final status, ends what still runs and what hooks may still reach.
func (d *decision) settle(o *observed, s *status) {
	s.leaveQueue()
	d.status = s.result()
	for _, j := range o.jobs {
		d.revokeAway(o, j)
	}
	d.releaseAccess = !hasOpenFailureHook(s.OrderedHookStatuses)
	if ttl, ok := o.ttl(); ok {
		d.requeueAfter = ttl
	}
}

// warn has an Event sent unless the Ready condition has said so already.
func (d *decision) warn(o *observed, t trouble) {
	c := findCondition(o.scan.Status.Conditions, executionv1.ConditionReady)
	if c != nil && c.Reason == t.reason && c.Message == t.message {
		return
	}
	d.notice = &notice{t.reason, t.message}
}

// decideOutage says on the Scan that object storage cannot be used. Nothing else of
// the status changes; a Scan that has ended or is being deleted needs no telling.
func decideOutage(o *observed, why string) decision {
	d := decision{step: "StorageUnavailable"}
	if isDeleted(o) || isSettled(o) {
		return d
	}
	s := newStatus(o)
	t := trouble{executionv1.ReasonStorageUnavailable, "Object storage cannot be used; the Scan goes on when it can: " + clean(why)}
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown, t)
	d.warn(o, t)
	d.status = s.result()
	return d
}

// --- rows: before the first Job ---

func addFinalizer(_ *observed, d *decision) { d.addFinalizer = true }

// suspend holds the Scan where it is. Only the Ready condition changes, so that the
// conditions of the phases still tell since when something has been waited for.
func suspend(o *observed, d *decision) {
	s := newStatus(o)
	s.leaveQueue()
	s.set(o, executionv1.ConditionReady, metav1.ConditionUnknown,
		trouble{executionv1.ReasonSuspended, "spec.suspend is true: nothing further is started until it is false."})
	d.status = s.result()
}

func rejectSpec(o *observed, d *decision) {
	d.fail(o, newStatus(o), executionv1.ConditionScanned, trouble{executionv1.ReasonInvalidSpec, invalidSpec(o)})
}

func rejectScanType(o *observed, d *decision) {
	d.fail(o, newStatus(o), executionv1.ConditionScanned, trouble{
		executionv1.ReasonInvalidScanType,
		fmt.Sprintf("ScanType %q: %s", o.scan.Spec.ScanType, invalidScanType(o)),
	})
}

func awaitScanType(o *observed, d *decision) {
	d.await(o, newStatus(o), executionv1.ConditionScanned, trouble{executionv1.ReasonScanTypeNotFound, o.missing.Error()}, o.settings.MissingKindGrace)
}

// await waits for something that a watch will show, and for no longer than grace.
func (d *decision) await(o *observed, s *status, phase string, t trouble, grace time.Duration) {
	left := grace
	if c := findCondition(o.scan.Status.Conditions, phase); c != nil && c.Reason == t.reason {
		left = c.LastTransitionTime.Add(grace).Sub(o.now)
	} else {
		s.forget(phase) // so that its transition time says since when this is waited for
	}
	if left <= 0 {
		d.fail(o, s, phase, t)
		return
	}
	s.wait(o, phase, t)
	d.warn(o, t)
	d.status = s.result()
	d.requeueAfter = left
}

// --- rows: scanner ---

func startScanner(o *observed, d *decision) {
	s := newStatus(o)
	s.advance(executionv1.ScanStateScanning)
	s.RawResultType = o.scanType.ExtractResults.Type
	s.RawResultFile = rawResultFile(o.scanType)
	s.StartedAt = &metav1.Time{Time: o.now}
	s.admitted(o)
	s.wait(o, executionv1.ConditionScanned, trouble{executionv1.ReasonRunning, "The scanner is running."})
	d.launch = []launch{{role: scannerRole}}
	d.links = o.settings.StatusLinks
	d.status = s.result()
	d.requeueAfter = lookForPods
}

func scannerRuns(o *observed, d *decision) {
	s := newStatus(o)
	s.advance(executionv1.ScanStateScanning)
	d.watchJob(o, s, scannerRole, executionv1.ConditionScanned, "The scanner is running.")
}

func scannerFailed(o *observed, d *decision) {
	j, _ := o.jobOf(scannerRole)
	d.fail(o, newStatus(o), executionv1.ConditionScanned, trouble{executionv1.ReasonScannerFailed, failure(o, j, "scanner", executionv1.ConditionScanned)})
}

// --- rows: parser ---

func awaitParser(o *observed, d *decision) {
	s := newStatus(o)
	s.advance(executionv1.ScanStateScanCompleted)
	s.scanned(o)
	d.await(o, s, executionv1.ConditionParsed, trouble{executionv1.ReasonParseDefinitionNotFound, o.missing.Error()}, o.settings.MissingKindGrace)
}

func startParser(o *observed, d *decision) {
	s := newStatus(o)
	s.advance(executionv1.ScanStateParsing)
	s.scanned(o)
	s.wait(o, executionv1.ConditionParsed, trouble{executionv1.ReasonRunning, "The parser is running."})
	d.launch = []launch{{role: parserRole}}
	d.links = o.settings.StatusLinks
	d.status = s.result()
	d.requeueAfter = lookForPods
}

func parserRuns(o *observed, d *decision) {
	s := newStatus(o)
	s.advance(executionv1.ScanStateParsing)
	s.scanned(o)
	d.watchJob(o, s, parserRole, executionv1.ConditionParsed, "The parser is running.")
}

func parserFailed(o *observed, d *decision) {
	s := newStatus(o)
	s.scanned(o)
	j, _ := o.jobOf(parserRole)
	d.fail(o, s, executionv1.ConditionParsed, trouble{executionv1.ReasonParserFailed, failure(o, j, "parser", executionv1.ConditionParsed)})
}

// --- rows: both ---

// lookForPods is when a Job that has no pod yet is looked at again. Nothing tells
// when pods are refused, as by a quota; the Job controller only writes an Event.
const lookForPods = 3 * time.Second

// untilNextLook is when a Job without a pod is looked at again: soon at first, now and
// then when it has waited for a while.
func untilNextLook(o *observed, j job) time.Duration {
	if o.now.Sub(j.created) > time.Minute {
		return 10 * lookForPods
	}
	return lookForPods
}

// watchJob shows how a running Job stands and waits for it.
func (d *decision) watchJob(o *observed, s *status, r role, phase, message string) {
	j, _ := o.jobOf(r)
	t := trouble{executionv1.ReasonRunning, message}
	switch last := findCondition(o.scan.Status.Conditions, phase); {
	case j.failedPods == 0:
	case j.podGone && last != nil && last.Status == metav1.ConditionUnknown && last.Reason == executionv1.ReasonContainerFailing:
		// The Job controller has removed the pod, and with it what it ended with: that is said until the next one
		// is there, or the Job has failed.
		t = trouble{last.Reason, last.Message}
	default:
		t.message += fmt.Sprintf(" Tries that failed: %d; the next one follows (Job %s).", j.failedPods, j.name)
	}
	switch {
	case j.trouble != nil:
		t = *j.trouble
		d.warn(o, t)
	case j.suspended:
		t = jobSuspended(j.name)
	}
	s.wait(o, phase, t)
	d.links = o.settings.StatusLinks
	d.status = s.result()
	_, d.requeueAfter = o.overdue(j)
	if j.noPod && !j.suspended {
		d.requeueAfter = min(d.requeueAfter, untilNextLook(o, j))
	}
}

// jobSuspended says that a Job is held back by somebody else.
func jobSuspended(name string) trouble {
	return trouble{executionv1.ReasonJobSuspended, fmt.Sprintf("Job %s is suspended; whoever queues Jobs, such as Kueue, lets it go on.", name)}
}

// stopOverdue ends a Job that has passed its deadline, and the Scan with it.
func stopOverdue(r role) func(*observed, *decision) {
	return func(o *observed, d *decision) {
		s := newStatus(o)
		phase, name := executionv1.ConditionScanned, "scanner"
		if r == parserRole {
			s.scanned(o)
			phase, name = executionv1.ConditionParsed, "parser"
		}
		j, _ := o.jobOf(r)
		d.stop = []job{j}
		d.fail(o, s, phase, overdue(o, j, name))
	}
}

// overdue says that a Job has passed its deadline, and what kept it.
func overdue(o *observed, j job, name string) trouble {
	why, _ := o.overdue(j)
	message := fmt.Sprintf("The %s (Job %s) %s", name, j.name, why)
	if j.trouble != nil {
		message += ": " + j.trouble.message
	}
	return trouble{executionv1.ReasonDeadlineExceeded, message}
}

// jobLost ends a Scan whose Job went before its outcome was seen.
func jobLost(r role) func(*observed, *decision) {
	return func(o *observed, d *decision) {
		s := newStatus(o)
		phase, name, file := executionv1.ConditionScanned, "scanner", s.RawResultFile
		if r == parserRole {
			s.scanned(o)
			phase, name, file = executionv1.ConditionParsed, "parser", executionv1.FindingsFile
		}
		d.fail(o, s, phase, trouble{
			executionv1.ReasonJobLost,
			fmt.Sprintf("The %s Job was removed before its outcome was seen, and storage has no %s. Was it deleted by hand, or is ttlSecondsAfterFinished very short?", name, file),
		})
	}
}

// failure says why a Job failed. Where its pods are gone, what its phase's condition
// last said about them is the best there is.
func failure(o *observed, j job, name, phase string) string {
	message := fmt.Sprintf("The %s failed (Job %s): %s", name, j.name, j.failure)
	c := findCondition(o.scan.Status.Conditions, phase)
	if c == nil || c.Status != metav1.ConditionUnknown || !troubleReasons[c.Reason] {
		return message
	}
	// What it ended with may be known already, in other words around it.
	_, ending, _ := strings.Cut(c.Message, "exited with ")
	if !strings.Contains(j.failure, c.Message) && (ending == "" || !strings.Contains(j.failure, ending)) {
		message += "; before that: " + c.Message
	}
	return message
}
