// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// waiting makes a Scan ns/name that was created so many minutes before noon.
func waiting(namespace, name string, minutes int, options ...func(*Scan)) Scan {
	s := Scan{
		UID: namespace + "/" + name, Namespace: namespace, Name: name, ScanType: "nmap",
		Created: noon.Add(-time.Duration(minutes) * time.Minute),
	}
	for _, o := range options {
		o(&s)
	}
	return s
}

func runs(s *Scan) { s.Running = true }

func outOfTurn(s *Scan) { s.Running, s.OutOfTurn = true, true }

func priority(p int32) func(*Scan) { return func(s *Scan) { s.Priority = p } }

func scanType(t string) func(*Scan) { return func(s *Scan) { s.ScanType = t } }

func target(host string) func(*Scan) {
	return func(s *Scan) { s.Labels = map[string]string{"host": host, "team": "any"} }
}

func atMost(n int32) Bounds { return Bounds{MaxRunning: new(n)} }

func uids(starts []Start) []string {
	out := []string{}
	for _, s := range starts {
		out = append(out, s.UID)
	}
	return out
}

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason string
		limits Limits
		scans  []Scan
		want   []string
	}{
		"NoLimits": {
			"nothing waits where nothing is bounded",
			Limits{},
			[]Scan{waiting("a", "2", 1), waiting("a", "1", 2), waiting("b", "1", 3)},
			[]string{"b/1", "a/1", "a/2"},
		},
		"OldestFirst": {
			"one namespace is served in the order of creation, then of names",
			Limits{Cluster: atMost(2)},
			[]Scan{waiting("a", "2", 5), waiting("a", "3", 9), waiting("a", "1", 5)},
			[]string{"a/3", "a/1"},
		},
		"Full": {
			"what runs counts",
			Limits{Cluster: atMost(2)},
			[]Scan{waiting("a", "1", 5, runs), waiting("b", "1", 5, runs), waiting("c", "1", 5)},
			[]string{},
		},
		"TwoNamespacesShare": {
			"the many of one do not delay the one of another, though they are older",
			Limits{Cluster: atMost(4)},
			[]Scan{
				waiting("flood", "1", 50), waiting("flood", "2", 50), waiting("flood", "3", 50), waiting("flood", "4", 50), waiting("flood", "5", 50),
				waiting("small", "1", 1),
			},
			[]string{"flood/1", "small/1", "flood/2", "flood/3"},
		},
		"RunningCountsForTheShare": {
			"the slot goes to who has less",
			Limits{Cluster: atMost(4)},
			[]Scan{waiting("a", "1", 50, runs), waiting("a", "2", 50, runs), waiting("a", "3", 50), waiting("b", "1", 3, runs), waiting("b", "2", 1)},
			[]string{"b/2"},
		},
		"Weights": {
			"three of four slots for the weight of three",
			Limits{Cluster: atMost(4), Namespaces: map[string]Tenant{"heavy": {Weight: 3}}},
			[]Scan{
				waiting("light", "1", 9), waiting("light", "2", 9), waiting("light", "3", 9),
				waiting("heavy", "1", 5), waiting("heavy", "2", 5), waiting("heavy", "3", 5), waiting("heavy", "4", 5),
			},
			[]string{"heavy/1", "heavy/2", "light/1", "heavy/3"},
		},
		"PriorityDoesNotCountByDefault": {
			"a user's priority counts only where the settings say so",
			Limits{Cluster: atMost(1)},
			[]Scan{waiting("a", "1", 9), waiting("a", "2", 5, priority(7))},
			[]string{"a/1"},
		},
		"Priority": {
			"it orders the Scans of a namespace",
			Limits{Cluster: atMost(2), Default: Tenant{ByPriority: true}},
			[]Scan{waiting("a", "1", 9), waiting("a", "2", 5, priority(7)), waiting("a", "3", 1, priority(9))},
			[]string{"a/3", "a/2"},
		},
		"PriorityIsNotComparedBetweenNamespaces": {
			"one team's priorities are nothing to another",
			Limits{Cluster: atMost(1), Default: Tenant{ByPriority: true}},
			[]Scan{waiting("a", "1", 9), waiting("b", "1", 5, priority(1000))},
			[]string{"a/1"},
		},
		"MaxPriority": {
			"what is over the bound counts as the bound",
			Limits{Cluster: atMost(1), Default: Tenant{ByPriority: true, MaxPriority: new(int32(5))}},
			[]Scan{waiting("a", "1", 9, priority(5)), waiting("a", "2", 5, priority(1000))},
			[]string{"a/1"},
		},
		"NamespaceLimit": {
			"a namespace at its limit leaves the room to others",
			Limits{Cluster: atMost(5), Namespaces: map[string]Tenant{"a": {Bounds: atMost(1)}}},
			[]Scan{waiting("a", "1", 9, runs), waiting("a", "2", 9), waiting("b", "1", 1), waiting("b", "2", 1)},
			[]string{"b/1", "b/2"},
		},
		"DefaultOfNamespaces": {
			"a namespace without settings has the default",
			Limits{Default: Tenant{Bounds: atMost(1)}},
			[]Scan{waiting("a", "1", 9), waiting("a", "2", 9), waiting("b", "1", 1)},
			[]string{"a/1", "b/1"},
		},
		"ScanTypeLimit": {
			"what is at its limit is passed over, for all namespaces",
			Limits{Cluster: Bounds{ScanTypes: map[string]int32{"zap": 1}}},
			[]Scan{waiting("a", "1", 9, scanType("zap")), waiting("a", "2", 8, scanType("zap")), waiting("a", "3", 7), waiting("b", "1", 1, scanType("zap"))},
			[]string{"a/1", "a/3"},
		},
		"ScanTypeLimitOfNamespace": {
			"it holds in that namespace",
			Limits{Default: Tenant{Bounds: Bounds{ScanTypes: map[string]int32{"zap": 1}}}},
			[]Scan{waiting("a", "1", 9, scanType("zap")), waiting("a", "2", 8, scanType("zap")), waiting("b", "1", 1, scanType("zap"))},
			[]string{"a/1", "b/1"},
		},
		"TargetLimit": {
			"one at a time for each host; Scans without the label are free",
			Limits{Cluster: Bounds{Targets: map[string]int32{"host": 1}}},
			[]Scan{
				waiting("a", "1", 9, target("x"), runs), waiting("a", "2", 8, target("x")), waiting("a", "3", 7, target("y")),
				waiting("b", "1", 6, target("y")), waiting("b", "2", 5), waiting("b", "3", 5),
			},
			[]string{"b/1", "b/2", "b/3"},
		},
		"Zero": {
			"a limit of zero closes a scan type",
			Limits{Cluster: Bounds{ScanTypes: map[string]int32{"zap": 0}}},
			[]Scan{waiting("a", "1", 9, scanType("zap"))},
			[]string{},
		},
		"OverTheLimit": {
			"where more run than may, as after the limit was lowered, nothing starts",
			Limits{Cluster: atMost(1)},
			[]Scan{waiting("a", "1", 9, runs), waiting("a", "2", 9, runs), waiting("a", "3", 9)},
			[]string{},
		},
		"WaitedLongest": {
			"who has waited too long goes before who has less",
			Limits{Cluster: atMost(3)},
			[]Scan{waiting("a", "1", 9, runs), waiting("a", "2", 9, runs), waiting("a", "3", 61), waiting("b", "1", 60)},
			[]string{"a/3"},
		},
		"WaitedLongestOneAtATime": {
			"while one runs that started by this rule, the other rules apply",
			Limits{Cluster: atMost(3)},
			[]Scan{waiting("a", "1", 9, runs), waiting("a", "2", 9, outOfTurn), waiting("a", "3", 61), waiting("b", "1", 1)},
			[]string{"b/1"},
		},
		"WaitedLongestOfLowPriority": {
			"priority does not keep a Scan out for ever",
			Limits{Cluster: atMost(2), Default: Tenant{ByPriority: true}},
			[]Scan{waiting("a", "1", 90), waiting("a", "2", 5, priority(7)), waiting("a", "3", 4, priority(7))},
			[]string{"a/1", "a/2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, uids(Decide(tc.limits, tc.scans, noon))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestStandings(t *testing.T) {
	limits := Limits{
		Cluster:    Bounds{MaxRunning: ptr.To[int32](2), ScanTypes: map[string]int32{"zap": 0}, Targets: map[string]int32{"host": 1}},
		Namespaces: map[string]Tenant{"b": {Bounds: atMost(1)}},
	}
	s := NewState(limits,
		waiting("a", "1", 9, runs), waiting("b", "1", 9, runs, target("x")),
		waiting("a", "2", 8), waiting("a", "3", 7, scanType("zap")), waiting("a", "4", 6, target("x")),
		waiting("b", "2", 5), waiting("c", "1", 1))
	want := []string{
		"c/1: 1 of 5, 1 of 1, limit {4   } of 2",
		"a/2: 2 of 5, 1 of 3, limit {4   } of 2",
		"b/2: 3 of 5, 1 of 1, limit {1 b  } of 1",
		"a/3: 4 of 5, 2 of 3, limit {2  zap } of 0",
		"a/4: 5 of 5, 3 of 3, limit {3  host x} of 1",
	}
	var got []string
	for at := range s.Standings {
		got = append(got, fmt.Sprintf("%s: %d of %d, %d of %d, limit %v of %d", at.UID, at.Position, at.Of, at.NamespacePosition, at.NamespaceOf, at.Limit, at.Bound))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for at := range s.Standings {
		if at.UID != "c/1" {
			t.Errorf("%s is yielded after the caller had enough", at.UID)
		}
		break
	}
}

func TestTenancies(t *testing.T) {
	s := NewState(Limits{}, waiting("a", "1", 9, runs), waiting("b", "1", 9), waiting("b", "2", 10), waiting("c", "1", 1))
	want := []Tenancy{
		{Namespace: "b", Waiting: 2, Oldest: noon.Add(-10 * time.Minute)},
		{Namespace: "c", Waiting: 1, Oldest: noon.Add(-time.Minute)},
		{Namespace: "a", Running: 1},
	}
	if diff := cmp.Diff(want, s.Tenancies()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Running() != 1 || s.Waiting() != 3 {
		t.Errorf("%d run and %d wait", s.Running(), s.Waiting())
	}
}

// What a State has let go leaves nothing behind.
func TestDeleteLeavesNothing(t *testing.T) {
	limits := Limits{Cluster: Bounds{MaxRunning: new(int32(1)), ScanTypes: map[string]int32{"nmap": 1}, Targets: map[string]int32{"host": 1}}}
	s := NewState(limits, waiting("a", "1", 9, runs, target("x")), waiting("b", "1", 9, target("y")))
	for _, uid := range []string{"a/1", "b/1", "nobody"} {
		s.Delete(uid)
	}
	if len(s.items)+len(s.tenants)+len(s.classes)+len(s.counters) != 0 || s.running+s.waiting != 0 {
		t.Errorf("left: %v %v %v %v", s.items, s.tenants, s.classes, s.counters)
	}
	if s.Fits("a/1") {
		t.Error("a Scan that is gone fits")
	}
	if _, ok := s.Get("a/1"); ok {
		t.Error("a Scan that is gone is known")
	}
}

func TestNone(t *testing.T) {
	cases := map[string]struct {
		limits Limits
		want   bool
	}{
		"Zero":      {Limits{}, true},
		"Weights":   {Limits{Namespaces: map[string]Tenant{"a": {Weight: 5}}}, true},
		"Cluster":   {Limits{Cluster: atMost(1)}, false},
		"Default":   {Limits{Default: Tenant{Bounds: Bounds{Targets: map[string]int32{"host": 1}}}}, false},
		"Namespace": {Limits{Namespaces: map[string]Tenant{"a": {Bounds: Bounds{ScanTypes: map[string]int32{"zap": 1}}}}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.limits.None(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
