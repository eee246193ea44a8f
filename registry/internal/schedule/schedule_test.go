// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // tests need zones that the machine may lack

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func registry(change func(*registryv1alpha1.RegistrySpec)) *registryv1alpha1.Registry {
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "uid", CreationTimestamp: metav1.Time{Time: created}}}
	change(&r.Spec)
	return r
}

func read(t *testing.T, change func(*registryv1alpha1.RegistrySpec)) *Timetable {
	t.Helper()
	table, problem := Read(registry(change), Discovery, time.LoadLocation)
	if problem != nil {
		t.Fatal(problem)
	}
	return table
}

func hourly(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod, s.Jitter = "1h", "1ms" }

func daily(s *registryv1alpha1.RegistrySpec) {
	s.DiscoverySchedule, s.Jitter, s.TimeZone = "30 3 * * *", "1ms", "Europe/Berlin"
}

func TestJobNames(t *testing.T) {
	if got, want := JobName("prod", "uid", Discovery, created), "prod-d-"; !strings.HasPrefix(got, want) || len(got) != len(want)+hashDigits {
		t.Errorf("name %s", got)
	}
	names := map[string]bool{}
	for _, registry := range []string{"prod", strings.Repeat("a", 39) + "-b" + strings.Repeat("c", 200)} {
		for _, uid := range []string{"1", "2"} {
			for _, kind := range []Kind{Discovery, Scan} {
				for _, at := range []time.Time{created, created.Add(time.Second)} {
					name := JobName(registry, uid, kind, at)
					if names[name] {
						t.Errorf("%s comes twice", name)
					}
					names[name] = true
					if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
						t.Errorf("%s: %v", name, problems)
					}
					if again := JobName(registry, uid, kind, at.In(time.FixedZone("x", 3600))); again != name {
						t.Errorf("%s is %s in another zone", name, again)
					}
				}
			}
		}
	}
}

