// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// queueTest is a Queue whose watches and passes the test plays.
type queueTest struct {
	*testing.T

	queue *Queue
	clock *clocktesting.FakePassiveClock
	woken []string
	kueue bool
}

func newQueueTest(t *testing.T, limits fair.Limits) *queueTest {
	t.Helper()
	g := &queueTest{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))}
	g.queue = New(Options{Clock: g.clock, Kueue: func(context.Context) (bool, error) { return g.kueue, nil }})
	g.queue.wake = func(req reconcile.Request, _ int) { g.woken = append(g.woken, req.Name) }
	g.queue.SetLimits(limits)
	g.queue.openUp()
	return g
}

// newScan makes a Scan namespace/name that was created now.
func (g *queueTest) newScan(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	namespace, _, _ := strings.Cut(name, "-")
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: g.clock.Now()},
	}}
	s.Spec.ScanType = "nmap"
	for _, o := range options {
		o(s)
	}
	return s
}

// create lets a Scan come. It returns the Scan.
func (g *queueTest) create(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	s := g.newScan(name, options...)
	g.queue.ScanSeen(s)
	return s
}

// change shows a Scan with a change.
func (g *queueTest) change(s *executionv1.Scan, how func(*executionv1.Scan)) *executionv1.Scan {
	s = s.DeepCopy()
	how(s)
	g.queue.ScanSeen(s)
	return s
}

func inState(to executionv1.ScanState) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Status.State = to }
}

// begin does what a pass over a Scan does that may begin.
func (g *queueTest) begin(s *executionv1.Scan) *executionv1.Scan {
	g.Helper()
	if a := g.queue.Position(s); a.Wait || !g.queue.Reserve(s) {
		g.Errorf("%s may not begin", s.Name)
	}
	g.queue.jobSeen(scannerJob(s, false), false)
	return g.change(s, inState(executionv1.ScanStateScanning))
}

func scannerJob(s *executionv1.Scan, ended bool) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: "scan-" + s.Name, UID: "job-of-" + s.UID,
		Labels:          map[string]string{executionv1.LabelJobType: executionv1.JobTypeScanner},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, executionv1.SchemeGroupVersion.WithKind("Scan"))},
	}}
	if ended {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
	return j
}

// expect says who may begin, by a look that changes nothing, and who was woken since.
func (g *queueTest) expect(running int, woken ...string) {
	g.Helper()
	slices.Sort(g.woken)
	if diff := cmp.Diff(woken, g.woken); diff != "" {
		g.Errorf("woken (-want +got):\n%s", diff)
	}
	g.woken = nil
	if got := g.queue.listing.Running(); got != running {
		g.Errorf("%d run, want %d", got, running)
	}
}

func clusterLimit(n int32) fair.Limits {
	return fair.Limits{Cluster: fair.Bounds{MaxRunning: new(n)}}
}

func TestQueueWithoutLimits(t *testing.T) {
	g := newQueueTest(t, fair.Limits{})
	for i := range 20 {
		s := g.newScan(fmt.Sprintf("a-%d", i))
		if i%2 == 0 {
			g.queue.ScanSeen(s) // the watch may be behind the pass
		}
		if a := g.queue.Position(s); a.Wait || a.Limited || a.Report != nil {
			t.Errorf("%s: %+v", s.Name, a)
		}
		g.queue.ScanSeen(s)
	}
	if len(g.woken) != 0 {
		t.Errorf("woken for nothing: %v", g.woken)
	}
	if reported, _ := g.queue.reportSome(10); reported != 0 {
		t.Errorf("%d are reported", reported)
	}
}

