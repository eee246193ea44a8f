// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/filter"
)

const (
	leastPeriod = time.Minute
	mostJitter  = 10 * time.Minute
	// jitterPart of a period is its jitter where the spec gives none.
	jitterPart = 10
	maxWindow  = 31 * 24 * time.Hour
	// maxSteps bounds every search, horizon how far away the end of windows is looked for.
	maxSteps = 1000
	horizon  = 366 * 24 * time.Hour

	nameLength = 40
	hashDigits = 10
)

// Kind is that of a job, as its name has it.
type Kind string

// The kinds of jobs.
const (
	Discovery Kind = "d"
	Scan      Kind = "s"
)

// JobName is the name of the job of a planned time.
func JobName(registry, uid string, kind Kind, planned time.Time) string {
	sum := sha256.Sum256([]byte(uid + "\x00" + planned.UTC().Format(time.RFC3339)))
	if len(registry) > nameLength {
		registry = strings.TrimRight(registry[:nameLength], "-.")
	}
	return registry + "-" + string(kind) + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

// FieldError is a field that can never work.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Timetable says when the jobs of one kind are planned, and when they may start.
type Timetable struct {
	seed    string
	created time.Time
	period  time.Duration
	cron    cron.Schedule
	zone    *time.Location
	// jitter is that of the spec; less than 0: a tenth of the period.
	jitter  time.Duration
	windows []window
}

type window struct {
	schedule cron.Schedule
	duration time.Duration
}

// Read reads the times of one kind of jobs. There is no Timetable where they are started by hand only. zones finds time zones; the
// name "" is the zone of the controller.
func Read(r *registryv1alpha1.Registry, kind Kind, zones func(string) (*time.Location, error)) (*Timetable, *FieldError) {
	spec := r.Spec
	zone, err := zones(spec.TimeZone)
	if err != nil {
		return nil, &FieldError{"spec.timeZone", fmt.Sprintf("%q is not a known time zone; use an IANA name such as Europe/Berlin or UTC", spec.TimeZone)}
	}
	t := &Timetable{seed: string(r.UID) + string(kind), created: r.CreationTimestamp.Time, zone: zone, jitter: -1}
	period, expression, field := spec.DiscoveryPeriod, spec.DiscoverySchedule, "spec.discovery"
	if kind == Scan {
		period, expression, field = spec.ScanPeriod, spec.ScanSchedule, "spec.scan"
	}
	if problem := t.readWindows(spec); problem != nil {
		return nil, problem
	}
	if spec.Jitter != "" {
		if t.jitter, err = filter.ParseDuration(string(spec.Jitter)); err != nil {
			return nil, &FieldError{"spec.jitter", err.Error()}
		}
	}
	switch {
	case strings.TrimSpace(string(expression)) != "":
		if t.cron, err = parse(string(expression)); err != nil {
			return nil, &FieldError{field + "Schedule", fmt.Sprintf("%q is not a cron expression: %v", expression, err)}
		}
	case period != "":
		if t.period, err = filter.ParseDuration(string(period)); err != nil {
			return nil, &FieldError{field + "Period", err.Error()}
		}
		if t.period < leastPeriod {
			return nil, &FieldError{field + "Period", fmt.Sprintf("%q is too short: it must be at least 1m", period)}
		}
	default:
		return nil, nil // no times is what the spec says
	}
	if _, found := t.after(t.created); !found {
		if t.period > 0 || !t.planned(t.created).IsZero() {
			return nil, &FieldError{"spec.windows", "no job can ever start: the windows leave no time"}
		}
		return nil, &FieldError{field + "Schedule", "no job can ever start: the date does not exist"}
	}
	return t, nil
}

func (t *Timetable) readWindows(spec registryv1alpha1.RegistrySpec) *FieldError {
	for i, w := range spec.Windows {
		schedule, err := parse(w.Schedule)
		if err != nil {
			return &FieldError{fmt.Sprintf("spec.windows[%d].schedule", i), fmt.Sprintf("%q is not a cron expression: %v", w.Schedule, err)}
		}
		duration, err := filter.ParseDuration(string(w.Duration))
		if err == nil && duration > maxWindow {
			err = fmt.Errorf("%q is too long: a window lasts 31d at most", w.Duration)
		}
		if err != nil {
			return &FieldError{fmt.Sprintf("spec.windows[%d].duration", i), err.Error()}
		}
		t.windows = append(t.windows, window{schedule, duration})
	}
	return nil
}

var errZone = errors.New("name the time zone in spec.timeZone")

func parse(expression string) (cron.Schedule, error) {
	expression = strings.TrimSpace(expression)
	if strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=") {
		return nil, errZone
	}
	return cron.ParseStandard(expression)
}

// planned is the first planned time after t; zero: there is none.
func (t *Timetable) planned(after time.Time) time.Time {
	if t.cron != nil {
		return t.cron.Next(after.In(t.zone))
	}
	if after.Before(t.created) {
		return t.created
	}
	elapsed := after.Sub(t.created)
	return after.Add(t.period - elapsed%t.period)
}

// newest is the last planned time that is not after now and not before from.
func (t *Timetable) newest(from, now time.Time) time.Time {
	if t.cron == nil {
		elapsed := max(now.Sub(t.created), 0)
		return t.created.Add(elapsed - elapsed%t.period)
	}
	newest := from
	for at, steps := from, 0; ; steps++ {
		at = t.planned(at)
		if at.IsZero() || at.After(now) {
			return newest
		}
		newest = at
		if steps >= maxSteps {
			// So many were missed that nobody asks for which one is made up.
			return now.Truncate(time.Minute)
		}
	}
}

// start is when the job of a planned time may start: with its jitter, and outside of the windows; false: never.
func (t *Timetable) start(planned time.Time) (time.Time, bool) {
	return t.Open(planned.Add(t.jitterOf(planned)))
}

// after is when the first job planned after a time may start.
func (t *Timetable) after(from time.Time) (time.Time, bool) {
	planned := t.planned(from)
	if planned.IsZero() {
		return time.Time{}, false
	}
	return t.start(planned)
}

// jitterOf is the same for a planned time whenever it is asked for.
func (t *Timetable) jitterOf(planned time.Time) time.Duration {
	most := t.jitter
	if most < 0 {
		period := t.period
		if t.cron != nil {
			period = t.planned(planned).Sub(planned)
		}
		most = min(period/jitterPart, mostJitter)
	}
	if most < time.Second {
		return 0
	}
	sum := sha256.Sum256([]byte(t.seed + "\x00" + planned.UTC().Format(time.RFC3339)))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(most/time.Second)) * time.Second
}

// Open is the first time from t on that lies in no window; false: there is none within a year.
func (t *Timetable) Open(from time.Time) (time.Time, bool) {
	at := from
	for range maxSteps {
		end := t.closed(at)
		if end.IsZero() {
			return at, true
		}
		at = end
		if at.Sub(from) > horizon {
			break
		}
	}
	return time.Time{}, false
}

// closed is the end of a window that t lies in; zero: t lies in none.
func (t *Timetable) closed(at time.Time) time.Time {
	for _, w := range t.windows {
		begin := w.schedule.Next(at.Add(-w.duration).In(t.zone))
		if !begin.IsZero() && !begin.After(at) {
			return begin.Add(w.duration)
		}
	}
	return time.Time{}
}
