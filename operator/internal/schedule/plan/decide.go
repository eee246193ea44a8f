// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	// defaultHistory is how many Scans of each outcome are kept if the spec does not say.
	defaultHistory = 3
	// longestWait bounds the wait for a time of the day, so that a clock that is set forward during the
	// wait causes no longer delay.
	longestWait = 10 * time.Minute
	// clockSlack is how far in the future the operator's own record of the last run may be. Beyond that
	// the clock was wrong when the record was made.
	clockSlack = 24 * time.Hour
	// rejectedRetry is when a rejected Scan is retried: no watch reports that a quota has room.
	rejectedRetry = time.Minute
	// atOnce is the shortest possible wait.
	atOnce = time.Millisecond
)

// view is an Observation and the facts that follow from it.
type view struct {
	*Observation
	history

	// next is the run that is due or comes next, why is its trigger. Without hasNext there is no next run.
	next    run
	why     Trigger
	hasNext bool
}

func newView(o *Observation) *view {
	v := &view{Observation: o, history: historyOf(o)}
	if o.timetable != nil {
		v.next, v.why, v.hasNext = o.nextRun()
	}
	return v
}

// transition is a row of the table.
type transition struct {
	name string
	when func(*view) bool
	then func(*view, *Decision)
}

// transitions are tried in this order; the first row that applies is taken.
var transitions = []transition{
	{"Deleted", isDeleted, nothing},
	{"Invalid", isInvalid, showProblem},
	{"ClockWasWrong", clockWasWrong, rebase},
	{"Record", isStarted, record},
	{"Suspended", isSuspended, suspend},
	{"Never", not(hasNext), showNever},
	{"Blackout", isHeldByWindow, awaitWindow},
	{"Wait", not(isDue), await},
	{"Blocked", policyIs(executionv1.ForbidConcurrent), awaitEnd},
	{"Replace", policyIs(executionv1.ReplaceConcurrent), replace},
	{"Start", always, start},
}

// Decide returns what to do about an Observation. It is a pure function.
func Decide(o *Observation) Decision {
	v := newView(o)
	for _, s := range transitions {
		if !s.when(v) {
			continue
		}
		d := Decision{Step: s.name}
		s.then(v, &d)
		return d
	}
	return Decision{Step: "None"}
}

func always(*view) bool { return true }

func not(f func(*view) bool) func(*view) bool { return func(v *view) bool { return !f(v) } }

func isDeleted(v *view) bool { return !v.Scheduled.DeletionTimestamp.IsZero() }

func isInvalid(v *view) bool { return v.problem != nil }

func isSuspended(v *view) bool { return v.Scheduled.Suspended() }

func hasNext(v *view) bool { return v.hasNext }

func isDue(v *view) bool { return !v.next.at.After(v.Now) }

// isHeldByWindow is true if only a window keeps a run from starting now.
func isHeldByWindow(v *view) bool { return !isDue(v) && !v.next.due.After(v.Now) }

// clockWasWrong is true if the operator itself has recorded a run in the far future.
func clockWasWrong(v *view) bool {
	m, ok := parseMark(v.Scheduled.Status.ScanTypeHash)
	return ok && !m.never && !v.requested && m.lastRun.Unix() == v.last.Unix() && v.last.Sub(v.Now) > clockSlack
}

// isStarted is true if the Scan of the next run exists and only the record of the run is missing.
func isStarted(v *view) bool {
	_, ok := v.startedChild()
	return ok
}

func (v *view) startedChild() (Child, bool) {
	if !v.hasNext {
		return Child{}, false
	}
	for _, name := range v.names() {
		if c, ok := v.childNamed(name); ok {
			return c, true
		}
	}
	return Child{}, false
}

// names are the possible names of the Scan of the next run, the usual one first.
func (v *view) names() []string {
	s := v.Scheduled
	return []string{childName(s.Name, v.next.planned), childNameOf(s.Name, s.UID, v.next.planned)}
}

// policyIs is true if a policy applies to earlier Scans.
func policyIs(p executionv1.ConcurrencyPolicy) func(*view) bool {
	return func(v *view) bool { return v.Scheduled.Spec.ConcurrencyPolicy == p && len(v.unfinished()) > 0 }
}

// --- rows ---

func nothing(*view, *Decision) {}

func showProblem(v *view, d *Decision) {
	s := newStatus(v)
	s.ready(v, d, metav1.ConditionFalse, *v.problem)
	d.finish(v, s)
}