// A slot goes from one Scan to the next when it has ended, and to no Scan before.
func TestQueueHandsSlotsOn(t *testing.T) {
	g := newQueueTest(t, clusterLimit(2))
	a, b, c, d := g.create("a-1"), g.create("a-2"), g.create("a-3"), g.create("b-1")
	g.expect(2, "a-1", "a-2")
	for _, s := range []*executionv1.Scan{c, d} {
		if a := g.queue.Position(s); !a.Wait {
			t.Errorf("%s may begin", s.Name)
		}
	}
	a, b = g.begin(a), g.begin(b)
	g.queue.jobSeen(scannerJob(a, true), false)
	for _, st := range []executionv1.ScanState{executionv1.ScanStateParsing, executionv1.ScanStateHookProcessing} {
		a = g.change(a, inState(st)) // parser and hooks count
	}
	g.expect(2)
	g.change(a, inState(executionv1.ScanStateDone))
	g.expect(2, "b-1") // whose namespace has none
	d = g.begin(d)
	g.queue.jobSeen(scannerJob(b, true), false)
	g.change(b, inState(executionv1.ScanStateErrored))
	g.expect(2, "a-3")
	g.begin(c)
	g.queue.gone(d.UID)
	g.expect(1)
}

// A Scan that has ended, as its status says, holds its slot for as long as Jobs of it run: pods may
// write the status. Jobs of other namespaces, and those that are held, do not count for it.
func TestQueueCountsJobsOfWhatHasEnded(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	a, _ := g.create("a-1"), g.create("a-2")
	g.expect(1, "a-1")
	a = g.begin(a)
	a = g.change(a, inState(executionv1.ScanStateDone))
	g.expect(1)
	g.change(a, inState(executionv1.ScanStateNew))
	g.change(a, inState(executionv1.ScanStateErrored))
	g.expect(1)
	elsewhere := scannerJob(a, false)
	elsewhere.Namespace, elsewhere.UID = "b", "elsewhere"
	g.queue.jobSeen(elsewhere, false)
	held := scannerJob(a, false)
	held.Spec.Suspend = new(true)
	g.queue.jobSeen(held, false) // as one is that has passed its deadline
	g.expect(1, "a-2")
}

// Who goes out of turn is what the Queue has decided, not what a status says.
func TestQueueKnowsWhoWentOutOfTurn(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	a := g.begin(g.create("a-1"))
	g.expect(1, "a-1")
	g.change(a, func(s *executionv1.Scan) {
		s.Status.Conditions = []metav1.Condition{{Type: executionv1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: executionv1.ReasonWaitedLongest}}
	})
	if s, _ := g.queue.listing.Get(string(a.UID)); s.OutOfTurn {
		t.Error("a Scan that says that it went out of turn keeps others from it")
	}
}

// What leaves the queue leaves at once, and is not woken any more.
func TestQueueLeavesQueue(t *testing.T) {
	cases := map[string]func(*executionv1.Scan){
		"Deleted":   func(s *executionv1.Scan) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"Cancelled": func(s *executionv1.Scan) { s.Spec.Cancel = new(true) },
		"Suspended": func(s *executionv1.Scan) { s.Spec.Suspend = new(true) },
		"Errored":   inState(executionv1.ScanStateErrored),
	}
	for name, how := range cases {
		t.Run(name, func(t *testing.T) {
			g := newQueueTest(t, clusterLimit(1))
			first, second, _ := g.create("a-1"), g.create("a-2"), g.create("a-3")
			g.expect(1, "a-1")
			g.change(second, how)
			if n := g.queue.listing.Waiting(); n != 1 {
				t.Errorf("%d wait", n)
			}
			g.change(first, how) // it had its turn and did not begin
			g.expect(1, "a-3")
		})
	}
}

// A Scan that gets its turn and lacks something else lets the next one go, and comes back.
func TestQueuePassesOn(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	first := g.create("a-1")
	g.create("a-2")
	g.expect(1, "a-1")
	g.queue.Release(first.UID, Unready) // its ScanType is missing
	g.expect(1, "a-2")
	g.change(first, func(s *executionv1.Scan) { s.Labels = map[string]string{"a": "b"} })
	g.queue.Release(first.UID, Unready)
	g.expect(1)
	if g.queue.Reserve(first) { // the ScanType is there
		t.Error("it may begin beside the other")
	}
	g.queue.gone("uid-a-2")
	g.expect(1, "a-1")
}

// A Scan that holds a slot is not left behind others when it needs another pass to begin.
func TestQueueContinues(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	first, second := g.create("a-1"), g.create("a-2")
	g.expect(1, "a-1")
	g.queue.Release(second.UID, Interrupted)
	g.queue.Release(first.UID, Interrupted)
	g.expect(1, "a-1")
}

