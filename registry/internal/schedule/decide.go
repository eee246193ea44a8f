// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Observation is what the next start is decided by.
type Observation struct {
	Now time.Time
	// Next is the time that the status names; zero: none yet.
	Next time.Time
	// Changed: the spec is not the one for which Next was told.
	Changed bool
	// Suspended: no job starts.
	Suspended bool
	// Active: a job of the kind waits or works.
	Active bool
	// Exists tells whether the job of a planned time has been made.
	Exists func(planned time.Time) bool
}

// Decision is what is done about the schedule of one kind.
type Decision struct {
	// Start: the job of Planned is made.
	Start bool
	// Skipped: it would have been, but another one waits or works.
	Skipped bool
	Planned time.Time
	// Next is when to look again, and what the status says; zero: no job starts by itself.
	Next time.Time
}

// Decide says whether a job starts now, and when the next one does. Without a Timetable jobs are made by hand only.
func (t *Timetable) Decide(o Observation) Decision {
	if t == nil || o.Suspended {
		return Decision{}
	}
	from := t.created.Add(-time.Second) // a Registry is looked at as soon as it is there
	if t.cron != nil {
		from = t.created
	}
	next := o.Next
	if next.IsZero() || o.Changed {
		base := from
		if !o.Next.IsZero() {
			base = o.Now
		}
		first, found := t.after(base)
		if !found {
			return Decision{}
		}
		if next.IsZero() || first.Before(next) {
			next = first
		}
	}
	if next.After(o.Now) {
		return Decision{Next: next}
	}
	if open, found := t.Open(o.Now); !found || open.After(o.Now) {
		return Decision{Next: open}
	}
	d := Decision{Planned: t.newest(t.earlier(next, from), o.Now)}
	d.Next, _ = t.after(o.Now)
	switch {
	case o.Exists(d.Planned):
	case o.Active:
		d.Skipped = true
	default:
		d.Start = true
	}
	return d
}

// earlier is a time before the planned one that starts at next, from which it is looked for.
func (t *Timetable) earlier(next, from time.Time) time.Time {
	const most = mostJitter + maxWindow
	if at := next.Add(-most); at.After(from) {
		return at
	}
	return from
}

// Job is an ended job.
type Job struct {
	Name string
	Kind Kind
	// Scheduled: no person made it. Succeeded: its condition Completed is True.
	Scheduled, Succeeded bool
	Ended                time.Time
	// TTL is how long it is kept after its end; nil: as the history limits say.
	TTL *time.Duration
}

// Limits are how many scheduled jobs of each kind are kept.
type Limits struct{ Succeeded, Failed int }

// Expired gives the ended jobs that go, and when to look again; zero: not by itself. keep tells names that stay whatever the limits say.
func Expired(jobs []Job, limits Limits, now time.Time, keep func(name string) bool) (names []string, again time.Time) {
	type class struct {
		kind      Kind
		succeeded bool
	}
	kept := map[class]int{}
	sorted := slices.SortedFunc(slices.Values(jobs), func(a, b Job) int { return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.Name, b.Name)) })
	for _, job := range sorted {
		if job.TTL != nil {
			end := job.Ended.Add(*job.TTL)
			if !end.After(now) {
				names = append(names, job.Name)
				continue
			}
			if again.IsZero() || end.Before(again) {
				again = end
			}
		}
		if !job.Scheduled {
			continue
		}
		limit := limits.Failed
		if job.Succeeded {
			limit = limits.Succeeded
		}
		c := class{job.Kind, job.Succeeded}
		if kept[c]++; kept[c] > limit && job.TTL == nil && !keep(job.Name) {
			names = append(names, job.Name)
		}
	}
	slices.Sort(names)
	return names, again
}
