// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

type specOption = func(*executionv1.ScheduledScanSpec)

func every(d string) specOption { return func(s *executionv1.ScheduledScanSpec) { s.Interval = d } }

func cronOf(c string) specOption { return func(s *executionv1.ScheduledScanSpec) { s.Schedule = c } }

func in(zone string) specOption { return func(s *executionv1.ScheduledScanSpec) { s.TimeZone = zone } }

func jitter(d string) specOption { return func(s *executionv1.ScheduledScanSpec) { s.Jitter = d } }

func deadline(seconds int64) specOption {
	return func(s *executionv1.ScheduledScanSpec) { s.StartingDeadlineSeconds = &seconds }
}

func closed(schedule, duration string) specOption {
	return func(s *executionv1.ScheduledScanSpec) {
		s.Windows = append(s.Windows, executionv1.BlackoutWindow{Schedule: schedule, Duration: duration})
	}
}

// loadZone finds a zone as the operator does, in UTC.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("Local is not an IANA name")
	}
	return time.LoadLocation(name)
}

func newTestTimetable(t *testing.T, options ...specOption) *timetable {
	t.Helper()
	var spec executionv1.ScheduledScanSpec
	for _, o := range options {
		o(&spec)
	}
	table, p := newTimetable(&spec, "seed", loadZone)
	if p != nil {
		t.Fatalf("%s: %s", p.reason, p.message)
	}
	return table
}