// The slot is kept while the Job may be there, and given back when it certainly is not.
func TestQueueKeepsSlotOfUncertainJob(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	first := g.create("a-1")
	g.create("a-2")
	g.queue.Reserve(first)
	g.queue.Release(first.UID, Unready) // the response of the API server was lost
	g.expect(1, "a-1")
	g.queue.Release(first.UID, NotCreated)
	g.queue.Release(first.UID, Unready)
	g.expect(1, "a-2")
}

// A suspended Scan holds its slot while its Job runs, and not for longer.
func TestQueueSuspendedScan(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	first := g.begin(g.create("a-1"))
	g.create("a-2")
	g.expect(1, "a-1")
	first = g.change(first, func(s *executionv1.Scan) { s.Spec.Suspend = new(true) })
	g.expect(1)
	g.queue.jobSeen(scannerJob(first, true), false)
	g.expect(1, "a-2")
	g.change(first, func(s *executionv1.Scan) { s.Spec.Suspend = nil })
	g.expect(2) // it continues where it was, over the limit
	g.queue.gone("uid-a-2")
	g.expect(1)
}

// A restarted operator finds what runs: by the state of the Scan, or only by its Job.
func TestQueueAfterRestart(t *testing.T) {
	g := newQueueTest(t, fair.Limits{})
	fresh := New(Options{Clock: g.clock, AwaitLimits: true})
	fresh.wake = g.queue.wake
	g.queue = fresh
	a, b, c := g.newScan("a-1", inState(executionv1.ScanStateParsing)), g.newScan("a-2"), g.newScan("a-3")
	fresh.jobSeen(scannerJob(b, false), false) // Jobs may be listed before Scans
	for _, s := range []*executionv1.Scan{c, b, a} {
		fresh.ScanSeen(s)
		if s.UID == c.UID && !fresh.Position(s).Wait {
			t.Error("a Scan may begin before the limits are known")
		}
	}
	fresh.SetLimits(clusterLimit(2))
	if !fresh.Position(c).Wait {
		t.Error("a Scan may begin before everything was listed")
	}
	fresh.openUp()
	g.expect(2)
	fresh.jobSeen(scannerJob(b, true), false)
	g.expect(2) // its state will show it soon
	g.change(b, inState(executionv1.ScanStateDone))
	g.expect(2, "a-3")
}

// Where limits were awaited and there are none, those that asked are woken.
func TestQueueAwaitsNoLimits(t *testing.T) {
	g := newQueueTest(t, fair.Limits{})
	fresh := New(Options{Clock: g.clock, AwaitLimits: true})
	fresh.wake = g.queue.wake
	g.queue = fresh
	s := g.create("a-1")
	if !fresh.Position(s).Wait {
		t.Error("it may begin before the limits are known")
	}
	fresh.SetLimits(fair.Limits{})
	fresh.openUp()
	g.expect(0, "a-1")
	if fresh.Position(s).Wait {
		t.Error("it may not begin")
	}
}

func TestQueueLimitsChange(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	for _, n := range []string{"a-1", "a-2", "a-3", "a-4"} {
		g.create(n)
	}
	g.expect(1, "a-1")
	g.queue.SetLimits(clusterLimit(2))
	g.expect(2, "a-2")
	g.queue.SetLimits(clusterLimit(1))
	g.expect(2)
	g.queue.gone("uid-a-1")
	g.expect(1)
	g.queue.SetLimits(fair.Limits{})
	g.expect(3, "a-3", "a-4")
}

// A pass that comes before the watch has shown its Scan does not lose its turn.
func TestQueuePassBeforeWatch(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	s := g.newScan("a-1")
	if !g.queue.Position(s).Wait {
		t.Error("a Scan that is not listed may begin")
	}
	g.queue.ScanSeen(s)
	g.expect(1, "a-1")
	if g.queue.Position(s).Wait {
		t.Error("it may not begin")
	}
}

