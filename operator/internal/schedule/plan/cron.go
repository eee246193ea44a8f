// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// maxClockChange is the largest change of clocks that counts as daylight saving. A larger change is a
// country that changes its zone: then no skipped run is made up for.
const maxClockChange = 3 * time.Hour

// cronTable is a cron expression in a zone.
//
// The library is only used for zones of one fixed offset, in which every day has 24 hours; this package
// decides what happens where the offset changes. If the hour of the expression is *, runs go by elapsed
// time. Otherwise each time of the wall clock runs once: a skipped time runs at the moment of the
// change, a repeated time runs the first time.
type cronTable struct {
	schedule cron.Schedule
	zone     *time.Location
	// everyHour is true if the hour is not restricted.
	everyHour bool
}

var errZonePrefix = errors.New("it begins with a time zone; name the zone in spec.timeZone")

// parseCron reads an expression of five fields or a descriptor.
func parseCron(expression string, zone *time.Location) (*cronTable, error) {
	expression = strings.TrimSpace(expression)
	if strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=") {
		return nil, errZonePrefix
	}
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, err
	}
	c := &cronTable{schedule: schedule, zone: zone}
	switch s := schedule.(type) {
	case *cron.SpecSchedule:
		const hours = 1<<24 - 1
		c.everyHour = bits.OnesCount64(s.Hour&hours) == 24
	case cron.ConstantDelaySchedule:
		if d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(expression, "@every"))); err != nil || d < time.Second {
			return nil, fmt.Errorf("%q: the duration must be at least 1s", expression)
		}
	}
	return c, nil
}

// next returns the first time after t, or the zero time if there is none within years.
func (c *cronTable) next(t time.Time) time.Time {
	s, ok := c.schedule.(*cron.SpecSchedule)
	if !ok {
		return c.schedule.Next(t)
	}
	from, last := t, t.AddDate(searchYears, 0, 0)
	for p := periodOf(t, c.zone); ; p = periodOf(p.end, c.zone) {
		if at := c.within(s, p, from); !at.IsZero() {
			return at
		}
		if p.end.IsZero() || p.end.After(last) {
			return time.Time{}
		}
		from = p.end.Add(-time.Second) // the moment of the change belongs to the next period
	}
}

// searchYears is how many years ahead a date is searched.
const searchYears = 5

// within returns the first time after t that lies in the period; a time that the end of the period
// skips is moved to that end.
func (c *cronTable) within(s *cron.SpecSchedule, p period, t time.Time) time.Time {
	fixed := *s
	fixed.Location = p.fixed
	at := fixed.Next(t)
	if repeats := p.start.Add(p.repeated); !c.everyHour && p.repeated > 0 && !at.IsZero() && at.Before(repeats) {
		// The wall clock has already shown this time before the change.
		at = fixed.Next(repeats.Add(-time.Second))
	}
	switch {
	case at.IsZero(), p.end.IsZero(), at.Before(p.end):
		return at
	case !c.everyHour && at.Before(p.end.Add(p.skipped)):
		return p.end
	default:
		return time.Time{}
	}
}

// period is a time over which a zone has one offset.
type period struct {
	// start and end bound it; the zero time means no bound.
	start, end time.Time
	fixed      *time.Location
	// repeated is how much of the wall clock from start has been shown before.
	repeated time.Duration
	// skipped is how much of the wall clock is left out at end.
	skipped time.Duration
}

// periodOf returns the period of a zone that t lies in.
func periodOf(t time.Time, zone *time.Location) period {
	t = t.In(zone)
	name, offset := t.Zone()
	p := period{fixed: time.FixedZone(name, offset)}
	p.start, p.end = t.ZoneBounds()
	if !p.start.IsZero() {
		_, before := p.start.Add(-time.Second).In(zone).Zone()
		p.repeated = clockChange(before - offset)
	}
	if !p.end.IsZero() {
		_, after := p.end.In(zone).Zone()
		p.skipped = clockChange(after - offset)
	}
	return p
}

func clockChange(seconds int) time.Duration {
	d := time.Duration(seconds) * time.Second
	if d < 0 || d > maxClockChange {
		return 0
	}
	return d
}
