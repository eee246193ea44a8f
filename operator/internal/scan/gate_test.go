// SPDX-License-Identifier: Apache-2.0

package scan

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
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

// gateTest is a Gate whose watches and passes the test plays.
type gateTest struct {
	*testing.T

	gate  *Gate
	clock *clocktesting.FakePassiveClock
	woken []string
	kueue bool
}

func newGateTest(t *testing.T, limits queue.Limits) *gateTest {
	t.Helper()
	g := &gateTest{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))}
	g.gate = NewGate(GateOptions{Clock: g.clock, Kueue: func(context.Context) (bool, error) { return g.kueue, nil }})
	g.gate.wake = func(req reconcile.Request, _ int) { g.woken = append(g.woken, req.Name) }
	g.gate.SetLimits(limits)
	g.gate.openUp()
	return g
}

// newScan makes a Scan namespace/name that was created now.
func (g *gateTest) newScan(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
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

// create lets a Scan come and has its first pass ask. It returns the Scan.
func (g *gateTest) create(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	s := g.newScan(name, options...)
	g.gate.scanSeen(s)
	g.gate.ask(s)
	return s
}

// change shows a Scan with a change.
func (g *gateTest) change(s *executionv1.Scan, how func(*executionv1.Scan)) *executionv1.Scan {
	s = s.DeepCopy()
	how(s)
	g.gate.scanSeen(s)
	return s
}

func state(to executionv1.ScanState) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Status.State = to }
}

