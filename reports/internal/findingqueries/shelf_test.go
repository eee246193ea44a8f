// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
)

// counted answers with how often it was asked, in the time that it is told, as of a revision.
type counted struct {
	clock    *testingclock.FakePassiveClock
	took     time.Duration
	asked    int64
	revision int64
}

func (c *counted) Answer(context.Context, *answer.Input) (*reportsv1.FindingQueryStatus, error) {
	c.asked++
	c.clock.SetTime(c.clock.Now().Add(c.took))
	return &reportsv1.FindingQueryStatus{AsOf: strconv.FormatInt(c.revision, 10), Groups: []reportsv1.FindingGroup{{Count: c.asked}}}, nil
}

// An answer that took long is given again to all who may ask the same: as long as nothing is written, and otherwise for as long as it took times a
// hundred, half a minute at most. When half of that is over it is renewed beside who asks.
func TestAnswersThatTookLong(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(now)
	answerer := &counted{clock: clock, took: time.Second}
	namespaced, clusterwide := New(Config{Answerer: answerer, Clock: clock, Revision: func(context.Context) (int64, error) { return answerer.revision, nil }})
	var renewals []func()
	namespaced.desk.renew = func(run func()) { renewals = append(renewals, run) }
	renewed := func() {
		for _, run := range renewals {
			run()
		}
		renewals = nil
	}
	bySeverity := reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}}
	ask := func(name, namespace string, spec reportsv1.FindingQuerySpec) int64 {
		t.Helper()
		ctx := request.WithNamespace(request.WithUser(t.Context(), &user.DefaultInfo{Name: name}), namespace)
		if namespace != "" {
			obj, err := namespaced.Create(ctx, &reportsv1.FindingQuery{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: spec}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return obj.(*reportsv1.FindingQuery).Status.Groups[0].Count
		}
		obj, err := clusterwide.Create(ctx, &reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: spec}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*reportsv1.ClusterFindingQuery).Status.Groups[0].Count
	}
	limited := bySeverity
	limited.Limit = 7
	week := &metav1.Duration{Duration: 7 * 24 * time.Hour}
	recent, trend := reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}, Since: week}, reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 7}}
	open := reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}, Filter: "openFor > '7d'"}
	for _, step := range []struct {
		reason    string
		name      string
		namespace string
		spec      reportsv1.FindingQuerySpec
		later     time.Duration
		took      time.Duration
		renewed   bool // what is to be renewed is done before
		write     bool // something is written before; the counter is known from the first time on
		want      int64
	}{
		{reason: "nobody has asked", name: "ann", spec: bySeverity, want: 1},
		{reason: "the same question", name: "ben", spec: bySeverity, want: 1},
		{reason: "another scope", name: "ann", namespace: "team-a", spec: bySeverity, want: 2},
		{reason: "a scope besides", name: "ann", namespace: "team-b", spec: bySeverity, want: 3},
		{reason: "another page", name: "ann", spec: limited, want: 4},
		{reason: "still new", name: "ann", spec: bySeverity, later: 5 * time.Second, want: 1},
		{reason: "half of its time is over: it is renewed, and nobody waits", name: "ann", spec: bySeverity, later: 8 * time.Second, want: 1},
		{reason: "another one renews nothing", name: "ben", spec: bySeverity, want: 1},
		{reason: "renewed", name: "ben", spec: bySeverity, renewed: true, want: 5},
		{reason: "its time is over, and it is quick now", name: "ann", spec: bySeverity, later: time.Minute, took: time.Millisecond, want: 6},
		{reason: "quick answers are those of now", name: "ann", spec: bySeverity, took: time.Millisecond, want: 7},
		{reason: "so are those of some milliseconds", name: "ann", spec: bySeverity, took: worthKeeping, want: 8},
		{reason: "nobody knows of writes", name: "ann", spec: bySeverity, took: worthKeeping, want: 9},
		{reason: "the first one of a known revision", name: "ann", spec: bySeverity, write: true, want: 10},
		{reason: "nothing was written", name: "ben", spec: bySeverity, later: 4 * time.Minute, want: 10},
		{reason: "something was written", name: "ben", spec: bySeverity, write: true, want: 11},
		{reason: "something was written, but the answer is recent", name: "ben", spec: bySeverity, write: true, later: time.Second, want: 11},
		{reason: "one of some milliseconds", name: "ann", spec: limited, took: worthKeeping, want: 12},
		{reason: "nothing was written since one of some milliseconds", name: "ann", spec: limited, later: time.Minute, want: 12},
		{reason: "something was written since one of some milliseconds", name: "ann", spec: limited, write: true, took: worthKeeping, want: 13},
		{reason: "what looks back from now", name: "ann", spec: recent, want: 14},
		{reason: "what looks back goes on with the clock", name: "ann", spec: recent, later: time.Minute, want: 15},
		{reason: "how long something is open", name: "ann", spec: open, want: 16},
		{reason: "how long something is open goes on with the clock", name: "ann", spec: open, later: time.Minute, want: 17},
		{reason: "a trend", name: "ann", spec: trend, want: 18},
		{reason: "a trend of the same day", name: "ann", spec: trend, later: time.Minute, want: 18},
		{reason: "a trend of the next day", name: "ann", spec: trend, later: 24 * time.Hour, want: 19},
	} {
		answerer.took = time.Second
		if step.took > 0 {
			answerer.took = step.took
		}
		if step.write {
			answerer.revision++
		}
		clock.SetTime(clock.Now().Add(step.later))
		if step.renewed {
			renewed()
		}
		if got := ask(step.name, step.namespace, step.spec); got != step.want {
			t.Errorf("%s: answer %d, want %d", step.reason, got, step.want)
		}
	}
}