func TestDecide(t *testing.T) {
	none := func(time.Time) bool { return false }
	hour := func(h float64) time.Time { return created.Add(time.Duration(h * float64(time.Hour))) }
	berlin := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC) }
	window := func(s *registryv1alpha1.RegistrySpec) {
		hourly(s)
		s.Windows = []registryv1alpha1.Window{{Schedule: "30 13 * * *", Duration: "2h"}}
	}
	for name, tc := range map[string]struct {
		spec  func(*registryv1alpha1.RegistrySpec)
		given Observation
		want  Decision
	}{
		"ByHandOnly":       {func(*registryv1alpha1.RegistrySpec) {}, Observation{Now: hour(5)}, Decision{}},
		"AtOnce":           {hourly, Observation{Now: created}, Decision{Start: true, Planned: created, Next: hour(1)}},
		"NotYet":           {hourly, Observation{Now: hour(0.5), Next: hour(1)}, Decision{Next: hour(1)}},
		"Due":              {hourly, Observation{Now: hour(1), Next: hour(1)}, Decision{Start: true, Planned: hour(1), Next: hour(2)}},
		"MissedAreOne":     {hourly, Observation{Now: hour(7.5), Next: hour(1)}, Decision{Start: true, Planned: hour(7), Next: hour(8)}},
		"MadeAlready":      {hourly, Observation{Now: hour(1), Next: hour(1), Exists: hour(1).Equal}, Decision{Planned: hour(1), Next: hour(2)}},
		"AnotherWorks":     {hourly, Observation{Now: hour(1), Next: hour(1), Active: true}, Decision{Skipped: true, Planned: hour(1), Next: hour(2)}},
		"Suspended":        {hourly, Observation{Now: hour(1), Next: hour(1), Suspended: true}, Decision{}},
		"AfterSuspension":  {hourly, Observation{Now: hour(3.5), Next: time.Time{}}, Decision{Start: true, Planned: hour(3), Next: hour(4)}},
		"ShorterPeriod":    {hourly, Observation{Now: hour(2.5), Next: hour(100), Changed: true}, Decision{Next: hour(3)}},
		"StatusWiped":      {hourly, Observation{Now: hour(2.5), Exists: hour(2).Equal}, Decision{Planned: hour(2), Next: hour(3)}},
		"CronIsNotAtOnce":  {daily, Observation{Now: created}, Decision{Next: berlin(2, 2, 30)}},
		"Cron":             {daily, Observation{Now: berlin(2, 2, 31), Next: berlin(2, 2, 30)}, Decision{Start: true, Planned: berlin(2, 2, 30), Next: berlin(3, 2, 30)}},
		"CronMissed":       {daily, Observation{Now: berlin(9, 2, 0), Next: berlin(2, 2, 30)}, Decision{Start: true, Planned: berlin(8, 2, 30), Next: berlin(9, 2, 30)}},
		"InAWindow":        {window, Observation{Now: hour(2), Next: hour(2)}, Decision{Next: hour(3.5)}},
		"AfterTheWindow":   {window, Observation{Now: hour(3.5), Next: hour(3.5)}, Decision{Start: true, Planned: hour(3), Next: hour(4)}},
		"NextIsInAWindow":  {window, Observation{Now: hour(1), Next: hour(1)}, Decision{Start: true, Planned: hour(1), Next: hour(3.5)}},
		"WindowJustBegins": {window, Observation{Now: hour(1.5), Next: hour(1)}, Decision{Next: hour(3.5)}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.given.Exists == nil {
				tc.given.Exists = none
			}
			got := read(t, tc.spec).Decide(tc.given)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestJitter: it is within its bound, the same each time, and another one for another Registry.
func TestJitter(t *testing.T) {
	for name, tc := range map[string]struct {
		spec func(*registryv1alpha1.RegistrySpec)
		most time.Duration
	}{
		"TenthOfThePeriod": {func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod = "10m" }, time.Minute},
		"TenMinutesAtMost": {func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod = "1w" }, mostJitter},
		"Cron":             {func(s *registryv1alpha1.RegistrySpec) { s.DiscoverySchedule = "0 * * * *" }, 6 * time.Minute},
		"Given":            {func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod, s.Jitter = "1h", "20m" }, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			table, again := read(t, tc.spec), read(t, tc.spec)
			other := read(t, tc.spec)
			other.seed = "another"
			amounts, differ := map[time.Duration]bool{}, false
			at := created
			for range 200 {
				at = table.planned(at)
				j := table.jitterOf(at)
				if j < 0 || j >= tc.most {
					t.Fatalf("jitter %v, the most is %v", j, tc.most)
				}
				if j != again.jitterOf(at) {
					t.Fatal("the jitter of one time is not always the same")
				}
				differ = differ || j != other.jitterOf(at)
				amounts[j] = true
			}
			if len(amounts) < 20 || !differ {
				t.Errorf("%d amounts, others differ: %t", len(amounts), differ)
			}
		})
	}
}

func TestInvalidSchedules(t *testing.T) {
	for name, tc := range map[string]struct {
		spec func(*registryv1alpha1.RegistrySpec)
		want string
	}{
		"Zone":      {func(s *registryv1alpha1.RegistrySpec) { s.TimeZone = "Europe/Nowhere" }, "spec.timeZone"},
		"Cron":      {func(s *registryv1alpha1.RegistrySpec) { s.DiscoverySchedule = "61 * * * *" }, "spec.discoverySchedule"},
		"CronZone":  {func(s *registryv1alpha1.RegistrySpec) { s.DiscoverySchedule = "TZ=UTC 1 * * * *" }, "spec.discoverySchedule"},
		"NoSuchDay": {func(s *registryv1alpha1.RegistrySpec) { s.DiscoverySchedule = "0 0 31 2 *" }, "spec.discoverySchedule"},
		"Period":    {func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod = "20s30s" }, "spec.discoveryPeriod"},
		"Jitter":    {func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod, s.Jitter = "1h", "x" }, "spec.jitter"},
		"Window": {func(s *registryv1alpha1.RegistrySpec) {
			s.Windows = []registryv1alpha1.Window{{Schedule: "x", Duration: "1h"}}
		}, "spec.windows[0].schedule"},
		"LongWindow": {func(s *registryv1alpha1.RegistrySpec) {
			s.Windows = []registryv1alpha1.Window{{Schedule: "@daily", Duration: "5w"}}
		}, "spec.windows[0].duration"},
		"NoTimeLeft": {func(s *registryv1alpha1.RegistrySpec) {
			s.DiscoveryPeriod, s.Windows = "1h", []registryv1alpha1.Window{{Schedule: "@daily", Duration: "2d"}}
		}, "spec.windows"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := Read(registry(tc.spec), Discovery, time.LoadLocation)
			if problem == nil || problem.Field != tc.want || problem.Message == "" {
				t.Errorf("problem %v, want one of %s", problem, tc.want)
			}
		})
	}
}