func TestUpcoming(t *testing.T) {
	const created = "2026-01-02T03:04:05Z"
	cases := map[string]struct {
		reason    string
		spec      []specOption
		last, now string
		planned   string
		at        string
	}{
		"IntervalStartsAtOnce": {
			"the first run is planned for the creation",
			[]specOption{every("12h")},
			"", "2026-01-02T03:04:06Z", created, created,
		},
		"IntervalCountsFromTheLastRun": {
			"", []specOption{every("12h")}, "2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z", "2026-01-05T22:00:00Z", "2026-01-05T22:00:00Z",
		},
		"CronStartsAtItsFirstTime": {
			"", []specOption{cronOf("0 3 * * *")}, "", "2026-01-02T03:04:06Z", "2026-01-03T03:00:00Z", "2026-01-03T03:00:00Z",
		},
		"OfMissedRunsTheFirst": {
			"its name is that of secureCodeBox, and starting it passes over the others",
			[]specOption{cronOf("0 3 * * *")},
			"2026-01-03T03:00:01Z", "2026-01-20T09:00:00Z", "2026-01-04T03:00:00Z", "2026-01-04T03:00:00Z",
		},
		"TooLateIsPassedOver": {
			"", []specOption{cronOf("0 3 * * *"), deadline(3600)}, "2026-01-03T03:00:01Z", "2026-01-20T09:00:00Z", "2026-01-21T03:00:00Z", "2026-01-21T03:00:00Z",
		},
		"NotTooLateYet": {
			"", []specOption{cronOf("0 3 * * *"), deadline(3600)}, "2026-01-03T03:00:01Z", "2026-01-20T03:59:00Z", "2026-01-20T03:00:00Z", "2026-01-20T03:00:00Z",
		},
		"IntervalTooLateKeepsItsPace": {
			"", []specOption{every("12h"), deadline(60)}, "2026-01-05T10:00:00Z", "2026-01-08T11:00:00Z", "2026-01-08T22:00:00Z", "2026-01-08T22:00:00Z",
		},
		"WindowHoldsARunUntilItsEnd": {
			"", []specOption{cronOf("0 9 * * *"), closed("0 8 * * *", "10h")}, "2026-01-05T19:00:00Z", "2026-01-06T00:00:00Z", "2026-01-06T09:00:00Z", "2026-01-06T18:00:00Z",
		},
		"WindowThatBeganAfterTheRunCameDue": {
			"the operator was away", []specOption{cronOf("0 7 * * *"), closed("0 8 * * *", "10h")}, "2026-01-05T07:00:00Z", "2026-01-06T12:00:00Z", "2026-01-06T07:00:00Z", "2026-01-06T18:00:00Z",
		},
		"WindowsThatFollowEachOther": {
			"",
			[]specOption{cronOf("0 9 * * *"), closed("0 8 * * *", "2h"), closed("0 10 * * *", "2h"), closed("30 11 * * *", "2h")},
			"2026-01-05T19:00:00Z", "2026-01-06T00:00:00Z", "2026-01-06T09:00:00Z", "2026-01-06T13:30:00Z",
		},
		"WindowOverMidnight": {
			"", []specOption{cronOf("0 1 * * *"), closed("0 22 * * *", "4h")}, "2026-01-05T02:00:00Z", "2026-01-05T12:00:00Z", "2026-01-06T01:00:00Z", "2026-01-06T02:00:00Z",
		},
		"TheEndOfAWindowIsOpen": {
			"", []specOption{cronOf("0 18 * * *"), closed("0 8 * * *", "10h")}, "2026-01-05T18:00:00Z", "2026-01-06T00:00:00Z", "2026-01-06T18:00:00Z", "2026-01-06T18:00:00Z",
		},
		"WindowAndDeadlinePassOver": {
			"what the window holds for too long is passed over",
			[]specOption{cronOf("0 * * * *"), closed("0 8 * * *", "10h"), deadline(600)},
			"2026-01-05T07:00:00Z", "2026-01-05T08:00:00Z", "2026-01-05T18:00:00Z", "2026-01-05T18:00:00Z",
		},
		"MinutesInALongWindow": {
			"thousands of runs are passed over in a few steps",
			[]specOption{cronOf("* * * * *"), closed("0 0 1 * *", "700h"), deadline(30)},
			"2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-30T04:00:00Z", "2026-01-30T04:00:00Z",
		},
		"TimeZone": {
			"", []specOption{cronOf("0 3 * * *"), in("Asia/Tokyo")}, "2026-01-05T19:00:00Z", "2026-01-05T19:00:01Z", "2026-01-06T18:00:00Z", "2026-01-06T18:00:00Z",
		},
		"ClockIsSetBack": {
			"what has run does not run again", []specOption{cronOf("0 * * * *")}, "2026-01-05T19:00:00Z", "2026-01-05T18:30:00Z", "2026-01-05T20:00:00Z", "2026-01-05T20:00:00Z",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := series{timetable: newTestTimetable(t, c.spec...), created: at(t, created)}
			if c.last != "" {
				s.last = at(t, c.last)
			}
			r, ok := s.upcoming(at(t, c.now))
			if !ok {
				t.Fatal("there is no run")
			}
			if diff := cmp.Diff([]string{c.planned, c.at}, []string{r.planned.UTC().Format(time.RFC3339), r.at.UTC().Format(time.RFC3339)}); diff != "" {
				t.Errorf("planned, at (-want +got):\n%s\n%s", diff, c.reason)
			}
		})
	}
}

func TestNoUpcomingRun(t *testing.T) {
	for name, spec := range map[string][]specOption{
		"NoSuchDate":             {cronOf("0 0 30 2 *")},
		"AlwaysClosed":           {cronOf("0 3 * * *"), closed("0 0 * * *", "24h")},
		"AlwaysClosedByMinutes":  {every("1h"), closed("* * * * *", "2m")},
		"AlwaysClosedByTwo":      {every("1h"), closed("0 0 * * *", "12h"), closed("0 12 * * *", "12h")},
		"ClosedWheneverItIsTime": {cronOf("0 3 * * *"), closed("0 0 * * *", "6h"), deadline(60)},
	} {
		t.Run(name, func(t *testing.T) {
			s := series{timetable: newTestTimetable(t, spec...), created: at(t, "2026-01-02T03:04:05Z")}
			if r, ok := s.upcoming(at(t, "2026-01-02T03:04:06Z")); ok {
				t.Errorf("there is a run: %+v", r)
			}
		})
	}
}

