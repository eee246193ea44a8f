// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // tests need zones that the machine may lack

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// times lists what next returns one after the other, between two times.
func times(t *testing.T, c *cronTable, from, to string) []string {
	t.Helper()
	var all []string
	for v := c.next(at(t, from)); !v.After(at(t, to)); v = c.next(v) {
		if v.IsZero() || len(all) > 200 {
			t.Fatalf("next returned %v after %v", v, all)
		}
		all = append(all, v.In(c.zone).Format("01-02 15:04 -0700"))
	}
	return all
}

// TestDefect39DaylightSaving: a time that clocks skip is made up for, one that they show
// twice runs once.
func TestDefect39DaylightSaving(t *testing.T) {
	cases := map[string]struct {
		cron, zone, from, to string
		want                 []string
	}{
		"SkippedTimeRunsRightAfterTheChange": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-28 02:30 +0100", "03-29 03:00 +0200", "03-30 02:30 +0200"},
		},
		"RepeatedTimeRunsTheFirstTime": {
			"30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"10-24 02:30 +0200", "10-25 02:30 +0200", "10-26 02:30 +0100"},
		},
		"HourlyGoesByElapsedTimeInSpring": {
			"0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00+01:00", "2026-03-29T05:00:00+02:00",
			[]string{"03-29 01:00 +0100", "03-29 03:00 +0200", "03-29 04:00 +0200", "03-29 05:00 +0200"},
		},
		"HourlyGoesByElapsedTimeInAutumn": {
			"0 * * * *", "Europe/Berlin", "2026-10-25T00:30:00+02:00", "2026-10-25T03:00:00+01:00",
			[]string{"10-25 01:00 +0200", "10-25 02:00 +0200", "10-25 02:00 +0100", "10-25 03:00 +0100"},
		},
		"SeveralSkippedTimesRunOnce": {
			"*/15 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-08T12:00:00-04:00",
			[]string{"03-08 03:00 -0400"},
		},
		"SkippedTimeAndTheNextHourFallTogether": {
			"0 2,3 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-08T12:00:00-04:00",
			[]string{"03-08 03:00 -0400"},
		},
		"EveryQuarterOfARepeatedHourRunsOnce": {
			"*/30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-11-01T12:00:00-05:00",
			[]string{"11-01 01:00 -0400", "11-01 01:30 -0400"},
		},
		"MidnightThatDoesNotExist": {
			"0 0 * * *", "Africa/Cairo", "2026-04-22T12:00:00Z", "2026-04-25T00:00:00Z",
			[]string{"04-23 00:00 +0200", "04-24 01:00 +0300", "04-25 00:00 +0300"},
		},
		"HalfAnHour": {
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00+10:30", "2026-10-05T00:00:00+11:00",
			[]string{"10-03 02:15 +1030", "10-04 02:30 +1100"},
		},
		"ACountryThatChangesItsZoneSkipsADay": {
			"0 3 * * *", "Pacific/Apia", "2011-12-28T12:00:00Z", "2011-12-31T20:00:00Z",
			[]string{"12-28 03:00 -1000", "12-29 03:00 -1000", "12-31 03:00 +1400", "01-01 03:00 +1400"},
		},
		"OtherDaysOfTheWeekAreNotMadeUpFor": {
			"30 2 * * 1-5", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-30 02:30 +0200"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			table, err := parseCron(c.cron, zone(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, times(t, table, c.from, c.to)); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCronNext(t *testing.T) {
	cases := map[string]struct{ cron, after, want string }{
		"ItselfIsNotNext":    {"0 3 * * *", "2026-01-02T03:00:00Z", "2026-01-03T03:00:00Z"},
		"FractionsOfASecond": {"0 3 * * *", "2026-01-02T02:59:59.9Z", "2026-01-02T03:00:00Z"},
		"LeapDay":            {"0 0 29 2 *", "2026-01-02T03:00:00Z", "2028-02-29T00:00:00Z"},
		"Descriptor":         {"@weekly", "2026-01-02T03:00:00Z", "2026-01-04T00:00:00Z"},
		"Every":              {"@every 90m", "2026-01-02T03:00:00Z", "2026-01-02T04:30:00Z"},
		"NamesOfDays":        {"15 4 * JAN MON", "2026-01-02T03:00:00Z", "2026-01-05T04:15:00Z"},
		"DayOfMonthOrWeek":   {"0 0 13 * 5", "2026-01-02T03:00:00Z", "2026-01-09T00:00:00Z"},
		"Never":              {"0 0 31 2 *", "2026-01-02T03:00:00Z", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			table, err := parseCron(c.cron, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			got := table.next(at(t, c.after))
			if c.want == "" {
				if !got.IsZero() {
					t.Errorf("next is %v, want none", got)
				}
				return
			}
			if !got.Equal(at(t, c.want)) {
				t.Errorf("next is %v, want %s", got, c.want)
			}
		})
	}
}

func TestCronRefuses(t *testing.T) {
	for _, text := range []string{
		"", "x", "61 * * * *", "* * * *", "0 0 3 * * *", "TZ=UTC 0 3 * * *", "TZ=", "CRON_TZ=x", "@every -1h", "@every 10ms", "@every x",
		"@nightly", "*/0 * * * *", "0 3 * * 8", "0 24 * * *", "5-1 * * * *",
	} {
		if _, err := parseCron(text, time.UTC); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestCronAgreesWithTheWallClock compares next with a walk over every minute of the wall
// clock, over expressions, zones and times drawn at random and near changes of clocks.
func TestCronAgreesWithTheWallClock(t *testing.T) {
	r := rand.New(rand.NewPCG(20261121, 5))
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata", "UTC", "America/St_Johns", "Africa/Casablanca"}
	for range 400 {
		z := zone(t, zones[r.IntN(len(zones))])
		expression := randomCron(r)
		c, err := parseCron(expression, z)
		if err != nil {
			t.Fatalf("%q: %v", expression, err)
		}
		start := time.Date(2026, time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), 0, 0, time.UTC)
		if _, change := start.In(z).ZoneBounds(); !change.IsZero() && r.IntN(2) == 0 {
			start = change.Add(-time.Duration(r.IntN(2000)) * time.Minute)
		}
		end := start.Add(4 * 24 * time.Hour)
		want := walk(t, expression, c.everyHour, z, start, end)
		var got []time.Time
		for v := c.next(start); !v.IsZero() && !v.After(end); v = c.next(v) {
			got = append(got, v.UTC())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q in %v after %v (-want +got):\n%s", expression, z, start, diff)
		}
	}
}

func randomCron(r *rand.Rand) string {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	return strings.Join([]string{
		pick("0", "30", "*/15", "5,35", "59", "*"), pick("*", "2", "0", "1-3", "*/2", "3", "23", "1"),
		pick("*", "*", "*", "*/2"), pick("*"), pick("*", "*", "0,6", "1-5"),
	}, " ")
}

// walk is next by brute force, written from the rule and not from the code.
func walk(t *testing.T, expression string, everyHour bool, z *time.Location, start, end time.Time) []time.Time {
	t.Helper()
	spec, err := cron.ParseStandard(expression)
	if err != nil {
		t.Fatal(err)
	}
	fields := spec.(*cron.SpecSchedule)
	matches := func(wall time.Time) bool {
		has := func(bits uint64, n int) bool { return bits>>n&1 == 1 }
		day, weekday := has(fields.Dom, wall.Day()), has(fields.Dow, int(wall.Weekday()))
		days := day && weekday
		if !has(fields.Dom, 63) && !has(fields.Dow, 63) { // neither is *
			days = day || weekday
		}
		return days && has(fields.Month, int(wall.Month())) && has(fields.Hour, wall.Hour()) && has(fields.Minute, wall.Minute())
	}
	wallOf := func(v time.Time) time.Time {
		l := v.In(z)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	var all []time.Time
	shown := map[time.Time]bool{}
	previous := wallOf(start.Add(-5 * time.Hour))
	for v := start.Add(-5 * time.Hour); !v.After(end); v = v.Add(time.Minute) {
		wall := wallOf(v)
		runs := matches(wall) && (everyHour || !shown[wall])
		for skipped := previous.Add(time.Minute); !everyHour && skipped.Before(wall); skipped = skipped.Add(time.Minute) {
			runs = runs || matches(skipped)
		}
		shown[wall], previous = true, wall
		if runs && v.After(start) {
			all = append(all, v.UTC())
		}
	}
	return slices.Clip(all)
}

// TestCronTakesAnyText: no text makes the parser or the search panic, hang or go back.
func TestCronTakesAnyText(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const letters = "0123456789 **//--,,??@LWMON everydaily=TZ\t"
	now := at(t, "2026-01-02T03:04:05Z")
	taken := 0
	for range 50000 {
		var text strings.Builder
		if r.IntN(2) == 0 {
			text.WriteString([]string{"0 3 * * ", "@every ", "*/5 1-4 29 2", "TZ=", "CRON_TZ= "}[r.IntN(5)])
		}
		for range r.IntN(12) {
			text.WriteByte(letters[r.IntN(len(letters))])
		}
		c, err := parseCron(text.String(), time.UTC)
		if err != nil {
			continue
		}
		taken++
		if next := c.next(now); !next.IsZero() && !next.After(now) {
			t.Errorf("%q: next after %v is %v", text.String(), now, next)
		}
	}
	if taken < 100 {
		t.Errorf("only %d texts were cron expressions: does this test still try any?", taken)
	}
}
