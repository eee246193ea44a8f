// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// decision is what act should do. The zero decision does nothing.
type decision struct {
	// step is the name of the row that was taken, for logs and tests.
	step string

	// replace are unfinished Scans to delete, in favour of the run that is due.
	replace []child
	// start is the view whose next run is to be started; nil starts none.
	start *view
	// status is what the status should be; nil leaves it.
	status *executionv1.ScheduledScanStatus
	// notices tell the user by Events.
	notices []notice
	// prune are ended Scans to delete once the status is written.
	prune []child

	// requeueAfter is when a clock runs out; zero waits for watches only.
	requeueAfter time.Duration
}

// notice is an Event on the ScheduledScan.
type notice struct {
	warning         bool
	reason, message string
}

// finish completes every decision that is not about a deletion.
func (d *decision) finish(v *view, s *status) {
	d.status = s.ScheduledScanStatus
	spec := &v.scheduled.Spec
	d.prune = append(superfluous(v.children, executionv1.ScanStateDone, spec.SuccessfulJobsHistoryLimit, v.bounds.MaxHistory),
		superfluous(v.children, executionv1.ScanStateErrored, spec.FailedJobsHistoryLimit, v.bounds.MaxHistory)...)
}

// superfluous are the Scans of an outcome beyond the newest ones, the oldest first: the
// newest of those left is the one whose findings are shown.
func superfluous(children []child, state executionv1.ScanState, limit *int32, most int32) []child {
	keep := defaultHistory
	if limit != nil {
		keep = int(*limit)
	}
	keep = min(keep, int(most))
	var all []child
	for _, c := range children {
		if c.state != state || !c.deleted.IsZero() {
			continue
		}
		if keep--; keep < 0 {
			all = append(all, c)
		}
	}
	slices.Reverse(all)
	return all
}

// until asks for a look at a time.
func (d *decision) until(v *view, t time.Time) {
	wait := min(max(t.Sub(v.now), atOnce), longestWait)
	if d.requeueAfter == 0 || wait < d.requeueAfter {
		d.requeueAfter = wait
	}
}

// awaitOthers waits for earlier Scans: watches tell, unless one is stuck or the run is
// too late by then.
func (d *decision) awaitOthers(v *view) {
	for _, c := range v.unfinished() {
		if !c.deleted.IsZero() {
			d.until(v, c.deleted.Add(deletionGrace))
		}
	}
	if v.timetable.deadline > 0 && v.why == bySchedule {
		d.until(v, v.next.due.Add(v.timetable.deadline+time.Second))
	}
}