// TestDefect39WhatIsWrongIsNamed: each mistake with its field and what to do.
func TestDefect39WhatIsWrongIsNamed(t *testing.T) {
	cases := map[string]struct {
		spec   []specOption
		reason string
		says   []string
	}{
		"Neither":       {nil, executionv1.ReasonNoScheduleOrInterval, []string{"spec.schedule", "spec.interval", "12h"}},
		"ZeroInterval":  {[]specOption{every("0s")}, executionv1.ReasonNoScheduleOrInterval, []string{"spec.interval"}},
		"Days":          {[]specOption{every("7d")}, executionv1.ReasonInvalidSpec, []string{"spec.interval", `"7d"`, "hours"}},
		"Negative":      {[]specOption{every("-1h")}, executionv1.ReasonInvalidSpec, []string{"spec.interval"}},
		"Typo":          {[]specOption{cronOf("0 3 * *")}, executionv1.ReasonScheduleParseError, []string{"spec.schedule", `"0 3 * *"`, "five fields"}},
		"Seconds":       {[]specOption{cronOf("0 0 3 * * *")}, executionv1.ReasonScheduleParseError, []string{"leave out the seconds"}},
		"Sunday":        {[]specOption{cronOf("0 3 * * 7")}, executionv1.ReasonScheduleParseError, []string{"Sunday is 0"}},
		"Descriptor":    {[]specOption{cronOf("@nightly")}, executionv1.ReasonScheduleParseError, []string{"@daily"}},
		"ZoneInCron":    {[]specOption{cronOf("CRON_TZ=UTC 0 3 * * *")}, executionv1.ReasonScheduleParseError, []string{"spec.timeZone"}},
		"UnknownZone":   {[]specOption{every("1h"), in("Europe/Berlinn")}, executionv1.ReasonUnknownTimeZone, []string{"spec.timeZone", "Europe/Berlinn", "Europe/Berlin"}},
		"LocalZone":     {[]specOption{every("1h"), in("Local")}, executionv1.ReasonUnknownTimeZone, []string{"spec.timeZone"}},
		"ZoneAbove":     {[]specOption{every("1h"), in("../UTC")}, executionv1.ReasonUnknownTimeZone, []string{"spec.timeZone"}},
		"Jitter":        {[]specOption{every("1h"), jitter("much")}, executionv1.ReasonInvalidSpec, []string{"spec.jitter", "10m"}},
		"WindowCron":    {[]specOption{every("1h"), closed("0 8 * * *", "1h"), closed("8", "1h")}, executionv1.ReasonInvalidSpec, []string{"spec.windows[1].schedule"}},
		"WindowLength":  {[]specOption{every("1h"), closed("0 8 * * *", "")}, executionv1.ReasonInvalidSpec, []string{"spec.windows[0].duration"}},
		"WindowTooLong": {[]specOption{every("1h"), closed("0 8 * * *", "745h")}, executionv1.ReasonInvalidSpec, []string{"spec.windows[0].duration", "744h"}},
		"DeadlineZero":  {[]specOption{every("1h"), deadline(0)}, executionv1.ReasonInvalidSpec, []string{"spec.startingDeadlineSeconds"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var spec executionv1.ScheduledScanSpec
			for _, o := range c.spec {
				o(&spec)
			}
			_, p := newTimetable(&spec, "", loadZone)
			if p == nil {
				t.Fatal("nothing is wrong")
			}
			if p.reason != c.reason {
				t.Errorf("reason is %s, want %s", p.reason, c.reason)
			}
			for _, text := range c.says {
				if !strings.Contains(p.message, text) {
					t.Errorf("%q does not say %q", p.message, text)
				}
			}
		})
	}
}

func TestJitter(t *testing.T) {
	table := newTestTimetable(t, every("1h"), jitter("10m"))
	seen := map[time.Duration]bool{}
	for i := range 2000 {
		planned := at(t, "2026-01-02T00:00:00Z").Add(time.Duration(i) * time.Hour)
		d := table.offset(planned)
		if d < 0 || d > 10*time.Minute || d%time.Second != 0 {
			t.Fatalf("offset is %s", d)
		}
		if d != table.offset(planned.UTC()) {
			t.Fatal("the offset of a planned time is not always the same")
		}
		seen[d] = true
	}
	if len(seen) < 500 {
		t.Errorf("2000 runs have only %d different offsets", len(seen))
	}
	if d := newTestTimetable(t, every("1h")).offset(at(t, "2026-01-02T00:00:00Z")); d != 0 {
		t.Errorf("without jitter the offset is %s", d)
	}
}

