// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/settings"
)

// deletionGrace is how long a Scan that is being deleted holds the next run up. Its pods
// and results are gone by then; something else keeps the object.
const deletionGrace = 15 * time.Minute

// observation is everything that decide may look at.
type observation struct {
	now       time.Time
	scheduled *executionv1.ScheduledScan

	// bounds are those of the cluster's settings.
	bounds settings.Schedules

	// timetable is nil where problem says what is wrong with the spec.
	timetable *timetable
	problem   *problem

	// children are the Scans that the ScheduledScan controls, newest first.
	children []child
	// digest is that of the ScanType; "" where there is none, and then missing says what
	// to install.
	digest  string
	missing string
	// findings are those of the newest Done child, where the status does not show them.
	findings *executionv1.FindingStats
}

// child is a Scan of an earlier run.
type child struct {
	name    string
	uid     types.UID
	state   executionv1.ScanState
	created time.Time
	// deleted is when its deletion began; zero where it has not.
	deleted time.Time
}

func (c child) ended() bool {
	return c.state == executionv1.ScanStateDone || c.state == executionv1.ScanStateErrored
}

// sortChildren puts the newest first.
func sortChildren(children []child) {
	slices.SortFunc(children, func(a, b child) int {
		if c := b.created.Compare(a.created); c != 0 {
			return c
		}
		return strings.Compare(b.name, a.name)
	})
}

// unfinished are the children that have not ended, and that may still do something.
func (o *observation) unfinished() []child {
	var all []child
	for _, c := range o.children {
		if !c.ended() && (c.deleted.IsZero() || o.now.Sub(c.deleted) < deletionGrace) {
			all = append(all, c)
		}
	}
	return all
}

// newestDone is the child whose findings the status shows.
func (o *observation) newestDone() (child, bool) {
	for _, c := range o.children {
		if c.state == executionv1.ScanStateDone {
			return c, true
		}
	}
	return child{}, false
}

func (o *observation) childNamed(name string) (child, bool) {
	for _, c := range o.children {
		if c.name == name {
			return c, true
		}
	}
	return child{}, false
}

// history is what is known of earlier runs.
type history struct {
	// last is when the last run was started; zero where none was.
	last time.Time
	// lastDigest is that of the ScanType at that run, where known.
	lastDigest string
	known      bool
	// asked holds where a client has set the time back to have a run.
	asked bool
}

// historyOf reads it from the status. What other clients have removed is found again:
// the time in the mark, or else in the newest child.
func historyOf(o *observation) history {
	s := &o.scheduled.Status
	m, ok := parseMark(s.ScanTypeHash)
	created := o.scheduled.CreationTimestamp.Time
	switch {
	case s.LastScheduleTime != nil && len(o.children) == 0 && (ok && m.never || s.ScanTypeHash == "" && s.LastScheduleTime.Time.Before(created)):
		// No operator has started a run, so a client asks for the first one. The run is named by the creation.
		return history{last: created, asked: true}
	case ok && m.never && len(o.children) == 0:
		return history{}
	case ok && m.never:
		return historyWithoutMark(o)
	case ok && s.LastScheduleTime == nil:
		return history{last: m.lastRun, lastDigest: m.digest, known: true, asked: true}
	case ok && s.LastScheduleTime.Unix() < m.lastRun.Unix():
		return history{last: m.lastRun, lastDigest: m.digest, known: true, asked: true}
	case ok:
		return history{last: s.LastScheduleTime.Time, lastDigest: m.digest, known: true}
	default:
		return historyWithoutMark(o)
	}
}

// historyWithoutMark reads it from what others leave.
func historyWithoutMark(o *observation) history {
	switch {
	case o.scheduled.Status.LastScheduleTime != nil:
		// Another operator's, or one of before it was marked: adopted as it is.
		return history{last: o.scheduled.Status.LastScheduleTime.Time}
	case len(o.children) > 0:
		return history{last: o.children[0].created}
	default:
		return history{}
	}
}

// trigger is what a run is started for.
type trigger string

const (
	bySchedule trigger = "schedule"
	byClient   trigger = "client"
	byScanType trigger = "scantype"
)

// triggered says whether a run is wanted beside the planned ones.
func (o *observation) triggered(h history) (trigger, bool) {
	switch {
	case h.asked:
		return byClient, true
	case o.scanTypeChanged(h):
		return byScanType, true
	default:
		return "", false
	}
}

func (o *observation) scanTypeChanged(h history) bool {
	if !o.scheduled.Spec.RetriggerOnScanTypeChange || !h.known || h.last.IsZero() || o.digest == "" || o.digest == h.lastDigest {
		return false
	}
	if h.lastDigest != "" {
		return true
	}
	// There was no ScanType when the last run was started. The Scan may have found it
	// nevertheless; only if it did not, the run is made up for.
	return len(o.children) > 0 && o.children[0].state == executionv1.ScanStateErrored
}

// nextRun returns the run that is due or comes next, and what it is for. false means
// that there is none.
func (o *observation) nextRun() (run, trigger, bool) {
	h := historyOf(o)
	if why, ok := o.triggered(h); ok {
		// Each recorded run is followed by one run, so this time names no other.
		planned := h.last.Add(time.Second)
		r, open := o.timetable.permit(run{planned: planned, due: earlier(planned, o.now)}, o.now)
		return r, why, open
	}
	s := series{timetable: o.timetable, last: h.last, created: o.scheduled.CreationTimestamp.Time}
	r, ok := s.upcoming(o.now)
	return r, bySchedule, ok
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
