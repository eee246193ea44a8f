// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/settings"
)

// noon is the time of most tests; the ScheduledScan was created two days before.
var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

const digest = "0123456789abcdef"

// scene is what decide is shown.
type scene func(*Observation)

// show builds an observation: an hourly ScheduledScan whose last run was at 11:30.
func show(scenes ...scene) *Observation {
	s := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{
			Name: "nightly", Namespace: "team-a", UID: "uid", Generation: 2, CreationTimestamp: metav1.Time{Time: noon.AddDate(0, 0, -2)},
		},
		Spec: executionv1.ScheduledScanSpec{
			Interval: "1h", ScanSpec: &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"example.com"}},
		},
	}
	o := &Observation{Now: noon, Scheduled: s, Digest: digest, Bounds: settings.Compute(settings.Input{}).Schedules}
	ran(noon.Add(-30 * time.Minute))(o)
	for _, sc := range scenes {
		sc(o)
	}
	SortChildren(o.Children)
	o.ReadSpec(loadZone)
	return o
}

// ran sets the last run, as this operator records it.
func ran(last time.Time) scene {
	return func(o *Observation) {
		o.Scheduled.Status.LastScheduleTime = &metav1.Time{Time: last}
		o.Scheduled.Status.ScanTypeHash = mark{digest: digest, lastRun: last}.String()
	}
}

func neverRan(o *Observation) {
	o.Scheduled.Status = executionv1.ScheduledScanStatus{}
}

// setTo is a client that writes lastScheduleTime.
func setTo(last time.Time) scene {
	return func(o *Observation) { o.Scheduled.Status.LastScheduleTime = &metav1.Time{Time: last} }
}

func hashIs(text string) scene {
	return func(o *Observation) { o.Scheduled.Status.ScanTypeHash = text }
}

func spec(options ...specOption) scene {
	return func(o *Observation) {
		for _, option := range options {
			option(&o.Scheduled.Spec)
		}
	}
}

func policy(p executionv1.ConcurrencyPolicy) scene {
	return spec(func(s *executionv1.ScheduledScanSpec) { s.ConcurrencyPolicy = p })
}

func suspended(o *Observation) { o.Scheduled.Spec.Suspend = new(true) }

func retrigger(o *Observation) { o.Scheduled.Spec.RetriggerOnScanTypeChange = true }

func scanType(digest string) scene { return func(o *Observation) { o.Digest = digest } }

func noScanType(o *Observation) {
	o.Digest, o.Missing = "", "spec.scanSpec.scanType: there is no ScanType \"nmap\""
}

func has(name string, state executionv1.ScanState, age time.Duration) scene {
	return func(o *Observation) {
		o.Children = append(o.Children, Child{Name: name, UID: types.UID("uid-" + name), State: state, Created: o.Now.Add(-age)})
	}
}

func deletedFor(d time.Duration) scene {
	return func(o *Observation) { o.Children[len(o.Children)-1].Deleted = o.Now.Add(-d) }
}

func clockAt(t time.Time) scene { return func(o *Observation) { o.Now = t } }

const (
	running = executionv1.ScanStateScanning
	done    = executionv1.ScanStateDone
	errored = executionv1.ScanStateErrored
)

// hourly is a schedule whose last run was 11:00, so that 12:00 is due at noon.
func hourly(o *Observation) {
	spec(cronOf("0 * * * *"))(o)
	ran(noon.Add(-time.Hour).Add(2 * time.Second))(o)
}