// TestEveryPlannedTimeOnce walks a week with a controller that looks at odd times and forgets its status now and then: each planned
// time has one job at most, and none is left out that was looked at in time.
func TestEveryPlannedTimeOnce(t *testing.T) {
	for name, spec := range map[string]func(*registryv1alpha1.RegistrySpec){
		"Period": func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod = "1h" },
		"Cron":   func(s *registryv1alpha1.RegistrySpec) { s.DiscoverySchedule = "15 * * * *" },
	} {
		t.Run(name, func(t *testing.T) {
			table, made := read(t, spec), map[string]bool{}
			var next time.Time
			for at, i := created, 0; at.Before(created.Add(7 * 24 * time.Hour)); at, i = at.Add(7*time.Minute), i+1 {
				if i%50 == 49 {
					next = time.Time{}
				}
				d := table.Decide(Observation{Now: at, Next: next, Exists: func(p time.Time) bool { return made[JobName("prod", "uid", Discovery, p)] }})
				if d.Start {
					job := JobName("prod", "uid", Discovery, d.Planned)
					if made[job] {
						t.Fatalf("%s is made twice", job)
					}
					made[job] = true
				}
				next = d.Next
			}
			if got, want := len(made), 7*24; got < want-1 || got > want+1 {
				t.Errorf("%d jobs in a week, want %d", got, want)
			}
		})
	}
}

func TestExpired(t *testing.T) {
	ended := func(minutesAgo int) time.Time { return created.Add(-time.Duration(minutesAgo) * time.Minute) }
	ttl := func(d time.Duration) *time.Duration { return &d }
	good := func(name string, ago int) Job {
		return Job{Name: name, Kind: Discovery, Scheduled: true, Succeeded: true, Ended: ended(ago)}
	}
	bad := func(name string, ago int) Job {
		return Job{Name: name, Kind: Discovery, Scheduled: true, Ended: ended(ago)}
	}
	for name, tc := range map[string]struct {
		jobs  []Job
		keep  string
		want  []string
		again time.Time
	}{
		"NewestStay":      {jobs: []Job{good("c", 3), good("a", 1), good("b", 2)}, want: []string{"c"}},
		"ClassesApart":    {jobs: []Job{good("a", 1), bad("b", 2), good("c", 3), bad("d", 4)}, want: []string{"d"}},
		"KindsApart":      {jobs: []Job{good("a", 1), good("b", 2), {Name: "s", Kind: Scan, Scheduled: true, Succeeded: true, Ended: ended(9)}}},
		"ByHandStay":      {jobs: []Job{good("a", 1), good("b", 2), {Name: "hand", Kind: Discovery, Succeeded: true, Ended: ended(900)}}},
		"NewestPlanned":   {jobs: []Job{good("a", 1), good("b", 2), good("c", 3), good("d", 4)}, keep: "d", want: []string{"c"}},
		"TTLHasPassed":    {jobs: []Job{{Name: "a", Ended: ended(5), TTL: ttl(5 * time.Minute)}}, want: []string{"a"}},
		"TTLComes":        {jobs: []Job{{Name: "a", Ended: ended(5), TTL: ttl(6 * time.Minute)}, {Name: "b", Ended: ended(5), TTL: ttl(time.Hour)}}, again: ended(-1)},
		"TTLBeforeLimits": {jobs: []Job{good("a", 1), good("b", 2), {Name: "c", Kind: Discovery, Scheduled: true, Succeeded: true, Ended: ended(3), TTL: ttl(time.Hour)}}, again: ended(-57)},
	} {
		t.Run(name, func(t *testing.T) {
			got, again := Expired(tc.jobs, Limits{Succeeded: 2, Failed: 1}, created, func(name string) bool { return name == tc.keep })
			if diff := cmp.Diff(tc.want, got); diff != "" || !again.Equal(tc.again) {
				t.Errorf("expired (-want +got):\n%s again %v, want %v", diff, again, tc.again)
			}
		})
	}
}