func showNever(v *view, d *Decision) {
	s := newStatus(v)
	p := problem{executionv1.ReasonScheduleNeverFires, "spec.windows leave no time in which a run may start; shorten them"}
	if v.timetable.cron != nil && v.timetable.cron.next(v.Now).IsZero() {
		p.message = fmt.Sprintf("spec.schedule %q names a date that does not exist; correct day of month and month", v.Scheduled.Spec.Schedule)
	}
	s.ready(v, d, metav1.ConditionFalse, p)
	d.finish(v, s)
}

// rebase forgets that the last run was in the future.
func rebase(v *view, d *Decision) {
	s := newStatus(v)
	s.recordRun(v.Now.Truncate(time.Second), v.Digest)
	d.finish(v, s)
	d.RequeueAfter = atOnce
}

func record(v *view, d *Decision) {
	c, _ := v.startedChild()
	d.finish(v, startedStatus(v, d, c.Created))
}

func suspend(v *view, d *Decision) {
	s := newStatus(v)
	s.suspended(v, d)
	d.finish(v, s)
}

func await(v *view, d *Decision) {
	s := newStatus(v)
	s.scheduledAt(v.next.at)
	s.inOrder(v, d)
	d.finish(v, s)
	d.until(v, v.next.at)
}

func awaitWindow(v *view, d *Decision) {
	s := newStatus(v)
	s.scheduledAt(v.next.at)
	s.ready(v, d, metav1.ConditionUnknown, problem{executionv1.ReasonInBlackoutWindow, "A run is due and starts when the window of spec.windows ends."})
	d.finish(v, s)
	d.until(v, v.next.at)
}

func awaitEnd(v *view, d *Decision) {
	s := newStatus(v)
	s.scheduledAt(v.next.at)
	s.ready(v, d, metav1.ConditionUnknown, problem{
		executionv1.ReasonConcurrencyPolicyBlocks,
		"A run is due and starts when the earlier one has ended, since spec.concurrencyPolicy is Forbid: " + scanList(v.unfinished()),
	})
	d.finish(v, s)
	d.awaitOthers(v)
}

func replace(v *view, d *Decision) {
	s := newStatus(v)
	s.scheduledAt(v.next.at)
	s.ready(v, d, metav1.ConditionUnknown, problem{
		executionv1.ReasonReplacingScans,
		"A run is due and starts when the earlier one is deleted, since spec.concurrencyPolicy is Replace: " + scanList(v.unfinished()),
	})
	for _, c := range v.unfinished() {
		if c.Deleted.IsZero() {
			d.Replace = append(d.Replace, c)
		}
	}
	d.finish(v, s)
	d.awaitOthers(v)
}

func start(v *view, d *Decision) {
	d.finish(v, startedStatus(v, d, v.Now))
	d.Start = newStart(v)
}

// startedStatus is the status after the next run was started at a given time.
func startedStatus(v *view, d *Decision, started time.Time) *status {
	s := newStatus(v)
	if v.why == ByScanType {
		d.Events = append(d.Events, Event{Reason: executionv1.EventRetriggered, Message: fmt.Sprintf(
			"A run was started since %s %q has changed.", ScanTypeKind(v.Scheduled), v.Scheduled.Spec.ScanSpec.ScanType)})
	}
	last := later(started.Truncate(time.Second), v.next.planned)
	s.recordRun(last, v.Digest)
	if v.Scheduled.Suspended() {
		s.suspended(v, d)
		return s
	}
	after := series{timetable: v.timetable, last: last, created: v.Scheduled.CreationTimestamp.Time}
	s.NextScheduleTime = nil
	if next, ok := after.upcoming(v.Now); ok {
		s.scheduledAt(next.at)
		d.until(v, next.at)
	} else {
		d.RequeueAfter = atOnce // the next pass finds that there is none
	}
	s.inOrder(v, d)
	return s
}

// maxListed bounds how many names a message lists.
const maxListed = 3

func scanList(children []Child) string {
	var names []string
	for _, c := range children {
		if len(names) == maxListed {
			names = append(names, fmt.Sprintf("and %d more", len(children)-maxListed))
			break
		}
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ") + "."
}

// ScanTypeKind is the kind of the ScanType that the Scans run.
func ScanTypeKind(s *executionv1.ScheduledScan) string {
	if IsClusterWide(s) {
		return "ClusterScanType"
	}
	return "ScanType"
}

// IsClusterWide reports whether the Scans use Cluster* kinds.
func IsClusterWide(s *executionv1.ScheduledScan) bool {
	mode := s.Spec.ScanSpec.ResourceMode
	return mode != nil && *mode == executionv1.ClusterWide
}
