// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/plan"
	"github.com/scanyard/scanyard/forwarding/internal/scans"
	"github.com/scanyard/scanyard/forwarding/internal/turns"
	"github.com/scanyard/scanyard/forwarding/sink"
)

var epoch = time.Unix(1_800_000_000, 0)

const hub = "cluster/hub"

// newFollower follows nothing; its sink hub fails.
func newFollower(ctx context.Context) (*Follower, *far, turns.Task) {
	f := New(Options{
		Clock: clocktesting.NewFakeClock(epoch), Metrics: NewMetrics(prometheus.NewRegistry()), Random: func() float64 { return 1 },
	}, nil)
	s := &far{id: hub, guard: &guard{}, probing: true}
	f.sinks[hub] = s
	f.fails(ctx, s, &sink.Error{Class: sink.Transport, Reason: sink.ConnectionRefused})
	return f, s, turns.Task{Sink: hub, Namespace: "team-a", UID: "1"}
}

// TestProbationEnds: a sink that has answered a probe is tried with one Scan. Where none is left to be tried, the sink is healthy: whatever
// asks for healthy sinks would wait for ever otherwise.
func TestProbationEnds(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		do     func(context.Context, *Follower, *far, turns.Task)
		want   plan.Phase
	}{
		"NobodyWaits": {
			reason: "nothing is left to try", want: plan.Healthy,
			do: func(ctx context.Context, f *Follower, s *far, _ turns.Task) { f.answered(ctx, s) },
		},
		"SomebodyWaits": {
			reason: "a probe is not a delivery", want: plan.Trial,
			do: func(ctx context.Context, f *Follower, s *far, task turns.Task) {
				f.turns.Add(task, epoch)
				f.answered(ctx, s)
			},
		},
		"TheScanIsDeleted": {
			reason: "the Scan that was to be tried is gone", want: plan.Healthy,
			do: func(ctx context.Context, f *Follower, s *far, task turns.Task) {
				f.scans["1"] = &known{key: types.NamespacedName{Namespace: "team-a", Name: "a"}, pending: map[string]bool{hub: true}}
				f.uids[f.scans["1"].key] = "1"
				f.turns.Add(task, epoch)
				f.answered(ctx, s)
				f.mutex.Unlock()
				f.forget(ctx, f.scans["1"].key)
				f.mutex.Lock()
			},
		},
		"TheScanIsNotDue": {
			reason: "the Scan waits for something else than the sink", want: plan.Healthy,
			do: func(ctx context.Context, f *Follower, s *far, task turns.Task) {
				k := &known{key: types.NamespacedName{Namespace: "team-a", Name: "a"}, pending: map[string]bool{hub: true}}
				f.turns.Add(task, epoch)
				f.answered(ctx, s)
				f.enqueue(ctx, "1", k, &plan.Decision{Pending: []string{hub}})
			},
		},
		"NoAnswer": {
			reason: "a sink that has not answered fails", want: plan.Failing,
			do: func(ctx context.Context, f *Follower, _ *far, _ turns.Task) { f.idle(ctx, hub) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, s, task := newFollower(ctx)
			f.mutex.Lock()
			defer f.mutex.Unlock()
			test.do(ctx, f, s, task)
			if s.health.Phase != test.want {
				t.Errorf("phase %d, want %d: %s", s.health.Phase, test.want, test.reason)
			}
			if _, next := f.turns.Next(); next && test.want != plan.Trial {
				t.Error("a stream begins")
			}
		})
	}
}

func TestPace(t *testing.T) {
	if newPace(0, nil).wait(1000) != 0 {
		t.Error("without a bound nobody waits")
	}
	c := clocktesting.NewFakeClock(epoch)
	p := newPace(10, c)
	if first, second := p.wait(5), p.wait(10); first != 500*time.Millisecond || second != 1500*time.Millisecond {
		t.Errorf("waits %s and %s: all streams of a sink share its records of a second", first, second)
	}
	c.Step(time.Hour)
	if wait := p.wait(10); wait != time.Second {
		t.Errorf("waits %s: nobody saves up records", wait)
	}
}

func TestNextTry(t *testing.T) {
	for name, test := range map[string]struct {
		failure sink.Error
		want    time.Time
		ofScan  bool
	}{
		"Changed":      {sink.Error{Reason: sink.ResultsChanged}, time.Time{}, true},
		"Missing":      {sink.Error{Reason: plan.ResultsMissing}, epoch.Add(missingWait), true},
		"Incomplete":   {sink.Error{Reason: sink.Incomplete}, epoch.Add(missingWait), true},
		"Unread":       {sink.Error{Reason: plan.ResultsUnread}, epoch.Add(unreadWait), true},
		"AskedForMore": {sink.Error{Reason: plan.ResultsUnread, RetryAfter: time.Minute}, epoch.Add(time.Minute), true},
		"OfTheSink":    {sink.Error{Reason: sink.TokenRejected}, epoch.Add(unreadWait), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nextTry(&test.failure, epoch); !got.Equal(test.want) {
				t.Errorf("tried again at %s, want %s", got, test.want)
			}
			if got := ofScan(test.failure.Reason); got != test.ofScan {
				t.Errorf("a failure of one Scan: %t", got)
			}
		})
	}
}