// TestQueuePassBeforeWatchShowsChange: a pass sees that a Scan is let go before the Queue's watch has
// shown it. Without limits the Scan begins; with limits it is woken when the watch shows it.
func TestQueuePassBeforeWatchShowsChange(t *testing.T) {
	for name, tc := range map[string]struct {
		limits fair.Limits
		wait   bool
		woken  []string
	}{
		"NoLimits": {limits: fair.Limits{}},
		"Room":     {limits: clusterLimit(1), wait: true, woken: []string{"a-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newQueueTest(t, tc.limits)
			s := g.newScan("a-1", func(s *executionv1.Scan) { s.Spec.Suspend = new(true) })
			g.queue.ScanSeen(s)
			letGo := s.DeepCopy()
			letGo.Spec.Suspend = nil
			if a := g.queue.Position(letGo); a.Wait != tc.wait {
				t.Errorf("the Scan waits: %t, want %t", a.Wait, tc.wait)
			}
			g.queue.ScanSeen(letGo)
			g.begin(letGo)
			g.expect(1, tc.woken...)
		})
	}
}

// A pass over a Scan that is gone brings nothing back.
func TestQueuePassAfterDeletion(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	s := g.create("a-1")
	g.queue.gone(s.UID)
	g.queue.Position(s)
	g.queue.Reserve(s)
	g.queue.Release(s.UID, Unready)
	g.expect(0, "a-1")
	if len(g.queue.entries) != 0 {
		t.Errorf("left: %v", g.queue.entries)
	}
}

func TestQueueRerunOfScannerWaitsAnew(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	old := g.begin(g.create("a-1"))
	g.queue.jobSeen(scannerJob(old, true), false)
	g.change(old, inState(executionv1.ScanStateDone))
	g.clock.SetTime(g.clock.Now().Add(3 * time.Hour))
	g.begin(g.create("a-2"))
	g.clock.SetTime(g.clock.Now().Add(time.Minute))
	g.create("a-3")
	g.clock.SetTime(g.clock.Now().Add(time.Minute))
	g.change(old, func(s *executionv1.Scan) {
		s.Status = executionv1.ScanStatus{
			Attempts:   &executionv1.PhaseAttempts{Scanner: 2},
			Conditions: []metav1.Condition{{Type: executionv1.ConditionRerun, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Time{Time: g.clock.Now()}}},
		}
	})
	g.expect(1, "a-1", "a-2")
	g.queue.gone("uid-a-2")
	g.expect(1, "a-3")
	g.queue.gone("uid-a-3")
	g.expect(1, "a-1")
}

// The Scan that has waited longest goes ahead; the Queue reads from the Scan's condition afterwards
// why it went ahead.
func TestQueueOutOfTurn(t *testing.T) {
	g := newQueueTest(t, clusterLimit(2))
	g.begin(g.create("a-1"))
	g.begin(g.create("b-1"))
	victim := g.create("a-2")
	g.clock.SetTime(g.clock.Now().Add(fair.Patience))
	g.create("c-1")
	g.woken = nil
	g.queue.gone("uid-b-1")
	g.expect(2, "a-2")
	a := g.queue.Position(victim)
	if !a.OutOfTurn {
		t.Errorf("%+v", a)
	}
	o := &life.Observation{Now: g.clock.Now(), Scan: victim, Turn: a}
	s := life.NewStatus(o)
	s.Admitted(o)
	victim = g.change(victim, func(v *executionv1.Scan) { v.Status = *s.ScanStatus; v.Status.State = executionv1.ScanStateScanning })
	if at, _ := g.queue.listing.Get(string(victim.UID)); !at.OutOfTurn || !at.Running {
		t.Errorf("%+v", at)
	}
}