// Questions that take long and were asked in the last days are answered at once, from at most five minutes ago.
func TestAnswersAreKeptWarm(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(now)
	answerer, warmer := &counted{clock: clock, took: time.Second, revision: 1}, &Warmer{}
	namespaced, _ := New(Config{Answerer: answerer, Clock: clock, Warmer: warmer, Revision: func(context.Context) (int64, error) { return answerer.revision, nil }})
	namespaced.desk.renew = func(run func()) { run() }
	namespaced.desk.shelf.keepWarm()
	bySeverity := reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}}
	byRule, recent := reportsv1.FindingQuerySpec{GroupBy: []string{"rule"}}, reportsv1.FindingQuerySpec{GroupBy: []string{"rule"}, Since: &metav1.Duration{Duration: time.Hour}}
	ofADay := reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}, Where: []reportsv1.Term{{Field: "fixedAt", Op: ">=", Value: "2026-11-01T00:00:00Z"}}}
	for _, step := range []struct {
		reason  string
		later   time.Duration
		write   bool
		warm    bool // the Warmer looks for what is due before
		ask     *reportsv1.FindingQuerySpec
		got     int64 // the answer
		answers int64 // how many were computed in all
	}{
		{reason: "nobody has asked", warm: true, answers: 0},
		{reason: "the first one waits", ask: &bySeverity, got: 1, answers: 1},
		{reason: "it is new", later: time.Minute, write: true, warm: true, answers: 1},
		{reason: "half of its time is over", later: 2 * time.Minute, warm: true, answers: 2},
		{reason: "who asks gets it, and it is renewed", later: 4 * time.Minute, write: true, ask: &bySeverity, got: 2, answers: 3},
		{reason: "so the next one gets a new one", ask: &bySeverity, got: 3, answers: 3},
		{reason: "nothing was written", later: 4 * time.Minute, warm: true, answers: 3},
		{reason: "nothing was written for long", later: 2 * time.Minute, warm: true, answers: 4},
		{reason: "nobody has renewed it", later: 6 * time.Minute, write: true, ask: &bySeverity, got: 5, answers: 5},
		{reason: "what looks back from now", ask: &recent, got: 6, answers: 6},
		{reason: "the oldest is renewed", later: 3 * time.Minute, write: true, warm: true, answers: 7},
		{reason: "and then the other", warm: true, answers: 8},
		{reason: "and nothing more", warm: true, answers: 8},
		{reason: "long after", later: warmFor, write: true, warm: true, answers: 8},
		{reason: "a moment that the question names", ask: &ofADay, got: 9, answers: 9},
		{reason: "is another one later", later: 3 * time.Minute, write: true, warm: true, answers: 9},
	} {
		if step.write {
			answerer.revision++
		}
		clock.SetTime(clock.Now().Add(step.later))
		if step.warm {
			warmer.once(t.Context())
		}
		got := int64(0)
		if step.ask != nil {
			obj, err := namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{Spec: *step.ask}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = obj.(*reportsv1.FindingQuery).Status.Groups[0].Count
		}
		if got != step.got || answerer.asked != step.answers {
			t.Errorf("%s: answer %d of %d, want %d of %d", step.reason, got, answerer.asked, step.got, step.answers)
		}
	}
	answerer.took = worthKeeping
	if _, err := namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{Spec: byRule}, nil, nil); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	answerer.revision++
	if before := answerer.asked; warmer.once(t.Context()) != 0 || answerer.asked != before {
		t.Error("a quick answer was renewed")
	}
}

