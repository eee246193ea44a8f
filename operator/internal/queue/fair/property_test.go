// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cases is how many generated cases each property is tried with.
const cases = 1500

// forEachCase runs a property over generated cases; the seed names the case.
func forEachCase(t *testing.T, property func(t *testing.T, g *generator)) {
	t.Helper()
	for seed := range uint64(cases) {
		g := &generator{rand.New(rand.NewPCG(seed, 5))}
		if property(t, g); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type generator struct{ *rand.Rand }

func (g *generator) oneOf(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g *generator) scan(i int) Scan {
	s := Scan{
		UID: fmt.Sprintf("uid-%d", i), Namespace: g.oneOf("a", "b", "b", "c", "d", "d", "d", "d"), Name: fmt.Sprintf("scan-%d", i),
		ScanType: g.oneOf("nmap", "zap", "trivy"), Priority: int32(g.IntN(7) - 3),
		Created: noon.Add(-time.Duration(g.IntN(90)) * time.Minute), Running: g.IntN(3) == 0,
	}
	if g.IntN(2) == 0 {
		s.Labels = map[string]string{"host": g.oneOf("x", "y", "z"), g.oneOf("team", "app"): g.oneOf("1", "2")}
	}
	s.OutOfTurn = s.Running && g.IntN(9) == 0
	return s
}

func (g *generator) scans(most int) []Scan {
	out := make([]Scan, g.IntN(most))
	for i := range out {
		out[i] = g.scan(i)
	}
	return out
}

func (g *generator) bounds() Bounds {
	var b Bounds
	if g.IntN(2) == 0 {
		b.MaxRunning = new(int32(g.IntN(8)))
	}
	if g.IntN(3) == 0 {
		b.ScanTypes = map[string]int32{g.oneOf("nmap", "zap"): int32(g.IntN(4)), "trivy": 2}
	}
	if g.IntN(3) == 0 {
		b.Targets = map[string]int32{"host": int32(g.IntN(3)), g.oneOf("team", "app"): 1}
	}
	return b
}

func (g *generator) tenant() Tenant {
	t := Tenant{Bounds: g.bounds(), Weight: int32(g.IntN(4)), ByPriority: g.IntN(2) == 0}
	if g.IntN(3) == 0 {
		t.MaxPriority = new(int32(g.IntN(3)))
	}
	return t
}

func (g *generator) limits() Limits {
	l := Limits{Cluster: g.bounds(), Namespaces: map[string]Tenant{}}
	for _, n := range []string{"a", "b", "c"} {
		if g.IntN(2) == 0 {
			l.Namespaces[n] = g.tenant()
		}
	}
	if g.IntN(2) == 0 {
		l.Default = g.tenant()
	}
	return l
}

// fits says, by counting everything, whether a Scan may start beside those that run. It
// shares nothing with the queue but the types.
func fits(l Limits, scans []Scan, s Scan) bool {
	own, ok := l.Namespaces[s.Namespace]
	if !ok {
		own = l.Default
	}
	room := func(bound int32, counts func(Scan) bool) bool {
		n := int32(0)
		for _, other := range scans {
			if other.Running && counts(other) {
				n++
			}
		}
		return n < bound
	}
	for _, level := range []struct {
		Bounds
		in func(Scan) bool
	}{{l.Cluster, func(Scan) bool { return true }}, {own.Bounds, func(o Scan) bool { return o.Namespace == s.Namespace }}} {
		if level.MaxRunning != nil && !room(*level.MaxRunning, level.in) {
			return false
		}
		if m, ok := level.ScanTypes[s.ScanType]; ok && !room(m, func(o Scan) bool { return level.in(o) && o.ScanType == s.ScanType }) {
			return false
		}
		for label, m := range level.Targets {
			value, ok := s.Labels[label]
			same := func(o Scan) bool { v, has := o.Labels[label]; return level.in(o) && has && v == value }
			if ok && !room(m, same) {
				return false
			}
		}
	}
	return true
}

func indexOf(scans []Scan, uid string) int {
	return slices.IndexFunc(scans, func(s Scan) bool { return s.UID == uid })
}

// Every Scan that starts fits beside those that run and those that were named before it.
func TestLimitsAreNotExceeded(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, scans := g.limits(), g.scans(60)
		for _, start := range Decide(limits, scans, noon) {
			i := indexOf(scans, start.UID)
			if scans[i].Running || !fits(limits, scans, scans[i]) {
				t.Errorf("%+v starts over a limit of %+v", scans[i], limits)
			}
			scans[i].Running = true
		}
	})
}

// When what may start has started, nothing that waits fits any more.
func TestFreeSlotsAreUsed(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, scans := g.limits(), g.scans(60)
		for _, start := range Decide(limits, scans, noon) {
			scans[indexOf(scans, start.UID)].Running = true
		}
		for _, s := range scans {
			if !s.Running && fits(limits, scans, s) {
				t.Errorf("%+v fits and does not start under %+v", s, limits)
			}
		}
	})
}

