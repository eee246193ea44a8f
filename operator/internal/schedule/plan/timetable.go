// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	// minInterval is the least time between two runs: names have seconds.
	minInterval = time.Second
	maxWindow   = 31 * 24 * time.Hour
	// maxSteps bounds every search, so that no object can block a worker.
	maxSteps = 1000
	// horizon is how far ahead the end of adjacent windows is searched.
	horizon = 366 * 24 * time.Hour
)

// timetable computes when the runs of a ScheduledScan are planned and when they may start.
type timetable struct {
	cron     *cronTable    // nil if the spec has an interval
	interval time.Duration // if there is no cron
	tooShort time.Duration // the interval of the spec if it is less than the settings allow; else 0
	jitter   time.Duration
	deadline time.Duration // 0 is none
	windows  []window
	// seed makes the jitter of each object different.
	seed string
}

// window is a blackout window.
type window struct {
	cron     *cronTable
	duration time.Duration
}

// run is a future run.
type run struct {
	// planned is the planned time, and names the run.
	planned time.Time
	// due is when the run should start: planned, plus jitter.
	due time.Time
	// at is when the run may start: due, or the end of the windows that due lies in.
	at time.Time
}

// problem says what is wrong with a ScheduledScan.
type problem struct{ reason, message string }

// newTimetable reads a spec. zones finds time zones by name; an empty name is the zone
// of the operator.
func newTimetable(spec *executionv1.ScheduledScanSpec, seed string, zones func(string) (*time.Location, error)) (*timetable, *problem) {
	zone, err := zones(spec.TimeZone)
	if err != nil {
		return nil, &problem{executionv1.ReasonUnknownTimeZone, fmt.Sprintf(
			"spec.timeZone %q is not a time zone that is known here; use an IANA name such as Europe/Berlin or UTC", spec.TimeZone)}
	}
	t := &timetable{seed: seed}
	if p := t.readTimes(spec, zone); p != nil {
		return nil, p
	}
	if t.jitter, err = parseDuration(spec.Jitter); err != nil {
		return nil, invalidDuration("spec.jitter", spec.Jitter, "10m")
	}
	if s := spec.StartingDeadlineSeconds; s != nil {
		t.deadline = time.Duration(*s) * time.Second
		if t.deadline <= 0 {
			return nil, &problem{executionv1.ReasonInvalidSpec, fmt.Sprintf("spec.startingDeadlineSeconds is %d; it must be positive", *s)}
		}
	}
	for i, w := range spec.Windows {
		field := fmt.Sprintf("spec.windows[%d]", i)
		c, err := parseCron(w.Schedule, zone)
		if err != nil {
			return nil, &problem{
				executionv1.ReasonInvalidSpec,
				fmt.Sprintf("%s.schedule %q is not a cron expression: %s%s", field, w.Schedule, err, cronAdvice(w.Schedule)),
			}
		}
		d, err := parseDuration(w.Duration)
		if err != nil || d == 0 || d > maxWindow {
			return nil, &problem{executionv1.ReasonInvalidSpec, fmt.Sprintf("%s.duration %q must be a duration of at most 744h, such as 10h", field, w.Duration)}
		}
		t.windows = append(t.windows, window{c, d})
	}
	return t, nil
}

// Check returns why a spec can never start a Scan; "" if there is no reason.
func Check(spec *executionv1.ScheduledScanSpec, zones func(string) (*time.Location, error)) string {
	if _, p := readSpec(spec, "", zones); p != nil {
		return p.message
	}
	return ""
}

func readSpec(spec *executionv1.ScheduledScanSpec, seed string, zones func(string) (*time.Location, error)) (*timetable, *problem) {
	if spec.ScanSpec == nil {
		return nil, &problem{executionv1.ReasonInvalidSpec, "spec.scanSpec is not set; it is the spec of the Scans to start"}
	}
	return newTimetable(spec, seed, zones)
}

// atLeast enforces the least interval of the settings on runs that are planned closer together. Cron expressions have
// minutes; only @every can be closer.
func (t *timetable) atLeast(least time.Duration) {
	every, isEvery := t.every()
	switch {
	case t.cron == nil && t.interval < least:
		t.tooShort, t.interval = t.interval, least
	case isEvery && every < least:
		t.tooShort = every
		t.cron = &cronTable{schedule: cron.Every(least), zone: t.cron.zone}
	}
}

// every is the time between two runs of a schedule that says "@every".
func (t *timetable) every() (time.Duration, bool) {
	if t.cron == nil {
		return 0, false
	}
	s, ok := t.cron.schedule.(cron.ConstantDelaySchedule)
	return s.Delay, ok
}

// readTimes reads schedule or interval; schedule wins.
func (t *timetable) readTimes(spec *executionv1.ScheduledScanSpec, zone *time.Location) *problem {
	if strings.TrimSpace(spec.Schedule) != "" {
		var err error
		if t.cron, err = parseCron(spec.Schedule, zone); err != nil {
			return &problem{executionv1.ReasonScheduleParseError, fmt.Sprintf(
				"spec.schedule %q is not a cron expression: %s%s", spec.Schedule, err, cronAdvice(spec.Schedule))}
		}
		return nil
	}
	d, err := parseDuration(spec.Interval)
	switch {
	case err != nil:
		return invalidDuration("spec.interval", spec.Interval, "12h")
	case d == 0:
		return &problem{
			executionv1.ReasonNoScheduleOrInterval,
			"neither spec.schedule nor spec.interval is set; set a cron expression such as \"0 3 * * *\", or a duration such as 12h",
		}
	}
	t.interval = max(d, minInterval)
	return nil
}