// While an answer is made anew, others get the one before; when its time is over they wait, and whoever goes stops waiting.
func TestOneMakesAnAnswerAnew(t *testing.T) {
	var s shelf
	at := now
	q := asking{"q", func() time.Time { return at }, 0}
	first := &reportsv1.FindingQueryStatus{Plan: "first"}
	s.keep("q", kept{status: first, at: at, took: time.Second})
	at = at.Add(16 * time.Second)
	before, done, err := s.find(t.Context(), q)
	if before != first || done == nil || err != nil {
		t.Fatalf("the first asker makes it anew: %v, %v", before, err)
	}
	if other, renew, err := s.find(t.Context(), q); other != first || renew != nil || err != nil {
		t.Errorf("another gets the one before: %v, %v", other, err)
	}
	at = at.Add(15 * time.Second)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.find(gone, q); err == nil {
		t.Error("who has gone got an answer")
	}
	waited := make(chan *reportsv1.FindingQueryStatus)
	go func() {
		status, _, err := s.find(t.Context(), q)
		if err != nil {
			t.Error(err)
		}
		waited <- status
	}()
	second := &reportsv1.FindingQueryStatus{Plan: "second"}
	s.keep("q", kept{status: second, at: at, took: time.Second})
	done(second)
	if status := <-waited; status != second {
		t.Errorf("who waited got %v", status)
	}
}

// Rows are given again until something is written, however recent they are; what is open has been open for longer by then.
func TestRowsAreThoseOfNow(t *testing.T) {
	const second = time.Second
	seen := metav1.NewTime(now.Add(-second))
	revision := int64(5)
	clock := testingclock.NewFakePassiveClock(now)
	asked := 0
	namespaced, _ := New(Config{Clock: clock, Revision: func(context.Context) (int64, error) { return revision, nil }, Answerer: answererFunc(func(in *answer.Input) *reportsv1.FindingQueryStatus {
		asked++
		clock.SetTime(clock.Now().Add(second)) // long enough to be kept
		open := &metav1.Duration{Duration: in.Now.Sub(seen.Time)}
		return &reportsv1.FindingQueryStatus{AsOf: strconv.FormatInt(revision, 10), Rows: []reportsv1.FindingRow{{FirstSeen: &seen, OpenFor: open}}}
	})})
	for _, step := range []struct {
		reason string
		before func()
		spec   reportsv1.FindingQuerySpec
		asked  int
	}{
		{"nobody has asked", func() {}, reportsv1.FindingQuerySpec{}, 1},
		{"nothing was written", func() { clock.SetTime(clock.Now().Add(time.Minute)) }, reportsv1.FindingQuerySpec{}, 1},
		{"something was written", func() { revision++ }, reportsv1.FindingQuerySpec{}, 2},
		{"many rows", func() {}, reportsv1.FindingQuerySpec{Limit: 1000}, 3},
		{"many rows again", func() {}, reportsv1.FindingQuerySpec{Limit: 1000}, 4},
		{"what looks back", func() {}, reportsv1.FindingQuerySpec{Since: &metav1.Duration{Duration: time.Hour}}, 5},
		{"what looks back again", func() {}, reportsv1.FindingQuerySpec{Since: &metav1.Duration{Duration: time.Hour}}, 6},
	} {
		step.before()
		open := clock.Now().Sub(seen.Time)
		ctx := request.WithNamespace(request.WithUser(t.Context(), &user.DefaultInfo{Name: "ann"}), "team-a")
		obj, err := namespaced.Create(ctx, &reportsv1.FindingQuery{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}, Spec: step.spec}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := obj.(*reportsv1.FindingQuery).Status.Rows[0].OpenFor.Duration; asked != step.asked || got != open {
			t.Errorf("%s: asked %d times, want %d; open for %s, want %s", step.reason, asked, step.asked, got, open)
		}
	}
}

