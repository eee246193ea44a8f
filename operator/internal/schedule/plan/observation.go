// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/settings"
)

// deletionGrace is how long a Scan that is being deleted delays the next run. Its pods and results are
// gone by then; a finalizer of another client keeps the object.
const deletionGrace = 15 * time.Minute

// Observation is the whole input of Decide.
type Observation struct {
	Now       time.Time
	Scheduled *executionv1.ScheduledScan

	// Bounds are the bounds in the cluster's settings.
	Bounds settings.Schedules

	// timetable is nil if problem says what is wrong with the spec. ReadSpec sets both.
	timetable *timetable
	problem   *problem

	// Children are the Scans that the ScheduledScan controls, newest first.
	Children []Child
	// Digest is the digest of the ScanType; "" if there is none, and then Missing says what to install.
	Digest  string
	Missing string
	// Findings are the findings of the newest Done child, if the status does not show them.
	Findings *executionv1.FindingStats
}

// ReadSpec reads when runs are planned, within the bounds. zones finds time zones by name; an empty name is the zone of the
// operator. It returns false if the spec has a mistake: then nothing else needs to be observed.
func (o *Observation) ReadSpec(zones func(string) (*time.Location, error)) bool {
	if o.timetable, o.problem = readSpec(&o.Scheduled.Spec, string(o.Scheduled.UID), zones); o.problem != nil {
		return false
	}
	o.timetable.atLeast(o.Bounds.MinInterval)
	return true
}

// DependsOnChildren reports whether earlier Scans may delay a run that is due, so soon after the last one that a cache which
// is behind by lag may not show them.
func (o *Observation) DependsOnChildren(lag time.Duration) bool {
	if p := o.Scheduled.Spec.ConcurrencyPolicy; p != executionv1.ForbidConcurrent && p != executionv1.ReplaceConcurrent {
		return false
	}
	v := newView(o)
	return v.hasNext && isDue(v) && !isSuspended(v) && !v.last.IsZero() && o.Now.Sub(v.last) <= lag
}

// Child is a Scan of an earlier run.
type Child struct {
	Name    string
	UID     types.UID
	State   executionv1.ScanState
	Created time.Time
	// Deleted is when its deletion began; zero where it has not.
	Deleted time.Time
}

func (c Child) ended() bool {
	return c.State == executionv1.ScanStateDone || c.State == executionv1.ScanStateErrored
}

// SortChildren sorts the newest first.
func SortChildren(children []Child) {
	slices.SortFunc(children, func(a, b Child) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
}

// unfinished are the children that have not ended and that may still run.
func (o *Observation) unfinished() []Child {
	var all []Child
	for _, c := range o.Children {
		if !c.ended() && (c.Deleted.IsZero() || o.Now.Sub(c.Deleted) < deletionGrace) {
			all = append(all, c)
		}
	}
	return all
}

// NewestDone is the child whose findings the status shows.
func (o *Observation) NewestDone() (Child, bool) {
	for _, c := range o.Children {
		if c.State == executionv1.ScanStateDone {
			return c, true
		}
	}
	return Child{}, false
}

func (o *Observation) childNamed(name string) (Child, bool) {
	for _, c := range o.Children {
		if c.Name == name {
			return c, true
		}
	}
	return Child{}, false
}

// history is what the status says about earlier runs.
type history struct {
	// last is when the last run was started; zero if there was none.
	last time.Time
	// lastDigest is the digest of the ScanType at that run, if it is known.
	lastDigest string
	known      bool
	// requested is true if a client has set the time back to request a run.
	requested bool
}

// historyOf reads the history from the status. A time that other clients have removed is taken from the
// mark, or else from the newest child.
func historyOf(o *Observation) history {
	s := &o.Scheduled.Status
	m, ok := parseMark(s.ScanTypeHash)
	created := o.Scheduled.CreationTimestamp.Time
	switch {
	case s.LastScheduleTime != nil && len(o.Children) == 0 && (ok && m.never || s.ScanTypeHash == "" && s.LastScheduleTime.Time.Before(created)):
		// No operator has started a run, so a client requests the first one. The run is named by the creation.
		return history{last: created, requested: true}
	case ok && m.never && len(o.Children) == 0:
		return history{}
	case ok && m.never:
		return historyWithoutMark(o)
	case ok && s.LastScheduleTime == nil:
		return history{last: m.lastRun, lastDigest: m.digest, known: true, requested: true}
	case ok && s.LastScheduleTime.Unix() < m.lastRun.Unix():
		return history{last: m.lastRun, lastDigest: m.digest, known: true, requested: true}
	case ok:
		return history{last: s.LastScheduleTime.Time, lastDigest: m.digest, known: true}
	default:
		return historyWithoutMark(o)
	}
}

// historyWithoutMark reads the history from a status without a mark.
func historyWithoutMark(o *Observation) history {
	switch {
	case o.Scheduled.Status.LastScheduleTime != nil:
		// The status of another operator, or of an older version of this one, is adopted unchanged.
		return history{last: o.Scheduled.Status.LastScheduleTime.Time}
	case len(o.Children) > 0:
		return history{last: o.Children[0].Created}
	default:
		return history{}
	}
}

// Trigger is why a run is started.
type Trigger string

const (
	// BySchedule is a planned time.
	BySchedule Trigger = "schedule"
	// ByClient is a time that a client has set back.
	ByClient Trigger = "client"
	// ByScanType is a ScanType that has changed.
	ByScanType Trigger = "scantype"
)

// triggered returns whether a run is requested besides the planned ones.
func (o *Observation) triggered(h history) (Trigger, bool) {
	switch {
	case h.requested:
		return ByClient, true
	case o.scanTypeChanged(h):
		return ByScanType, true
	default:
		return "", false
	}
}

func (o *Observation) scanTypeChanged(h history) bool {
	if !o.Scheduled.Spec.RetriggerOnScanTypeChange || !h.known || h.last.IsZero() || o.Digest == "" || o.Digest == h.lastDigest {
		return false
	}
	if h.lastDigest != "" {
		return true
	}
	// There was no ScanType when the last run was started. The Scan may have found it nevertheless; the run
	// is made up for only if the Scan did not.
	return len(o.Children) > 0 && o.Children[0].State == executionv1.ScanStateErrored
}

// nextRun returns the run that is due or comes next, and its trigger. It returns false if there is none.
func (o *Observation) nextRun() (run, Trigger, bool) {
	h := historyOf(o)
	if why, ok := o.triggered(h); ok {
		// Each recorded run is followed by one run, so no other run gets this name.
		planned := h.last.Add(time.Second)
		r, open := o.timetable.permit(run{planned: planned, due: earlier(planned, o.Now)}, o.Now)
		return r, why, open
	}
	s := series{timetable: o.timetable, last: h.last, created: o.Scheduled.CreationTimestamp.Time}
	r, ok := s.upcoming(o.Now)
	return r, BySchedule, ok
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