// TestScheduleArithmetic lets time go by over random timetables. An operator that looks
// at random moments, and is away for days, starts each planned time at most once, never
// before it is due, never in a window, never too late, and the first look at or after a
// run's time finds it.
func TestScheduleArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 20261121))
	for i := range 300 {
		spec := randomSpec(r)
		table, p := newTimetable(&spec, strconv.Itoa(i), loadZone)
		if p != nil {
			t.Fatalf("%+v: %s", spec, p.message)
		}
		if err := live(r, table); err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
	}
}

func randomSpec(r *rand.Rand) executionv1.ScheduledScanSpec {
	var s executionv1.ScheduledScanSpec
	if r.IntN(3) == 0 {
		s.Interval = []string{"1s", "5m", "90m", "12h", "1h30m10.5s"}[r.IntN(5)]
	} else {
		s.Schedule = randomCron(r)
	}
	s.TimeZone = []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}[r.IntN(4)]
	s.Jitter = []string{"", "", "30s", "2h"}[r.IntN(4)]
	if r.IntN(2) == 0 {
		s.StartingDeadlineSeconds = new([]int64{10, 600, 90000}[r.IntN(3)])
	}
	for range r.IntN(3) {
		s.Windows = append(s.Windows, executionv1.BlackoutWindow{Schedule: randomCron(r), Duration: []string{"30s", "1m", "45m"}[r.IntN(3)]})
	}
	return s
}

// live plays an operator for some days.
func live(r *rand.Rand, table *timetable) error {
	now := time.Date(2026, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
	s := series{timetable: table, created: now.Truncate(time.Second)}
	started := map[int64]bool{}
	var before run
	for range 200 {
		next, ok := s.upcoming(now)
		switch {
		case !ok:
			return nil // closed for ever; TestNoUpcomingRun is about that
		case !s.last.IsZero() && !next.planned.After(s.last):
			return fmt.Errorf("planned %v is not after the last run %v", next.planned, s.last)
		case next.due.Before(next.planned) || next.at.Before(next.due) && next.at.Before(now):
			return fmt.Errorf("%+v is out of order", next)
		case s.deadline == 0 && before.planned.After(s.last) && !next.planned.Equal(before.planned):
			return fmt.Errorf("the next run was %v and is %v without one in between", before.planned, next.planned)
		}
		before = next
		if next.at.After(now) {
			if r.IntN(4) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(next.at.Sub(now) + 1)))) // a look in between
				continue
			}
			now = next.at
			if found, ok := s.upcoming(now); !ok || !found.planned.Equal(next.planned) || found.at.After(now) {
				return fmt.Errorf("at %v the run is not due: %+v, want %+v", now, found, next)
			}
		}
		if err := checkStart(table, next, now, started); err != nil {
			return err
		}
		s.last = later(now.Truncate(time.Second), next.planned)
		if r.IntN(5) == 0 {
			now = now.Add(time.Duration(r.Int64N(int64(5 * 24 * time.Hour)))) // no operator runs
		}
	}
	return nil
}

func checkStart(table *timetable, next run, now time.Time, started map[int64]bool) error {
	if started[next.planned.Unix()] {
		return fmt.Errorf("%v starts twice", next.planned)
	}
	started[next.planned.Unix()] = true
	if now.Before(next.due) {
		return fmt.Errorf("%+v starts at %v, before it is due", next, now)
	}
	if table.deadline > 0 && now.Sub(next.due) > table.deadline {
		return fmt.Errorf("%+v starts at %v, too late", next, now)
	}
	for _, w := range table.windows {
		if first := w.cron.next(now.Add(-w.duration)); !first.IsZero() && !first.After(now) {
			return errors.New("a run starts in a window")
		}
	}
	return nil
}