type answererFunc func(*answer.Input) *reportsv1.FindingQueryStatus

func (f answererFunc) Answer(_ context.Context, in *answer.Input) (*reportsv1.FindingQueryStatus, error) {
	return f(in), nil
}

// Who asks what is asked already waits for the same answer, though it is not kept; if it fails, or is of before a write that they may know of, one of
// them asks anew.
func TestAskedAtOnce(t *testing.T) {
	for _, c := range []struct {
		reason string
		answer *reportsv1.FindingQueryStatus
		shared bool
	}{
		{"of their revision", &reportsv1.FindingQueryStatus{AsOf: "5"}, true},
		{"of a later revision", &reportsv1.FindingQueryStatus{AsOf: "6"}, true},
		{"of an earlier revision", &reportsv1.FindingQueryStatus{AsOf: "4"}, false},
		{"of no revision", &reportsv1.FindingQueryStatus{}, false},
		{"failed", nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s shelf
			q := asking{"q", func() time.Time { return now }, 5}
			before, done, err := s.find(t.Context(), q)
			if before != nil || done == nil || err != nil {
				t.Fatalf("nobody has asked before: %v, %v", before, err)
			}
			var asked, got atomic.Int64
			again := make(chan struct{})
			for range 3 {
				go func() {
					status, done, err := s.find(t.Context(), q)
					if err != nil {
						t.Error(err)
					}
					if done != nil {
						asked.Add(1)
						<-again
						done(&reportsv1.FindingQueryStatus{AsOf: "7"})
					} else if status != nil {
						got.Add(1)
					}
				}()
			}
			synctest.Wait()
			done(c.answer)
			synctest.Wait()
			close(again)
			synctest.Wait()
			want := int64(1)
			if c.shared {
				want = 0
			}
			if asked.Load() != want || got.Load() != 3-want || len(s.flights) > 0 {
				t.Errorf("an answer %s: %d asked anew, %d got one, %d in work", c.reason, asked.Load(), got.Load(), len(s.flights))
			}
		})
	}
}

// The shelf is bounded, by what all answers weigh and by what each has. What was not asked for longest goes.
func TestShelfIsBounded(t *testing.T) {
	var s shelf
	keep := func(key string, groups, rows int, took time.Duration) {
		status := &reportsv1.FindingQueryStatus{Groups: make([]reportsv1.FindingGroup, groups), Rows: make([]reportsv1.FindingRow, rows)}
		s.keep(key, kept{status: status, at: now, took: took})
	}
	keep("large", mostGroups+1, 0, time.Second)
	keep("long", 0, mostRows+1, time.Second)
	keep("quick", 1, 0, time.Millisecond)
	if len(s.answers) != 0 || s.weight != 0 {
		t.Errorf("%d answers are kept, which weigh %d", len(s.answers), s.weight)
	}
	for i := range 4 {
		keep(strconv.Itoa(i), mostGroups-rowWeight*10-1, 10, time.Second)
	}
	if len(s.answers) != 4 || s.weight != maxWeight {
		t.Errorf("%d answers are kept, which weigh %d", len(s.answers), s.weight)
	}
	s.look("0", now, 0)
	keep("4", 1, 0, time.Second)
	keep("4", 2, 0, time.Second)
	if want := []string{"2", "3", "0", "4"}; !slices.Equal(s.order, want) || len(s.answers) != 4 || s.weight != 3*mostGroups+3 {
		t.Errorf("%q are kept, which weigh %d", s.order, s.weight)
	}
}