func invalidDuration(field, value, example string) *problem {
	return &problem{executionv1.ReasonInvalidSpec, fmt.Sprintf(
		"%s %q must be a duration of numbers with units (h, m, s), such as %s; days are written in hours", field, value, example)}
}

// cronAdvice is for the mistakes that the parser's own message does not explain.
func cronAdvice(expression string) string {
	fields := strings.Fields(expression)
	switch {
	case strings.HasPrefix(expression, "@"):
		return "; descriptors are @yearly, @monthly, @weekly, @daily, @hourly and @every with a duration"
	case len(fields) == 6:
		return "; leave out the seconds: the fields are minute, hour, day of month, month, day of week"
	case len(fields) != 5:
		return "; the five fields are minute, hour, day of month, month, day of week"
	case strings.Contains(fields[4], "7"):
		return "; Sunday is 0"
	default:
		return ""
	}
}

// parseDuration reads a duration; "" is zero, and a negative one is an error.
func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = strconv.ErrRange
	}
	return d, err
}

// series are the planned times of one timetable.
type series struct {
	*timetable
	// last is when the last run was started; zero if there was none.
	last time.Time
	// created is when the ScheduledScan was created.
	created time.Time
}

// origin is the time after which the first planned time comes. The first run of an interval is planned
// for the creation.
func (s series) origin() time.Time {
	switch {
	case !s.last.IsZero():
		return s.last
	case s.cron == nil:
		return s.created.Add(-time.Nanosecond)
	default:
		return s.created
	}
}

// after returns the first planned time after t, which is not before origin; zero if there is none.
func (s series) after(t time.Time) time.Time {
	if s.cron != nil {
		return s.cron.next(t)
	}
	anchor := s.last
	if anchor.IsZero() {
		anchor = s.created.Add(-s.interval)
	}
	past := max(t.Sub(anchor), 0)
	return ceilSecond(anchor.Add(past - past%s.interval + s.interval))
}

func ceilSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// upcoming returns the run that is due, or else the next one. Of several missed runs it returns the
// first one, as secureCodeBox names it; starting that run skips the others. Runs that are already too
// late are skipped. It returns false if no run can ever start.
func (s series) upcoming(now time.Time) (run, bool) {
	t := s.origin()
	if s.deadline > 0 {
		t = later(t, now.Add(-s.deadline-s.jitter-time.Second))
	}
	for range maxSteps {
		planned := s.after(t)
		if planned.IsZero() {
			return run{}, false
		}
		due := planned.Add(s.offset(planned))
		starts, ok := s.opens(later(due, now))
		if !ok {
			return run{}, false
		}
		if s.deadline == 0 || starts.Sub(due) <= s.deadline {
			return s.permit(run{planned: planned, due: due}, now)
		}
		t = later(planned, starts.Add(-s.deadline-s.jitter-time.Second))
	}
	return run{}, false
}

// permit sets when a run may start. A time that was open when the run came due stays open, so that the
// result does not change from pass to pass.
func (t *timetable) permit(r run, now time.Time) (run, bool) {
	var ok bool
	if r.at, ok = t.opens(r.due); !ok {
		return r, false
	}
	if !r.at.After(now) {
		open, ok := t.opens(now)
		if !ok {
			return r, false
		}
		if open.After(now) {
			r.at = open
		}
	}
	return r, true
}

// offset is how much later than planned a run is due: a number of whole seconds up to jitter, which
// lookbacks random and is always the same.
func (t *timetable) offset(planned time.Time) time.Duration {
	n := uint64(t.jitter / time.Second)
	if n == 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(t.seed + " " + strconv.FormatInt(planned.Unix(), 10)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%(n+1)) * time.Second
}

// opens returns the first time from t on that lies in no window; false if adjacent windows reach beyond
// the horizon.
func (t *timetable) opens(from time.Time) (time.Time, bool) {
	at := from
	for range maxSteps {
		closed := false
		for _, w := range t.windows {
			if end, in := w.endAt(at); in {
				at, closed = end, true
			}
		}
		if !closed {
			return at, true
		}
		if at.Sub(from) > horizon {
			break
		}
	}
	return at, false
}

// lookbacks are how far back the beginning of a window is searched. Near ones come first: where windows
// overlap, a late beginning leads further.
var lookbacks = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, maxWindow}

// endAt returns the end of a window in which t lies.
func (w window) endAt(t time.Time) (time.Time, bool) {
	for _, look := range lookbacks {
		look = min(look, w.duration)
		// The beginning is in the window and the end is not.
		if s := w.cron.next(t.Add(-look)); !s.IsZero() && !s.After(t) {
			return s.Add(w.duration), true
		}
		if look == w.duration {
			break
		}
	}
	return time.Time{}, false
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
