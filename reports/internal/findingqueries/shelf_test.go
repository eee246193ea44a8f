// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
)

// counted answers with how often it was asked, in the time that it is told.
type counted struct {
	clock *testingclock.FakePassiveClock
	took  time.Duration
	asked int64
}

func (c *counted) Answer(context.Context, *answer.Input) (*reportsv1.FindingQueryStatus, error) {
	c.asked++
	c.clock.SetTime(c.clock.Now().Add(c.took))
	return &reportsv1.FindingQueryStatus{Groups: []reportsv1.FindingGroup{{Count: c.asked}}}, nil
}

// An answer that took long is given again to all who may ask the same, for as long as it took times a hundred, half a minute at most. When half of
// that is over it is renewed beside who asks.
func TestAnswersThatTookLong(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(now)
	answerer := &counted{clock: clock, took: time.Second}
	namespaced, clusterwide := New(Config{Answerer: answerer, Clock: clock})
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
	for _, step := range []struct {
		reason    string
		name      string
		namespace string
		spec      reportsv1.FindingQuerySpec
		later     time.Duration
		took      time.Duration
		renewed   bool // what is to be renewed is done before
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
	} {
		answerer.took = time.Second
		if step.took > 0 {
			answerer.took = step.took
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

// While an answer is made anew, others get the one before; when its time is over they wait, and whoever goes stops waiting.
func TestOneMakesAnAnswerAnew(t *testing.T) {
	var s shelf
	at := now
	clock := func() time.Time { return at }
	first := &reportsv1.FindingQueryStatus{Plan: "first"}
	s.keep("q", first, at, time.Second)
	at = at.Add(16 * time.Second)
	before, done, err := s.find(t.Context(), "q", clock)
	if before != first || done == nil || err != nil {
		t.Fatalf("the first asker makes it anew: %v, %v", before, err)
	}
	if other, renew, err := s.find(t.Context(), "q", clock); other != first || renew != nil || err != nil {
		t.Errorf("another gets the one before: %v, %v", other, err)
	}
	at = at.Add(15 * time.Second)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.find(gone, "q", clock); err == nil {
		t.Error("who has gone got an answer")
	}
	waited := make(chan *reportsv1.FindingQueryStatus)
	go func() {
		status, _, err := s.find(t.Context(), "q", clock)
		if err != nil {
			t.Error(err)
		}
		waited <- status
	}()
	second := &reportsv1.FindingQueryStatus{Plan: "second"}
	s.keep("q", second, at, time.Second)
	done()
	if status := <-waited; status != second {
		t.Errorf("who waited got %v", status)
	}
}

// The shelf is bounded: by answers, and by groups of each.
func TestShelfIsBounded(t *testing.T) {
	var s shelf
	for i := range maxKept + 10 {
		s.keep(string(rune('a'+i)), &reportsv1.FindingQueryStatus{}, now, time.Second)
	}
	s.keep("large", &reportsv1.FindingQueryStatus{Groups: make([]reportsv1.FindingGroup, mostGroups+1)}, now, time.Second)
	if len(s.answers) != maxKept || len(s.order) != maxKept || s.answers["large"] != nil || s.answers["a"] != nil {
		t.Errorf("%d answers, %d in order", len(s.answers), len(s.order))
	}
}