func TestLimitsShrink(t *testing.T) {
	for name, test := range map[string]struct {
		records int
		share   float64
		want    int
	}{
		"Whole":   {100, 1, 100},
		"Unknown": {100, 0, 100},
		"Half":    {100, 0.5, 50},
		"Default": {0, 0.5, 250},
		"Least":   {10, 0.001, 1},
	} {
		if got := limits(test.records, 1000, test.share); got != (scans.Limits{MaxRecords: test.want, MaxBytes: 1000}) {
			t.Errorf("%s: %+v, want %d records", name, got, test.want)
		}
	}
}

// TestCursorsAreWrittenAndRead: what is noted in an entry is what a restart goes on from.
func TestCursorsAreWrittenAndRead(t *testing.T) {
	f, s, task := newFollower(t.Context())
	want := scans.Cursor{Chain: []byte{1, 2, 3}, Accepted: 7, Rejected: 2}
	want.Sequence, want.Offset, want.Outcomes = 9, 4096, map[string]uint64{"FAIL": 5, "INFO": 2}
	one := &transfer{f: f, far: s, task: task}
	one.note(want)
	got, err := cursorOf(&one.entry)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !f.refused[hub].Equal(epoch) {
		t.Error("that the sink has refused records is not remembered")
	}
	if _, err := cursorOf(&executionv1.SinkProgress{Chain: "none"}); err == nil {
		t.Error("a chain that is none is read")
	}
}

// TestChangesOfSettings: the forwarder writes the health of sinks every minute, and looks at all Scans only where something else changes.
func TestChangesOfSettings(t *testing.T) {
	with := func(change func(*settingsv1alpha2.ClusterScanSetting)) *settingsv1alpha2.ClusterScanSetting {
		s := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		s.Status.Sinks = []settingsv1alpha2.SinkStatus{{Name: "hub", Since: new(metav1.NewTime(epoch))}}
		change(s)
		return s
	}
	before := with(func(*settingsv1alpha2.ClusterScanSetting) {})
	for name, test := range map[string]struct {
		change func(*settingsv1alpha2.ClusterScanSetting)
		want   bool
	}{
		"Health":     {func(s *settingsv1alpha2.ClusterScanSetting) { s.Status.Sinks[0].Healthy = "False" }, false},
		"Generation": {func(s *settingsv1alpha2.ClusterScanSetting) { s.Generation++ }, true},
		"Since":      {func(s *settingsv1alpha2.ClusterScanSetting) { s.Status.Sinks[0].Since = nil }, true},
		"Sink":       {func(s *settingsv1alpha2.ClusterScanSetting) { s.Status.Sinks = nil }, true},
	} {
		if got := settingChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: with(test.change)}); got != test.want {
			t.Errorf("%s: Scans are looked at: %t", name, got)
		}
	}
}

// TestGuard: a far end that has refused twenty records in a row is asked with the oldest and the newest in turn until it takes one.
func TestGuard(t *testing.T) {
	g := &guard{}
	for n := range 19 {
		if g.Note([]bool{false}) {
			t.Fatalf("refuses everything after %d records", n+1)
		}
	}
	if !g.Note([]bool{false}) {
		t.Fatal("twenty refused records are not a fault of the records")
	}
	if open, newest := g.IsOpen(); !open || !newest {
		t.Errorf("open %t, newest %t", open, newest)
	}
	if open, newest := g.IsOpen(); !open || newest {
		t.Errorf("open %t, newest %t: the two take turns", open, newest)
	}
	if g.Note([]bool{true}) {
		t.Error("one accepted record closes the breaker")
	}
}

// TestConnectionsAreClosedByTheLastUser: a sink that was changed is closed when its running streams have ended.
func TestConnectionsAreClosedByTheLastUser(t *testing.T) {
	f, s, _ := newFollower(t.Context())
	closed := &closing{}
	c := &connection{sink: closed, users: 2}
	s.open = c
	f.retire(c)
	f.release(c)
	if closed.times != 0 {
		t.Error("closed while it is used")
	}
	f.release(c)
	if closed.times != 1 {
		t.Errorf("closed %d times", closed.times)
	}
	f.part(map[string]bool{})
	if _, err := f.use(s); !errors.Is(err, errChanged) {
		t.Errorf("a sink that is gone is used: %v", err)
	}
}

// closing is a sink that is only closed.
type closing struct {
	sink.Sink

	times int
}

func (c *closing) Close() error {
	c.times++
	return nil
}