// Positions are reported to the first Scans first, once, and again only after a large change.
func TestQueueReportsPositions(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	scans := make([]*executionv1.Scan, 9)
	for i := range scans {
		scans[i] = g.create(fmt.Sprintf("a-%d", i))
	}
	g.expect(1, "a-0")
	g.queue.reportSome(100)
	g.expect(1) // they wait for a moment only
	g.clock.SetTime(g.clock.Now().Add(reportAfter))
	if reported, waiting := g.queue.reportSome(3); reported != 3 || waiting != 8 {
		t.Errorf("%d are reported, %d wait", reported, waiting)
	}
	g.expect(1, "a-1", "a-2", "a-3")
	if reported, _ := g.queue.reportSome(100); reported != 5 {
		t.Errorf("%d more are reported", reported)
	}
	g.woken = nil
	for _, s := range scans[1:] {
		a := g.queue.Position(s)
		if !a.Wait || a.Report == nil {
			t.Fatalf("%s: %+v", s.Name, a)
		}
		g.queue.Reported(s.UID, a.Report)
		if a := g.queue.Position(s); a.Report != nil {
			t.Errorf("%s is reported twice", s.Name)
		}
	}
	g.clock.SetTime(g.clock.Now().Add(reportAgain))
	g.queue.reportSome(100)
	g.expect(1)
	for i := range 4 { // each start moves the others up by one
		g.queue.gone(types.UID(fmt.Sprintf("uid-a-%d", i)))
	}
	g.woken = nil
	g.queue.reportSome(100)
	g.expect(1, "a-5", "a-6", "a-7", "a-8") // from 5 to 1, 6 to 2, 7 to 3 and 8 to 4
}

// A restarted operator does not report again what a condition says already.
func TestQueueReportsNothingTwiceAfterRestart(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	g.create("a-1")
	s := g.newScan("a-2")
	at := &fair.Standing{Position: 1, Of: 1, NamespacePosition: 1, NamespaceOf: 1, Limit: fair.Limit{Kind: fair.ClusterLimit}, Bound: 1}
	o := &life.Observation{Now: g.clock.Now(), Scan: s, Turn: life.Turn{Wait: true, Report: at}}
	var d life.Decision
	life.WaitForTurn(o, &d)
	s.Status = *d.Status
	g.queue.ScanSeen(s)
	g.clock.SetTime(g.clock.Now().Add(time.Hour))
	if reported, _ := g.queue.reportSome(10); reported != 0 {
		t.Errorf("%d are reported", reported)
	}
}

func TestQueueKueue(t *testing.T) {
	label := func(s *executionv1.Scan) { s.Labels = map[string]string{executionv1.LabelKueueQueue: "team"} }
	g := newQueueTest(t, clusterLimit(1))
	g.create("a-1")
	s := g.create("a-2", label)
	g.expect(1, "a-1")
	if a := g.queue.Position(s); !a.Wait || a.Delegated {
		t.Errorf("without Kueue the label means nothing: %+v", a)
	}
	g.kueue = true
	if err := g.queue.lookForKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.expect(1, "a-2")
	if a := g.queue.Position(s); a.Wait || !a.Delegated {
		t.Errorf("%+v", a)
	}
	g.begin(s)
	g.expect(1)
	g.kueue = false
	if err := g.queue.lookForKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.expect(2)
}

func TestQueueMetrics(t *testing.T) {
	g := newQueueTest(t, clusterLimit(1))
	g.create("a-1")
	g.create("a-2")
	g.clock.SetTime(g.clock.Now().Add(30 * time.Second))
	g.create("b-1")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(g.queue))
	want := `
# HELP scanyard_queue_oldest_wait_seconds How long the Scan has waited that has waited longest.
# TYPE scanyard_queue_oldest_wait_seconds gauge
scanyard_queue_oldest_wait_seconds{namespace="a"} 30
scanyard_queue_oldest_wait_seconds{namespace="b"} 0
# HELP scanyard_queue_running Scans that hold a slot.
# TYPE scanyard_queue_running gauge
scanyard_queue_running{namespace="a"} 1
scanyard_queue_running{namespace="b"} 0
# HELP scanyard_queue_waiting Scans that wait for their turn.
# TYPE scanyard_queue_waiting gauge
scanyard_queue_waiting{namespace="a"} 1
scanyard_queue_waiting{namespace="b"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestBoundedNamespaces(t *testing.T) {
	var all []fair.Tenancy
	for i := range 150 {
		all = append(all, fair.Tenancy{Namespace: strconv.Itoa(i), Waiting: 1, Running: 2, Oldest: time.Unix(int64(1000-i), 0)})
	}
	got := bounded(all)
	if diff := cmp.Diff(fair.Tenancy{Namespace: "other", Waiting: 51, Running: 102, Oldest: time.Unix(851, 0)}, got[99]); diff != "" || len(got) != 100 {
		t.Errorf("%d (-want +got):\n%s", len(got), diff)
	}
	if diff := cmp.Diff(all[:20], bounded(all[:20])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