// The order in which Scans are listed means nothing, and neither does how often one asks.
func TestOrderIsStable(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, scans := g.limits(), g.scans(60)
		s := NewState(limits, scans...)
		want := slices.Clone(s.Decide(noon))
		if diff := cmp.Diff(want, slices.Clone(s.Decide(noon))); diff != "" {
			t.Errorf("asked again (-first +second):\n%s", diff)
		}
		g.Shuffle(len(scans), func(i, j int) { scans[i], scans[j] = scans[j], scans[i] })
		if diff := cmp.Diff(want, Decide(limits, scans, noon)); diff != "" {
			t.Errorf("listed in another order (-first +second):\n%s", diff)
		}
	})
}

// A State that followed changes decides as one that starts from their result.
func TestStateHasNoMemory(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits := g.limits()
		s, listed := NewState(limits), map[string]Scan{}
		for range g.IntN(120) {
			switch scan := g.scan(g.IntN(40)); g.IntN(12) {
			case 0:
				limits = g.limits()
				s.SetLimits(limits)
			case 1, 2:
				s.Delete(scan.UID)
				delete(listed, scan.UID)
			case 3:
				s.Decide(noon)
			case 4:
				s.Load(scan)
				listed[scan.UID] = scan
			case 5:
				for _, start := range slices.Clone(s.Decide(noon)) {
					scan := listed[start.UID]
					scan.Running, scan.OutOfTurn = true, start.OutOfTurn
					s.Put(scan)
					listed[start.UID] = scan
				}
			default:
				s.Put(scan)
				listed[scan.UID] = scan
			}
		}
		scans := slices.Collect(maps.Values(listed))
		fresh := NewState(limits, scans...)
		if diff := cmp.Diff(uids(fresh.Decide(noon)), uids(s.Decide(noon))); diff != "" {
			t.Errorf("decisions differ (-fresh +kept):\n%s", diff)
		}
		if diff := cmp.Diff(slices.Collect(fresh.Standings), slices.Collect(s.Standings)); diff != "" {
			t.Errorf("standings differ (-fresh +kept):\n%s", diff)
		}
		if diff := cmp.Diff(fresh.Tenancies(), s.Tenancies()); diff != "" {
			t.Errorf("tenancies differ (-fresh +kept):\n%s", diff)
		}
	})
}

// What comes when nothing else may start, starts if and only if it fits: that is how the
// gate lets a Scan in without a decision about all the others.
func TestFitsIsTheDecisionAboutOneMore(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, scans := g.limits(), g.scans(60)
		s := NewState(limits, scans...)
		for _, start := range slices.Clone(s.Decide(noon)) {
			scan, _ := s.Get(start.UID)
			scan.Running, scan.OutOfTurn = true, start.OutOfTurn
			s.Put(scan)
		}
		more := g.scan(1000)
		more.Running = false
		s.Put(more)
		want := []string{}
		if s.Fits(more.UID) {
			want = append(want, more.UID)
		}
		if diff := cmp.Diff(want, uids(s.Decide(noon))); diff != "" {
			t.Errorf("(-fits +decision):\n%s", diff)
		}
	})
}

func TestStandingsAreAnOrder(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, scans := g.limits(), g.scans(60)
		s := NewState(limits, scans...)
		seen, last := map[string]int{}, map[string]int{}
		for at := range s.Standings {
			scan, ok := s.Get(at.UID)
			seen[at.UID]++
			if !ok || scan.Running || seen[at.UID] > 1 || at.Position != len(seen) || at.Of != s.Waiting() {
				t.Errorf("%+v is yielded for %+v", at, scan)
			}
			if at.NamespacePosition != last[scan.Namespace]+1 {
				t.Errorf("%+v follows the number %d of its namespace", at, last[scan.Namespace])
			}
			last[scan.Namespace]++
			if scan.Running = true; (at.Limit.Kind == NoLimit) != fits(limits, scans, scan) {
				t.Errorf("%+v: a limit is named, or none, and it is not so", at)
			}
		}
		if len(seen) != s.Waiting() {
			t.Errorf("%d of %d are yielded", len(seen), s.Waiting())
		}
	})
}

// Where every limit lets something run, and what runs ends, everything starts.
func TestAllScansStart(t *testing.T) {
	forEachCase(t, func(t *testing.T, g *generator) {
		limits, now := g.limits(), noon
		open(limits.Cluster)
		open(limits.Default.Bounds)
		for _, n := range limits.Namespaces {
			open(n.Bounds)
		}
		s := NewState(limits, g.scans(80)...)
		for round := 0; s.Waiting() > 0; round++ {
			for _, start := range slices.Clone(s.Decide(now)) {
				scan, _ := s.Get(start.UID)
				scan.Running, scan.OutOfTurn = true, start.OutOfTurn
				s.Put(scan)
			}
			var running []string
			for uid, it := range s.items {
				if it.scan.Running {
					running = append(running, uid)
				}
			}
			if len(running) == 0 || round > 200 {
				t.Fatalf("%d wait, and nothing goes on", s.Waiting())
			}
			slices.Sort(running)
			s.Delete(running[g.IntN(len(running))])
			now = now.Add(time.Minute)
		}
	})
}