// begin does what a pass over a Scan does that may begin.
func (g *gateTest) begin(s *executionv1.Scan) *executionv1.Scan {
	g.Helper()
	if a := g.gate.ask(s); a.wait {
		g.Errorf("%s may not begin", s.Name)
	}
	g.gate.beginning(s.UID)
	g.gate.jobSeen(scannerJob(s, false), false)
	return g.change(s, state(executionv1.ScanStateScanning))
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
func (g *gateTest) expect(running int, woken ...string) {
	g.Helper()
	slices.Sort(g.woken)
	if diff := cmp.Diff(woken, g.woken); diff != "" {
		g.Errorf("woken (-want +got):\n%s", diff)
	}
	g.woken = nil
	if got := g.gate.state.Running(); got != running {
		g.Errorf("%d run, want %d", got, running)
	}
}

func clusterLimit(n int32) queue.Limits {
	return queue.Limits{Cluster: queue.Bounds{MaxRunning: new(n)}}
}

func TestGateWithoutLimits(t *testing.T) {
	g := newGateTest(t, queue.Limits{})
	for i := range 20 {
		s := g.newScan(fmt.Sprintf("a-%d", i))
		if i%2 == 0 {
			g.gate.scanSeen(s) // the watch may be behind the pass
		}
		if a := g.gate.ask(s); a.wait || a.limited || a.tell != nil {
			t.Errorf("%s: %+v", s.Name, a)
		}
		g.gate.scanSeen(s)
	}
	if len(g.woken) != 0 {
		t.Errorf("woken for nothing: %v", g.woken)
	}
	if told, _ := g.gate.tellSome(10); told != 0 {
		t.Errorf("%d are told that they wait", told)
	}
}

// A slot goes from one Scan to the next when it has ended, and to nobody before.
func TestGateHandsSlotsOn(t *testing.T) {
	g := newGateTest(t, clusterLimit(2))
	a, b, c, d := g.create("a-1"), g.create("a-2"), g.create("a-3"), g.create("b-1")
	g.expect(2, "a-1", "a-2")
	for _, s := range []*executionv1.Scan{c, d} {
		if a := g.gate.ask(s); !a.wait {
			t.Errorf("%s may begin", s.Name)
		}
	}
	a, b = g.begin(a), g.begin(b)
	g.gate.jobSeen(scannerJob(a, true), false)
	for _, st := range []executionv1.ScanState{executionv1.ScanStateParsing, executionv1.ScanStateHookProcessing} {
		a = g.change(a, state(st)) // parser and hooks count
	}
	g.expect(2)
	g.change(a, state(executionv1.ScanStateDone))
	g.expect(2, "b-1") // whose namespace has none
	d = g.begin(d)
	g.change(b, state(executionv1.ScanStateErrored))
	g.expect(2, "a-3")
	g.begin(c)
	g.gate.gone(d.UID)
	g.expect(1)
}

// What leaves the queue leaves at once, and is not woken any more.
func TestGateLeavesQueue(t *testing.T) {
	cases := map[string]func(*executionv1.Scan){
		"Deleted":   func(s *executionv1.Scan) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"Cancelled": func(s *executionv1.Scan) { s.Spec.Cancel = new(true) },
		"Suspended": func(s *executionv1.Scan) { s.Spec.Suspend = new(true) },
		"Errored":   state(executionv1.ScanStateErrored),
	}
	for name, how := range cases {
		t.Run(name, func(t *testing.T) {
			g := newGateTest(t, clusterLimit(1))
			first, second, _ := g.create("a-1"), g.create("a-2"), g.create("a-3")
			g.expect(1, "a-1")
			g.change(second, how)
			if n := g.gate.state.Waiting(); n != 1 {
				t.Errorf("%d wait", n)
			}
			g.change(first, how) // it had its turn and did not begin
			g.expect(1, "a-3")
		})
	}
}

// A Scan that gets its turn and lacks something else lets the next one go, and comes back.
func TestGatePassesOn(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	first := g.create("a-1")
	g.create("a-2")
	g.expect(1, "a-1")
	g.gate.pass(first.UID) // its ScanType is missing
	g.expect(1, "a-2")
	g.change(first, func(s *executionv1.Scan) { s.Labels = map[string]string{"a": "b"} })
	g.gate.pass(first.UID)
	g.expect(1)
	if a := g.gate.ask(first); !a.wait { // the ScanType is there
		t.Error("it may begin beside the other")
	}
	g.gate.gone("uid-a-2")
	g.expect(1, "a-1")
}

// A Scan that holds a slot is not left behind others when it needs another pass to begin.
func TestGateGoesOn(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	first, second := g.create("a-1"), g.create("a-2")
	g.expect(1, "a-1")
	g.gate.goOn(second.UID)
	g.gate.goOn(first.UID)
	g.expect(1, "a-1")
}

// The slot is kept while the Job may be there, and given back when it certainly is not.
func TestGateKeepsSlotOfUncertainJob(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	first := g.create("a-1")
	g.create("a-2")
	g.gate.beginning(first.UID)
	g.gate.pass(first.UID) // the answer of the API server was lost
	g.expect(1, "a-1")
	g.gate.notBegun(first.UID)
	g.gate.pass(first.UID)
	g.expect(1, "a-2")
}

// A suspended Scan holds its slot while its Job runs, and not for longer.
func TestGateSuspendedScan(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	first := g.begin(g.create("a-1"))
	g.create("a-2")
	g.expect(1, "a-1")
	first = g.change(first, func(s *executionv1.Scan) { s.Spec.Suspend = new(true) })
	g.expect(1)
	g.gate.jobSeen(scannerJob(first, true), false)
	g.expect(1, "a-2")
	g.change(first, func(s *executionv1.Scan) { s.Spec.Suspend = nil })
	g.expect(2) // it goes on where it was, over the limit
	g.gate.gone("uid-a-2")
	g.expect(1)
}

// A restarted operator finds what runs: by the state of the Scan, or only by its Job.
func TestGateAfterRestart(t *testing.T) {
	g := newGateTest(t, queue.Limits{})
	fresh := NewGate(GateOptions{Clock: g.clock, AwaitLimits: true})
	fresh.wake = g.gate.wake
	g.gate = fresh
	a, b, c := g.newScan("a-1", state(executionv1.ScanStateParsing)), g.newScan("a-2"), g.newScan("a-3")
	fresh.jobSeen(scannerJob(b, false), false) // Jobs may be listed before Scans
	for _, s := range []*executionv1.Scan{c, b, a} {
		fresh.scanSeen(s)
		if s.UID == c.UID && !fresh.ask(s).wait {
			t.Error("a Scan may begin before the limits are known")
		}
	}
	fresh.SetLimits(clusterLimit(2))
	if !fresh.ask(c).wait {
		t.Error("a Scan may begin before everything was listed")
	}
	fresh.openUp()
	g.expect(2)
	fresh.jobSeen(scannerJob(b, true), false)
	g.expect(2) // its state is about to tell
	g.change(b, state(executionv1.ScanStateDone))
	g.expect(2, "a-3")
}

// Where limits were awaited and there are none, those that asked are woken.
func TestGateAwaitsNoLimits(t *testing.T) {
	g := newGateTest(t, queue.Limits{})
	fresh := NewGate(GateOptions{Clock: g.clock, AwaitLimits: true})
	fresh.wake = g.gate.wake
	g.gate = fresh
	s := g.create("a-1")
	if !fresh.ask(s).wait {
		t.Error("it may begin before the limits are known")
	}
	fresh.SetLimits(queue.Limits{})
	fresh.openUp()
	g.expect(0, "a-1")
	if fresh.ask(s).wait {
		t.Error("it may not begin")
	}
}

func TestGateLimitsChange(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	for _, n := range []string{"a-1", "a-2", "a-3", "a-4"} {
		g.create(n)
	}
	g.expect(1, "a-1")
	g.gate.SetLimits(clusterLimit(2))
	g.expect(2, "a-2")
	g.gate.SetLimits(clusterLimit(1))
	g.expect(2)
	g.gate.gone("uid-a-1")
	g.expect(1)
	g.gate.SetLimits(queue.Limits{})
	g.expect(3, "a-3", "a-4")
}

// A pass that comes before the watch has shown its Scan does not lose its turn.
func TestGatePassBeforeWatch(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	s := g.newScan("a-1")
	if !g.gate.ask(s).wait {
		t.Error("a Scan that is not listed may begin")
	}
	g.gate.scanSeen(s)
	g.expect(1, "a-1")
	if g.gate.ask(s).wait {
		t.Error("it may not begin")
	}
}

// A pass over a Scan that is gone brings nothing back.
func TestGatePassAfterDeletion(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	s := g.create("a-1")
	g.gate.gone(s.UID)
	g.gate.ask(s)
	g.gate.beginning(s.UID)
	g.gate.pass(s.UID)
	g.expect(0, "a-1")
	if len(g.gate.records) != 0 {
		t.Errorf("left: %v", g.gate.records)
	}
}

func TestGateRerunOfScannerWaitsAnew(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	old := g.begin(g.create("a-1"))
	g.gate.jobSeen(scannerJob(old, true), false)
	g.change(old, state(executionv1.ScanStateDone))
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
	g.gate.gone("uid-a-2")
	g.expect(1, "a-3")
	g.gate.gone("uid-a-3")
	g.expect(1, "a-1")
}

// The Scan that has waited longest goes ahead; what it was let in for is read from its
// condition afterwards.
func TestGateOutOfTurn(t *testing.T) {
	g := newGateTest(t, clusterLimit(2))
	g.begin(g.create("a-1"))
	g.begin(g.create("b-1"))
	victim := g.create("a-2")
	g.clock.SetTime(g.clock.Now().Add(queue.Patience))
	g.create("c-1")
	g.woken = nil
	g.gate.gone("uid-b-1")
	g.expect(2, "a-2")
	a := g.gate.ask(victim)
	if !a.outOfTurn {
		t.Errorf("%+v", a)
	}
	o := &observed{now: g.clock.Now(), scan: victim, admission: a}
	s := newStatus(o)
	s.admitted(o)
	victim = g.change(victim, func(v *executionv1.Scan) { v.Status = *s.ScanStatus; v.Status.State = executionv1.ScanStateScanning })
	if at, _ := g.gate.state.Get(string(victim.UID)); !at.OutOfTurn || !at.Running {
		t.Errorf("%+v", at)
	}
}

// Places are told first to those who stand first, once, and again only when they changed
// by much.
func TestGateTells(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	scans := make([]*executionv1.Scan, 9)
	for i := range scans {
		scans[i] = g.create(fmt.Sprintf("a-%d", i))
	}
	g.expect(1, "a-0")
	g.gate.tellSome(100)
	g.expect(1) // they wait for a moment only
	g.clock.SetTime(g.clock.Now().Add(tellAfter))
	if told, waiting := g.gate.tellSome(3); told != 3 || waiting != 8 {
		t.Errorf("told %d of %d", told, waiting)
	}
	g.expect(1, "a-1", "a-2", "a-3")
	if told, _ := g.gate.tellSome(100); told != 5 {
		t.Errorf("told %d more", told)
	}
	g.woken = nil
	for _, s := range scans[1:] {
		a := g.gate.ask(s)
		if !a.wait || a.tell == nil {
			t.Fatalf("%s: %+v", s.Name, a)
		}
		g.gate.wasTold(s.UID, a.tell)
		if a := g.gate.ask(s); a.tell != nil {
			t.Errorf("%s is told twice", s.Name)
		}
	}
	g.clock.SetTime(g.clock.Now().Add(tellAgain))
	g.gate.tellSome(100)
	g.expect(1)
	for i := range 4 { // each start moves the others up by one
		g.gate.gone(types.UID(fmt.Sprintf("uid-a-%d", i)))
	}
	g.woken = nil
	g.gate.tellSome(100)
	g.expect(1, "a-5", "a-6", "a-7", "a-8") // from 5 to 1, 6 to 2, 7 to 3 and 8 to 4
}

// A restarted operator tells nobody again what the condition says already.
func TestGateTellsNothingTwiceAfterRestart(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	g.create("a-1")
	s := g.newScan("a-2")
	at := &queue.Standing{Position: 1, Of: 1, NamespacePosition: 1, NamespaceOf: 1, Limit: queue.Limit{Kind: queue.ClusterLimit}, Bound: 1}
	o := &observed{now: g.clock.Now(), scan: s, admission: admission{wait: true, tell: at}}
	var d decision
	waitForTurn(o, &d)
	s.Status = *d.status
	g.gate.scanSeen(s)
	g.clock.SetTime(g.clock.Now().Add(time.Hour))
	if told, _ := g.gate.tellSome(10); told != 0 {
		t.Errorf("%d are told", told)
	}
}

func TestGateKueue(t *testing.T) {
	label := func(s *executionv1.Scan) { s.Labels = map[string]string{executionv1.LabelKueueQueue: "team"} }
	g := newGateTest(t, clusterLimit(1))
	g.create("a-1")
	s := g.create("a-2", label)
	g.expect(1, "a-1")
	if a := g.gate.ask(s); !a.wait || a.aside {
		t.Errorf("without Kueue the label means nothing: %+v", a)
	}
	g.kueue = true
	if err := g.gate.lookForKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.expect(1, "a-2")
	if a := g.gate.ask(s); a.wait || !a.aside {
		t.Errorf("%+v", a)
	}
	g.begin(s)
	g.expect(1)
	g.kueue = false
	if err := g.gate.lookForKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.expect(2)
}

func TestQueueMetrics(t *testing.T) {
	g := newGateTest(t, clusterLimit(1))
	g.create("a-1")
	g.create("a-2")
	g.clock.SetTime(g.clock.Now().Add(30 * time.Second))
	g.create("b-1")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewQueueCollector(g.gate))
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
	var all []queue.Tenancy
	for i := range 150 {
		all = append(all, queue.Tenancy{Namespace: strconv.Itoa(i), Waiting: 1, Running: 2, Oldest: time.Unix(int64(1000-i), 0)})
	}
	got := bounded(all)
	if diff := cmp.Diff(queue.Tenancy{Namespace: "other", Waiting: 51, Running: 102, Oldest: time.Unix(851, 0)}, got[99]); diff != "" || len(got) != 100 {
		t.Errorf("%d (-want +got):\n%s", len(got), diff)
	}
	if diff := cmp.Diff(all[:20], bounded(all[:20])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStandingText(t *testing.T) {
	cases := map[string]struct {
		limit queue.Limit
		want  string
	}{
		"Cluster":             {queue.Limit{Kind: queue.ClusterLimit}, "at most 5 run at a time in the cluster"},
		"Namespace":           {queue.Limit{Kind: queue.NamespaceLimit, Namespace: "a"}, "at most 5 run at a time in namespace a"},
		"ScanType":            {queue.Limit{Kind: queue.ScanTypeLimit, Name: "zap"}, "at most 5 of scan type zap run at a time in the cluster"},
		"TargetWithNamespace": {queue.Limit{Kind: queue.TargetLimit, Namespace: "a", Name: "host", Value: "x"}, "at most 5 with label host=x run at a time in namespace a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := &queue.Standing{Position: 12, Of: 340, NamespacePosition: 3, NamespaceOf: 20, Limit: tc.limit, Bound: 5}
			want := "Position 12 of 340, 3 of 20 in its namespace: " + tc.want + "."
			if diff := cmp.Diff(want, standing(at)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s := &executionv1.Scan{Status: executionv1.ScanStatus{Conditions: []metav1.Condition{{
				Type: executionv1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: reasons[tc.limit.Kind], Message: want,
			}}}}
			if position, kind := toldBefore(s); position != 12 || kind != tc.limit.Kind {
				t.Errorf("read back: %d, %v", position, kind)
			}
		})
	}
}