func TestDecide(t *testing.T) {
	due := ran(noon.Add(-2 * time.Hour)) // since one hour
	cases := map[string]struct {
		scenes []scene
		step   string
		// starts is the name of the Scan that is started.
		starts string
		reason string
		// next is status.nextScheduleTime.
		next string
		// last is status.lastScheduleTime.
		last    string
		requeue time.Duration
	}{
		"NotYet":            {nil, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},
		"FirstOfInterval":   {[]scene{neverRan}, "Start", "nightly-1767441600", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"FirstOfCron":       {[]scene{neverRan, spec(cronOf("0 13 * * *"))}, "Start", "nightly-1767445200", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"Due":               {[]scene{hourly}, "Start", "nightly-1767614400", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"DueSoon":           {[]scene{hourly, clockAt(noon.Add(-90 * time.Second))}, "Wait", "", "Scheduled", "12:00:00", "11:00:02", 90 * time.Second},
		"CatchUp":           {[]scene{spec(cronOf("0 * * * *")), ran(noon.Add(-49 * time.Hour))}, "Start", "nightly-1767441600", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"Suspended":         {[]scene{due, suspended}, "Suspended", "", "Suspended", "", "10:00:00", 0},
		"SuspendedAndAsked": {[]scene{setTo(noon.Add(-25 * time.Hour)), suspended}, "Suspended", "", "Suspended", "", "11:00:00", 0},

		"Forbid":                {[]scene{due, policy("Forbid"), has("a", running, time.Hour)}, "Blocked", "", "ConcurrencyPolicyBlocks", "11:00:00", "10:00:00", 0},
		"ForbidButAllEnded":     {[]scene{due, policy("Forbid"), has("a", done, time.Hour), has("b", errored, time.Hour)}, "Start", "nightly-1767610800", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ForbidWhileOneIsGoing": {[]scene{due, policy("Forbid"), has("a", running, time.Hour), deletedFor(time.Minute)}, "Blocked", "", "ConcurrencyPolicyBlocks", "11:00:00", "10:00:00", 10 * time.Minute},
		"ForbidAndDeadline":     {[]scene{due, policy("Forbid"), spec(deadline(3630)), has("a", running, time.Hour)}, "Blocked", "", "ConcurrencyPolicyBlocks", "11:00:00", "10:00:00", 31 * time.Second},
		"ForbidNotYetDue":       {[]scene{policy("Forbid"), has("a", running, time.Hour)}, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},
		"Allow":                 {[]scene{due, policy("Allow"), has("a", running, time.Hour)}, "Start", "nightly-1767610800", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"Replace":               {[]scene{due, policy("Replace"), has("a", running, time.Hour)}, "Replace", "", "ReplacingScans", "11:00:00", "10:00:00", 0},
		"ReplaceWaits":          {[]scene{due, policy("Replace"), has("a", running, time.Hour), deletedFor(14 * time.Minute)}, "Replace", "", "ReplacingScans", "11:00:00", "10:00:00", time.Minute},
		"ReplaceAfterAWhile":    {[]scene{due, policy("Replace"), has("a", running, time.Hour), deletedFor(15 * time.Minute)}, "Start", "nightly-1767610800", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ItsOwnScanIsNoOther":   {[]scene{due, policy("Forbid"), has("nightly-1767610800", running, time.Minute)}, "Record", "", "Scheduled", "12:59:00", "11:59:00", 10 * time.Minute},

		"Window":             {[]scene{due, spec(closed("0 8 * * *", "4h5m"))}, "Blackout", "", "InBlackoutWindow", "12:05:00", "10:00:00", 5 * time.Minute},
		"WindowHoldsClients": {[]scene{setTo(noon.Add(-25 * time.Hour)), spec(closed("0 8 * * *", "4h5m"))}, "Blackout", "", "InBlackoutWindow", "12:05:00", "11:00:00", 5 * time.Minute},
		"NeverAnyDate":       {[]scene{spec(cronOf("0 0 31 2 *"))}, "Never", "", "ScheduleNeverFires", "", "11:30:00", 0},
		"NeverOpen":          {[]scene{spec(closed("@hourly", "2h"))}, "Never", "", "ScheduleNeverFires", "", "11:30:00", 0},
		"Typo":               {[]scene{spec(cronOf("0 3 * * MOON"))}, "Invalid", "", "ScheduleParseError", "", "11:30:00", 0},
		"TypoAndSuspended":   {[]scene{spec(cronOf("0 3 * * MOON")), suspended}, "Invalid", "", "ScheduleParseError", "", "11:30:00", 0},
		"NoScanType":         {[]scene{noScanType}, "Wait", "", "ScanTypeNotFound", "12:30:00", "11:30:00", 10 * time.Minute},
		"NoScanTypeButDue":   {[]scene{due, noScanType}, "Start", "nightly-1767610800", "ScanTypeNotFound", "13:00:00", "12:00:00", 10 * time.Minute},

		"ClientSetsItBack":        {[]scene{setTo(noon.Add(-25 * time.Hour))}, "Start", "nightly-1767612601", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ClientSetsItBackALittle": {[]scene{setTo(noon.Add(-31 * time.Minute))}, "Start", "nightly-1767612601", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ClientRemovesIt":         {[]scene{func(o *Observation) { o.Scheduled.Status.LastScheduleTime = nil }}, "Start", "nightly-1767612601", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ClientSetsItForward":     {[]scene{setTo(noon.Add(5 * time.Hour))}, "Wait", "", "Scheduled", "18:00:00", "17:00:00", 10 * time.Minute},

		"ScanTypeChanged":           {[]scene{retrigger, scanType("other")}, "Start", "nightly-1767612601", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ScanTypeChangedUnasked":    {[]scene{scanType("other")}, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},
		"ScanTypeUnchanged":         {[]scene{retrigger}, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},
		"ScanTypeGone":              {[]scene{retrigger, noScanType}, "Wait", "", "ScanTypeNotFound", "12:30:00", "11:30:00", 10 * time.Minute},
		"ScanTypeChangedSuspended":  {[]scene{retrigger, scanType("other"), suspended}, "Suspended", "", "Suspended", "", "11:30:00", 0},
		"ScanTypeChangedForbid":     {[]scene{retrigger, scanType("other"), policy("Forbid"), has("a", running, time.Minute)}, "Blocked", "", "ConcurrencyPolicyBlocks", "11:30:01", "11:30:00", 0},
		"ScanTypeCameAfterAFailure": {[]scene{retrigger, hashIs("v1-none-1767612600"), has("a", errored, time.Hour)}, "Start", "nightly-1767612601", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"ScanTypeCameInTime":        {[]scene{retrigger, hashIs("v1-none-1767612600"), has("a", running, time.Hour)}, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},
		"ForeignHash":               {[]scene{retrigger, hashIs("12345678901234567890")}, "Wait", "", "Scheduled", "12:30:00", "11:30:00", 10 * time.Minute},

		"RecordLost":          {[]scene{hourly, has("nightly-1767614400", running, 10*time.Second)}, "Record", "", "Scheduled", "13:00:00", "12:00:00", 10 * time.Minute},
		"RecordLostAtSuspend": {[]scene{hourly, suspended, has("nightly-1767614400", done, 0)}, "Record", "", "Suspended", "", "12:00:00", 0},
		"StatusWiped":         {[]scene{neverRan, has("nightly-1", done, 10*time.Minute)}, "Wait", "", "Scheduled", "12:50:00", "11:50:00", 10 * time.Minute},
		"ClockWasAYearAhead":  {[]scene{ran(noon.AddDate(1, 0, 0))}, "ClockWasWrong", "", "", "", "12:00:00", time.Millisecond},
		"ClockWasAnHourAhead": {[]scene{hourly, ran(noon.Add(time.Hour))}, "Wait", "", "Scheduled", "14:00:00", "13:00:00", 10 * time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := show(c.scenes...)
			before := o.Scheduled.DeepCopy()
			d := Decide(o)
			if diff := cmp.Diff(before, o.Scheduled); diff != "" {
				t.Errorf("decide has changed what it was shown:\n%s", diff)
			}
			got := []string{d.Step, starts(d), readyReason(d), clockOf(d.Status.NextScheduleTime), clockOf(d.Status.LastScheduleTime), d.RequeueAfter.String()}
			want := []string{c.step, c.starts, c.reason, c.next, c.last, c.requeue.String()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("step, starts, reason, next, last, requeue (-want +got):\n%s", diff)
			}
		})
	}
}

func starts(d Decision) string {
	if d.Start == nil {
		return ""
	}
	return d.Start.Names[0]
}

func readyReason(d Decision) string {
	if c := meta.FindStatusCondition(d.Status.Conditions, executionv1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func clockOf(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.TimeOnly)
}

// TestDefect34AScheduledScanBeingDeletedStartsNothing, whatever is due.
func TestDefect34AScheduledScanBeingDeletedStartsNothing(t *testing.T) {
	o := show(neverRan, func(o *Observation) { o.Scheduled.DeletionTimestamp = &metav1.Time{Time: noon} })
	if diff := cmp.Diff(Decision{Step: "Deleted"}, Decide(o), cmp.AllowUnexported(Start{})); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

// TestDefect35ADueTimeIsNeverMissed: whatever the time is at which a pass looks, it
// starts the run or comes back in time.
func TestDefect35ADueTimeIsNeverMissed(t *testing.T) {
	for offset := -2 * time.Second; offset <= 2*time.Second; offset += 100 * time.Millisecond {
		now := noon.Add(offset)
		d := Decide(show(hourly, clockAt(now)))
		if d.Start == nil && (d.RequeueAfter <= 0 || now.Add(d.RequeueAfter).After(noon)) {
			t.Errorf("at %v: step %s, back after %s", now, d.Step, d.RequeueAfter)
		}
		if d.Start != nil && now.Before(noon) {
			t.Errorf("at %v it starts too early", now)
		}
	}
}

// TestDefect38HistoryLimits: three of each are kept where nothing is said, as
// documented; the newest stay, and what runs or is being deleted does not count.
func TestDefect38HistoryLimits(t *testing.T) {
	children := []scene{
		has("d1", done, 1*time.Minute), has("d2", done, 2*time.Minute), has("d3", done, 3*time.Minute), has("d4", done, 4*time.Minute), has("d5", done, 5*time.Minute),
		has("e1", errored, 1*time.Minute), has("e2", errored, 2*time.Minute), has("e3", errored, 3*time.Minute), has("e4", errored, 4*time.Minute),
		has("gone", done, 9*time.Minute), deletedFor(time.Second), has("r1", running, time.Hour), has("r2", executionv1.ScanStateNew, time.Hour),
	}
	limits := func(success, failed int32) scene {
		return func(o *Observation) {
			o.Scheduled.Spec.SuccessfulJobsHistoryLimit, o.Scheduled.Spec.FailedJobsHistoryLimit = &success, &failed
		}
	}
	for name, c := range map[string]struct {
		scenes []scene
		want   []string
	}{
		"Default":        {nil, []string{"d5", "d4", "e4"}},
		"Zero":           {[]scene{limits(0, 0)}, []string{"d5", "d4", "d3", "d2", "d1", "e4", "e3", "e2", "e1"}},
		"Some":           {[]scene{limits(1, 2)}, []string{"d5", "d4", "d3", "d2", "e4", "e3"}},
		"WhileSuspended": {[]scene{suspended, limits(4, 4)}, []string{"d5"}},
		"WhileInvalid":   {[]scene{spec(cronOf("x")), limits(4, 4)}, []string{"d5"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range Decide(show(append(slices.Clone(children), c.scenes...)...)).Prune {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScheduleFlood: a spec beyond the bounds of the cluster's settings gets the bound, and its condition says so.
func TestScheduleFlood(t *testing.T) {
	limits := func(done, failed int32) specOption {
		return func(s *executionv1.ScheduledScanSpec) {
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = &done, &failed
		}
	}
	bounds := func(least time.Duration, most int32) scene {
		return func(o *Observation) { o.Bounds = settings.Schedules{MinInterval: least, MaxHistory: most} }
	}
	for name, tc := range map[string]struct {
		scene  []scene
		next   time.Duration // after the last run
		says   string
		pruned int
	}{
		"Nanosecond": {[]scene{spec(every("1ns"))}, 10 * time.Second, "Runs are planned at least 10s apart, as schedules.minIntervalSeconds of the ClusterScanSetting says, and not 1s.", 0},
		"Second":     {[]scene{spec(every("1s"))}, 10 * time.Second, "and not 1s.", 0},
		"Every":      {[]scene{spec(cronOf("@every 2s"), every(""))}, 10 * time.Second, "at least 10s apart, as schedules.minIntervalSeconds of the ClusterScanSetting says, and not 2s.", 0},
		"AtTheBound": {[]scene{spec(every("10s"))}, 10 * time.Second, "", 0},
		"Settings":   {[]scene{spec(every("1m")), bounds(time.Hour, 100)}, time.Hour, "at least 1h0m0s apart", 0},
		"Lowered":    {[]scene{spec(every("2s")), bounds(time.Second, 100)}, 2 * time.Second, "", 0},
		"Minutes":    {[]scene{spec(cronOf("* * * * *"), every(""))}, time.Minute, "", 0},
		"History":    {[]scene{spec(limits(2000, 3)), bounds(time.Second, 1), has("a", done, 3*time.Hour), has("b", done, 2*time.Hour)}, time.Hour, "At most 1 Scans are kept, as schedules.maxHistory of the ClusterScanSetting says, and not the 2000 of spec.successfulJobsHistoryLimit.", 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(show(append([]scene{ran(noon), clockAt(noon)}, tc.scene...)...))
			if got := d.Status.NextScheduleTime.Sub(noon); got != tc.next {
				t.Errorf("the next run is after %s, want %s", got, tc.next)
			}
			message := d.Status.Conditions[0].Message
			if !strings.Contains(message, tc.says) || (tc.says == "") != (message == "Runs are started as planned.") {
				t.Errorf("it says %q", message)
			}
			if len(d.Prune) != tc.pruned {
				t.Errorf("%d Scans are removed, want %d", len(d.Prune), tc.pruned)
			}
		})
	}
}

// TestDefect41APendingRetriggerWritesNothing while it waits: the second look finds the
// status as it should be.
func TestDefect41APendingRetriggerWritesNothing(t *testing.T) {
	for name, hold := range map[string]scene{"Suspended": suspended, "Forbid": policy("Forbid"), "Blackout": spec(closed("0 8 * * *", "10h"))} {
		t.Run(name, func(t *testing.T) {
			scenes := []scene{retrigger, scanType("other"), has("a", running, time.Minute), hold}
			first := Decide(show(scenes...))
			if first.Start != nil {
				t.Fatalf("it is started: step %s", first.Step)
			}
			o := show(append(scenes, clockAt(noon.Add(3*time.Second)), func(o *Observation) { o.Scheduled.Status = *first.Status })...)
			second := Decide(o)
			if diff := cmp.Diff(first.Status, second.Status); diff != "" {
				t.Errorf("the status changes with every look:\n%s", diff)
			}
			if len(second.Events) > 0 {
				t.Errorf("Events come again: %v", second.Events)
			}
		})
	}
}

// TestDefect42RareSchedulesCanBeTriggered, by any time in the past.
func TestDefect42RareSchedulesCanBeTriggered(t *testing.T) {
	for _, expression := range []string{"0 3 * * 1", "0 3 1 * *", "@yearly"} {
		// secureCodeBox's clients subtract interval + 24 h; a cron schedule has no interval.
		o := show(spec(cronOf(expression), every("")), ran(noon.Add(-time.Hour)), setTo(noon.Add(-24*time.Hour)))
		d := Decide(o)
		if d.Start == nil || d.Start.Trigger != ByClient {
			t.Errorf("%s: step %s", expression, d.Step)
		}
	}
}

// TestDefect42TheFirstRunCanBeAskedFor: a schedule that never ran starts at a client's time, and once; what another
// operator has recorded starts nothing.
func TestDefect42TheFirstRunCanBeAskedFor(t *testing.T) {
	created := noon.AddDate(0, 0, -2)
	monthly := spec(cronOf("0 3 1 * *"), every(""))
	looked := Decide(show(monthly, neverRan))
	if looked.Status == nil || looked.Start != nil {
		t.Fatalf("step %s, status %v", looked.Step, looked.Status)
	}
	seen := hashIs(looked.Status.ScanTypeHash)
	for name, tc := range map[string]struct {
		scenes []scene
		starts bool
	}{
		"Seen":              {[]scene{neverRan, seen, setTo(noon.Add(-24 * time.Hour))}, true},
		"SeenSetToLongAgo":  {[]scene{neverRan, seen, setTo(time.Unix(0, 0))}, true},
		"NotSeenButEarlier": {[]scene{neverRan, setTo(created.Add(-time.Hour))}, true},
		"WithForeignHash":   {[]scene{neverRan, hashIs("12345678901234567890"), setTo(created.Add(-time.Hour))}, false},
		"AnotherOperators":  {[]scene{neverRan, setTo(noon.Add(-24 * time.Hour))}, false},
		"Nothing":           {[]scene{neverRan, seen}, false},
		"AfterARun":         {[]scene{neverRan, seen, setTo(noon.Add(-24 * time.Hour)), has("a", executionv1.ScanStateDone, time.Hour)}, false},
	} {
		d := Decide(show(append([]scene{monthly}, tc.scenes...)...))
		if started := d.Start != nil && d.Start.Trigger == ByClient; started != tc.starts {
			t.Errorf("%s: step %s, started %v", name, d.Step, started)
		}
	}
}

// TestDefect42AnOldClientThatDropsNewFields still requests a run: the fields that it keeps show the request.
func TestDefect42AnOldClientThatDropsNewFields(t *testing.T) {
	o := show(spec(cronOf("@yearly"), every("")), ran(noon.Add(-time.Hour)), func(o *Observation) {
		old := o.Scheduled.Status
		o.Scheduled.Status = executionv1.ScheduledScanStatus{ScanTypeHash: old.ScanTypeHash}
	}, setTo(noon.Add(-24*time.Hour)))
	if d := Decide(o); d.Start == nil {
		t.Errorf("step %s", d.Step)
	}
}

// TestDefect43AForeignHashIsAdopted without starting anything, and a change of the
// ScanType after that counts.
func TestDefect43AForeignHashIsAdopted(t *testing.T) {
	first := Decide(show(retrigger, hashIs("12345678901234567890")))
	if first.Start != nil {
		t.Fatal("a run is started")
	}
	m, ok := parseMark(first.Status.ScanTypeHash)
	if !ok || m.digest != digest || !m.lastRun.Equal(noon.Add(-30*time.Minute)) {
		t.Fatalf("the hash is %q", first.Status.ScanTypeHash)
	}
	next := Decide(show(retrigger, scanType("other"), func(o *Observation) { o.Scheduled.Status = *first.Status }))
	if next.Start == nil || next.Start.Trigger != ByScanType {
		t.Errorf("step %s", next.Step)
	}
}

// TestEventsComeOnce: a problem sends one Event.
func TestEventsComeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		scenes  []scene
		reason  string
		warning bool
	}{
		"Typo":   {[]scene{spec(cronOf("x"))}, executionv1.ReasonScheduleParseError, true},
		"Forbid": {[]scene{ran(noon.Add(-2 * time.Hour)), policy("Forbid"), has("a", running, time.Hour)}, executionv1.ReasonConcurrencyPolicyBlocks, false},
		"Type":   {[]scene{noScanType}, executionv1.ReasonScanTypeNotFound, true},
	} {
		t.Run(name, func(t *testing.T) {
			first := Decide(show(c.scenes...))
			if len(first.Events) != 1 || first.Events[0].Reason != c.reason || first.Events[0].Warning != c.warning {
				t.Errorf("Events are %+v", first.Events)
			}
			again := Decide(show(append(c.scenes, func(o *Observation) { o.Scheduled.Status = *first.Status })...))
			if len(again.Events) > 0 {
				t.Errorf("again %+v", again.Events)
			}
		})
	}
}

func TestFindingsOfTheNewestDone(t *testing.T) {
	counts := &executionv1.FindingStats{Count: ptr.To[int64](3), FindingSeverities: executionv1.FindingSeverities{High: ptr.To[int64](3), Low: ptr.To[int64](0)}}
	d := Decide(show(has("old", done, time.Hour), has("new", done, time.Minute), has("failed", errored, time.Second), func(o *Observation) { o.Findings = counts }))
	want := executionv1.FindingStats{Count: ptr.To[int64](3), FindingSeverities: executionv1.FindingSeverities{High: ptr.To[int64](3)}}
	if diff := cmp.Diff(want, d.Status.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if d.Status.FindingsFrom != "new" {
		t.Errorf("findings are from %q", d.Status.FindingsFrom)
	}
}

// TestEveryRunOnce plays runs of random schedules, in which passes fail before or after
// the Scan is created, clients ask for runs and ScanTypes change. Every pass that means
// the same run arrives at the same name, and no name comes twice.
func TestEveryRunOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		table := randomSpec(r)
		table.Windows, table.StartingDeadlineSeconds = nil, nil
		o := show(neverRan, retrigger, func(o *Observation) {
			scan := o.Scheduled.Spec.ScanSpec
			o.Scheduled.Spec = table
			o.Scheduled.Spec.ScanSpec, o.Scheduled.Spec.RetriggerOnScanTypeChange = scan, true
		})
		if o.problem != nil {
			t.Fatal(o.problem.message)
		}
		created := map[string]int{}
		for range 200 {
			o.Now = o.Now.Add(time.Duration(r.Int64N(int64(3 * time.Hour))))
			switch r.IntN(10) {
			case 0:
				setTo(o.Now.AddDate(0, 0, -r.IntN(9)))(o)
			case 1:
				o.Digest = string(rune('a' + r.IntN(26)))
			case 2:
				o.Now = o.Now.Add(-time.Hour) // the clock is set back
			}
			d := Decide(o)
			if d.Start == nil {
				o.Scheduled.Status = *d.Status
				continue
			}
			name := starts(d)
			created[name]++
			if created[name] > 1 {
				t.Fatalf("%+v: %s is started again", table, name)
			}
			for range r.IntN(3) { // status writes that fail
				o.Now = o.Now.Add(time.Duration(r.Int64N(int64(time.Minute))))
				if again := Decide(o); again.Start == nil || starts(again) != name {
					t.Fatalf("the next pass means %s, not %s", starts(again), name)
				}
			}
			o.Scheduled.Status = *d.Status
		}
	}
}

func TestChildNames(t *testing.T) {
	planned := time.Unix(1767614400, 0)
	long := strings.Repeat("a", 250)
	for name, c := range map[string]struct{ scheduled, want string }{
		"Usual":  {"nightly", "nightly-1767614400"},
		"Dotted": {"a.b", "a.b-1767614400"},
		"Long":   {long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := childName(c.scheduled, planned)
			if c.want != "" && got != c.want {
				t.Errorf("name is %s, want %s", got, c.want)
			}
			if len(got) > 253 || len(childNameOf(c.scheduled, "uid", planned)) > 253 {
				t.Errorf("%s is too long", got)
			}
		})
	}
	if childName(long+"x", planned) == childName(long+"y", planned) {
		t.Error("two long names lead to one")
	}
}

func TestMark(t *testing.T) {
	for _, m := range []mark{{digest: "abc", lastRun: noon}, {lastRun: noon}, {lastRun: noon, never: true}} {
		got, ok := parseMark(m.String())
		if !ok || got.digest != m.digest || got.never != m.never || !got.lastRun.Equal(m.lastRun) {
			t.Errorf("%s is read as %+v", m, got)
		}
	}
	for _, text := range []string{"", "1234567890", "v1-", "v1--1", "v2-abc-1", "v1-abc-x", "v1-abc-1-2"} {
		if m, ok := parseMark(text); ok {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

func TestDefect43DigestsChangeWithTheScanTypeOnly(t *testing.T) {
	base := func() (*metav1.ObjectMeta, *executionv1.ScanTypeSpec) {
		return &metav1.ObjectMeta{Name: "nmap", Namespace: "a", ResourceVersion: "1", Labels: map[string]string{"helm.sh/chart": "nmap-1", "securecodebox.io/x": "1"}},
			&executionv1.ScanTypeSpec{ExtractResults: executionv1.ExtractResults{Type: "nmap-xml"}}
	}
	of := func(change func(*metav1.ObjectMeta, *executionv1.ScanTypeSpec)) string {
		m, s := base()
		change(m, s)
		d, err := DigestOf("ScanType", m, s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := of(func(*metav1.ObjectMeta, *executionv1.ScanTypeSpec) {})
	// Held for ever: another value would start every ScheduledScan with the flag again.
	if want != "6bbfbb51c262681e" {
		t.Errorf("digest is %s", want)
	}
	same := map[string]func(*metav1.ObjectMeta, *executionv1.ScanTypeSpec){
		"Version":    func(m *metav1.ObjectMeta, _ *executionv1.ScanTypeSpec) { m.ResourceVersion, m.Generation = "2", 3 },
		"ChartLabel": func(m *metav1.ObjectMeta, _ *executionv1.ScanTypeSpec) { m.Labels["helm.sh/chart"] = "nmap-2" },
		"EmptyList": func(_ *metav1.ObjectMeta, s *executionv1.ScanTypeSpec) {
			s.JobTemplate.Spec.Template.Spec.Tolerations = []corev1.Toleration{}
		},
	}
	for name, change := range same {
		if of(change) != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	other := map[string]func(*metav1.ObjectMeta, *executionv1.ScanTypeSpec){
		"Spec":  func(_ *metav1.ObjectMeta, s *executionv1.ScanTypeSpec) { s.ExtractResults.Type = "other" },
		"Label": func(m *metav1.ObjectMeta, _ *executionv1.ScanTypeSpec) { m.Labels["securecodebox.io/x"] = "2" },
		"Annotation": func(m *metav1.ObjectMeta, _ *executionv1.ScanTypeSpec) {
			m.Annotations = map[string]string{"scan.securecodebox.io/y": "1"}
		},
		"Name": func(m *metav1.ObjectMeta, _ *executionv1.ScanTypeSpec) { m.Name = "other" },
	}
	for name, change := range other {
		if of(change) == want {
			t.Errorf("%s does not change the digest", name)
		}
	}
}