// open makes sure that a bound lets something run.
func open(b Bounds) {
	if b.MaxRunning != nil && *b.MaxRunning == 0 {
		*b.MaxRunning = 1
	}
	for _, m := range []map[string]int32{b.ScanTypes, b.Targets} {
		for k, v := range m {
			m[k] = max(v, 1)
		}
	}
}

// No Scan waits for ever because of others, however many come.
func TestNoStarvation(t *testing.T) {
	cases := map[string]struct {
		limits Limits
		// long runs for ever, victim waits, rivals come without end.
		long, victim []Scan
		rivals       func(i int) []Scan
	}{
		"ByOthersWithoutAShare": {
			Limits{Cluster: Bounds{MaxRunning: new(int32(3)), ScanTypes: map[string]int32{"zap": 1}}},
			[]Scan{waiting("a", "long", 1, runs)},
			[]Scan{waiting("a", "victim", 0, scanType("zap"))},
			func(i int) []Scan { return []Scan{waiting("b", fmt.Sprintf("r%06d", i), 0, scanType("zap"))} },
		},
		"ByHigherPriority": {
			Limits{Cluster: atMost(1), Default: Tenant{ByPriority: true}},
			nil,
			[]Scan{waiting("a", "victim", 0)},
			func(i int) []Scan { return []Scan{waiting("a", fmt.Sprintf("r%06d", i), 0, priority(9))} },
		},
		"ByManyNamespaces": {
			Limits{Cluster: atMost(2)},
			[]Scan{waiting("a", "long", 1, runs)},
			[]Scan{waiting("a", "victim", 0)},
			func(i int) []Scan { return []Scan{waiting(fmt.Sprintf("n%06d", i), "r", 0)} },
		},
		"BehindAFlood": {
			Limits{Cluster: Bounds{MaxRunning: new(int32(2)), Targets: map[string]int32{"host": 1}}},
			[]Scan{waiting("a", "long", 1, runs)},
			[]Scan{waiting("a", "victim", 0, target("x"))},
			func(i int) []Scan {
				return []Scan{waiting("b", fmt.Sprintf("r%06d", i), 0, target("x")), waiting("c", fmt.Sprintf("r%06d", i), 0, target(strconv.Itoa(i)))}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, now := NewState(tc.limits, slices.Concat(tc.long, tc.victim)...), noon
			for i := range 4 * int(Patience/time.Minute) {
				for _, r := range tc.rivals(i) {
					r.Created = now
					s.Put(r)
				}
				for _, start := range slices.Clone(s.Decide(now)) {
					if start.UID == tc.victim[0].UID {
						return
					}
					scan, _ := s.Get(start.UID)
					scan.Running, scan.OutOfTurn = true, start.OutOfTurn
					s.Put(scan)
				}
				for uid, it := range s.items {
					if it.scan.Running && it.scan.Name != "long" {
						s.Delete(uid)
					}
				}
				now = now.Add(time.Minute)
			}
			t.Errorf("it has waited for %s; %d others wait", now.Sub(noon), s.Waiting()-1)
		})
	}
}

// A flood that has waited for long takes no more than its share and one slot.
func TestFloodStaysInItsShare(t *testing.T) {
	var scans []Scan
	for i := range 9000 {
		scans = append(scans, waiting("flood", fmt.Sprintf("%04d", i), 600))
	}
	for n := range 99 {
		for i := range 10 {
			scans = append(scans, waiting(fmt.Sprintf("team-%02d", n), strconv.Itoa(i), 1))
		}
	}
	s, floods, others := NewState(Limits{Cluster: atMost(50)}, scans...), 0, 0
	for others < 990 {
		for _, start := range slices.Clone(s.Decide(noon)) {
			scan, _ := s.Get(start.UID)
			scan.Running, scan.OutOfTurn = true, start.OutOfTurn
			s.Put(scan)
			if scan.Namespace == "flood" {
				floods++
			} else {
				others++
			}
		}
		for uid, it := range s.items { // all that run take the same time
			if it.scan.Running {
				s.Delete(uid)
			}
		}
	}
	// In each of the rounds, of 50 slots, the flood may have its share and the one for having waited.
	if rounds := (floods + others) / 50; floods > 3*rounds {
		t.Errorf("in %d rounds of 50 slots %d Scans of the flood started before the last of the others", rounds, floods)
	}
}
