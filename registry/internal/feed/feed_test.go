// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// wide lets everything in.
func wide() map[Step]int { return map[Step]int{Discover: 1000, SBOM: 1000, Match: 1000} }

func sbom(name string, change ...func(*Item)) Item {
	i := Item{Name: name, Step: SBOM, Since: now.Add(-time.Hour), Interactive: true}
	for _, c := range change {
		c(&i)
	}
	return i
}

func namespace(name string, items ...Item) Namespace {
	n := Namespace{Name: name, Waiting: slices.Clone(items)}
	for i := range n.Waiting {
		n.Waiting[i].Namespace = name
	}
	return n
}

func names(items []Item) string {
	list := make([]string, 0, len(items))
	for _, i := range items {
		list = append(list, i.Name)
	}
	return strings.Join(list, " ")
}

func TestCost(t *testing.T) {
	for name, tc := range map[string]struct {
		item Item
		want int64
	}{
		"Repository":       {Item{Step: Discover}, 8},
		"CachedImage":      {Item{Step: SBOM}, 1},
		"Image":            {Item{Step: SBOM, Bytes: 30<<20 + 1}, 31},
		"LargeImage":       {Item{Step: SBOM, Bytes: 8 << 30}, 256},
		"OneMatch":         {Item{Step: Match}, 1},
		"TenMatches":       {Item{Step: Match, Images: 10}, 1},
		"BatchOfMatches":   {Item{Step: Match, Images: 50}, 5},
		"BrokenDescriptor": {Item{Step: SBOM, Bytes: -5 << 30}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.item.Cost(); got != tc.want {
				t.Errorf("cost %d, want %d", got, tc.want)
			}
		})
	}
}

func TestOrderInANamespace(t *testing.T) {
	scheduled := func(i *Item) { i.Interactive = false }
	step := func(s Step) func(*Item) { return func(i *Item) { i.Step = s } }
	for name, tc := range map[string]struct {
		items []Item
		want  string
	}{
		"OldestFirst":      {[]Item{sbom("b", func(i *Item) { i.Since = now }), sbom("a")}, "a b"},
		"InteractiveFirst": {[]Item{sbom("a", scheduled), sbom("b")}, "b a"},
		"OneScheduledAfterFour": {
			[]Item{sbom("s1", scheduled), sbom("s2", scheduled), sbom("a"), sbom("b"), sbom("c"), sbom("d"), sbom("e"), sbom("f"), sbom("g"), sbom("h"), sbom("i")},
			"a b c d s1 e f g h s2 i",
		},
		"PriorityOfTheRegistry": {[]Item{sbom("a"), sbom("b", func(i *Item) { i.Priority = 1 })}, "b a"},
		"PriorityBeforeStep":    {[]Item{sbom("a", step(Discover)), sbom("b", func(i *Item) { i.Priority = 1 })}, "b a"},
		"Steps":                 {[]Item{sbom("a", step(Match)), sbom("b"), sbom("c", step(Discover))}, "c b a"},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := Next(State{Namespaces: []Namespace{namespace("team", tc.items...)}, Windows: wide()}, now)
			if diff := cmp.Diff(tc.want, names(in)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPassedOver(t *testing.T) {
	host := func(i *Item) { i.Host = "r.example.com" }
	content := func(i *Item) { i.Content = "sha256:1 linux/amd64" }
	bytes := func(n int64) func(*Item) { return func(i *Item) { i.Bytes = n } }
	alone := func(i *Item) { i.Alone = true }
	single := func(i *Item) { i.Registry, i.Concurrent = "uid", 1 }
	quota := func(n Namespace, left int64) Namespace { n.Bytes = &left; return n }
	for name, tc := range map[string]struct {
		state State
		want  string
	}{
		"NoWorker":         {State{Namespaces: []Namespace{namespace("team", sbom("a"))}, Windows: map[Step]int{}}, ""},
		"WindowOfTheStep":  {State{Namespaces: []Namespace{namespace("team", sbom("a"), sbom("b"), sbom("m", func(i *Item) { i.Step = Match }))}, Windows: map[Step]int{SBOM: 2, Match: 1}, Flight: []Item{sbom("x")}}, "a m"},
		"NotBefore":        {State{Namespaces: []Namespace{namespace("team", sbom("a", func(i *Item) { i.NotBefore = now.Add(time.Second) }), sbom("b", func(i *Item) { i.NotBefore = now }))}, Windows: wide()}, "b"},
		"PausedHost":       {State{Namespaces: []Namespace{namespace("team", sbom("a", host), sbom("b"))}, Windows: wide(), Hosts: map[string]Host{"r.example.com": {Paused: now.Add(time.Second)}}}, "b"},
		"BusyHost":         {State{Namespaces: []Namespace{namespace("team", sbom("a", host), sbom("b", host), sbom("c"))}, Windows: wide(), Hosts: map[string]Host{"r.example.com": {Concurrent: 2}}, Flight: []Item{sbom("x", host)}}, "a c"},
		"BusyNamespace":    {State{Namespaces: []Namespace{{Name: "team", Concurrent: 2, Waiting: []Item{sbom("a"), sbom("b")}}}, Windows: wide(), Flight: []Item{{Namespace: "team", Name: "x"}, {Namespace: "other", Name: "y"}}}, "a"},
		"BusyRegistry":     {State{Namespaces: []Namespace{namespace("team", sbom("a", single), sbom("b", single), sbom("c"))}, Windows: wide()}, "a c"},
		"ContentInFlight":  {State{Namespaces: []Namespace{namespace("team", sbom("a", content), sbom("b", content))}, Windows: wide()}, "a"},
		"ContentOfOthers":  {State{Namespaces: []Namespace{namespace("team", sbom("a", content))}, Windows: wide(), Flight: []Item{sbom("x", content)}}, ""},
		"BytesOfTheDay":    {State{Namespaces: []Namespace{quota(namespace("team", sbom("a", bytes(60)), sbom("b", bytes(60)), sbom("c", bytes(40))), 100)}, Windows: wide()}, "a c"},
		"AloneWaits":       {State{Namespaces: []Namespace{namespace("team", sbom("a", alone), sbom("b"))}, Windows: wide()}, "b"},
		"AloneToIdle":      {State{Namespaces: []Namespace{namespace("team", sbom("a", alone), sbom("b", alone))}, Windows: wide(), IdleWorkers: 1}, "a"},
		"MatchNeedsNoByte": {State{Namespaces: []Namespace{quota(namespace("team", sbom("m", bytes(60), func(i *Item) { i.Step = Match })), 0)}, Windows: wide()}, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := Next(tc.state, now)
			if got := names(in); got != tc.want {
				t.Errorf("let in %q, want %q", got, tc.want)
			}
		})
	}
}

// supply has endless work for namespaces, with the same sizes for all.
type supply struct {
	random *rand.Rand
	count  int
	size   func(*rand.Rand) int64
}

func (s *supply) fill(n *Namespace) {
	for len(n.Waiting) < 50 {
		s.count++
		n.Waiting = append(n.Waiting, Item{Namespace: n.Name, Name: fmt.Sprintf("%s-%06d", n.Name, s.count), Step: SBOM, Bytes: s.size(s.random) << 20})
	}
}

func (s *State) take(in []Item) {
	for _, item := range in {
		for i := range s.Namespaces {
			n := &s.Namespaces[i]
			n.Waiting = slices.DeleteFunc(n.Waiting, func(w Item) bool { return w.Namespace == item.Namespace && w.Name == item.Name })
		}
	}
}

// TestNamespacesShareFairly: over any 200 items namespaces of equal weight do equally much, and a weight of 3 is three times as much.
func TestNamespacesShareFairly(t *testing.T) {
	for name, tc := range map[string]struct {
		weight  int64
		windows int
		size    func(*rand.Rand) int64
	}{
		"Images":        {1, 4, func(r *rand.Rand) int64 { return 8 + r.Int64N(120) }},
		"SmallImages":   {1, 6, func(r *rand.Rand) int64 { return r.Int64N(4) }},
		"Cached":        {1, 1, func(*rand.Rand) int64 { return 0 }},
		"LargestOnes":   {1, 3, func(*rand.Rand) int64 { return 4096 }},
		"WeightOfThree": {3, 5, func(r *rand.Rand) int64 { return 1 + r.Int64N(40) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &supply{random: rand.New(rand.NewPCG(1, 2)), size: tc.size}
			state := State{Namespaces: []Namespace{{Name: "a", Weight: tc.weight}, {Name: "b", Weight: 1}}}
			var order []Item
			for len(order) < 3000 {
				for i := range state.Namespaces {
					s.fill(&state.Namespaces[i])
				}
				state.Windows = map[Step]int{SBOM: tc.windows}
				in, turns := Next(state, now)
				if len(in) != tc.windows {
					t.Fatalf("%d items let in, want %d", len(in), tc.windows)
				}
				state.take(in)
				state.Turns = turns
				order = append(order, in...)
			}
			const span = 200
			for from := 0; from+span <= len(order); from++ {
				var cost [2]int64
				for _, item := range order[from : from+span] {
					cost[item.Namespace[0]-'a'] += item.Cost()
				}
				ratio := float64(cost[0]) / float64(tc.weight) / float64(cost[1])
				if ratio < 0.9 || ratio > 1.1 {
					t.Fatalf("items %d to %d: %d to %d", from, from+span, cost[0], cost[1])
				}
			}
		})
	}
}

// TestSmallTenantIsNotStarved is fault F34, the bound for the small tenant: it is done in three times the time that it takes alone, counted in work
// that ends, whatever the other one brings.
func TestSmallTenantIsNotStarved(t *testing.T) {
	if alone, beside := fewBesideMany(t); beside > 3*alone {
		t.Errorf("beside another namespace: %d ticks, alone %d", beside, alone)
	}
}

// BenchmarkFewBesideMany tells how many times longer the small tenant takes beside the large one.
func BenchmarkFewBesideMany(b *testing.B) {
	for b.Loop() {
		alone, beside := fewBesideMany(b)
		b.ReportMetric(float64(beside)/float64(alone), "times-alone")
	}
}

// fewBesideMany gives the work that ends until 10 images of a namespace are done, alone and beside one with 5,000.
func fewBesideMany(t testing.TB) (alone, beside int) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	images := func(name string, n int) Namespace {
		var list []Item
		for i := range n {
			list = append(list, sbom(fmt.Sprintf("%s-%d", name, i), func(i *Item) { i.Bytes = (20 + r.Int64N(80)) << 20 }))
		}
		return namespace(name, list...)
	}
	few, many := images("few", 10), images("many", 5000)
	return ticksUntilDone(t, State{Namespaces: []Namespace{few}}), ticksUntilDone(t, State{Namespaces: []Namespace{few, many}})
}

// ticksUntilDone simulates workers with four slots, each of which works one cost a tick, until the first namespace is done.
func ticksUntilDone(t testing.TB, state State) int {
	t.Helper()
	state.Windows = map[Step]int{SBOM: 4}
	namespaces := state.Namespaces
	state.Namespaces = nil
	for _, n := range namespaces {
		state.Namespaces = append(state.Namespaces, namespace(n.Name, n.Waiting...))
	}
	const maxTicks = 100_000
	left := map[string]int64{}
	for tick := range maxTicks {
		// The controller knows the heads of a queue only.
		heads := state
		heads.Namespaces = slices.Clone(state.Namespaces)
		for i := range heads.Namespaces {
			heads.Namespaces[i].Waiting = heads.Namespaces[i].Waiting[:min(200, len(heads.Namespaces[i].Waiting))]
		}
		in, turns := Next(heads, now)
		state.Turns = turns
		state.take(in)
		for _, item := range in {
			left[item.Name] = item.Cost()
			state.Flight = append(state.Flight, item)
		}
		state.Flight = slices.DeleteFunc(state.Flight, func(i Item) bool { left[i.Name]--; return left[i.Name] <= 0 })
		busy := slices.ContainsFunc(state.Flight, func(i Item) bool { return i.Namespace == "few" })
		if len(state.Namespaces[0].Waiting) == 0 && !busy {
			return tick
		}
	}
	t.Fatal("the namespace is never done")
	return 0
}

// TestItemsAreAdmittedOnce draws states at random and walks them to their end: nothing waits for ever, nothing comes twice, no bound
// is passed, and the state that was given is as before.
func TestItemsAreAdmittedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 200 {
		state := randomState(r)
		total, seen := 0, map[string]bool{}
		for _, n := range state.Namespaces {
			total += len(n.Waiting)
		}
		for calls := 0; len(seen) < total; calls++ {
			if calls > 2*total { // a call that lets nothing in is followed by one without anything in flight
				t.Fatalf("%d of %d items let in after %d calls", len(seen), total, calls)
			}
			before := fmt.Sprintf("%+v", state)
			in, turns := Next(state, now)
			if after := fmt.Sprintf("%+v", state); before != after {
				t.Fatal("the state was changed")
			}
			checkBounds(t, state, in)
			for _, item := range in {
				if seen[item.Name] {
					t.Fatalf("%s is let in twice", item.Name)
				}
				seen[item.Name] = true
			}
			state.take(in)
			state.Turns, state.Flight = turns, in[:r.IntN(len(in)+1)]
			if len(in) == 0 {
				state.Flight = nil
			}
		}
	}
}

func randomState(r *rand.Rand) State {
	state := State{Windows: map[Step]int{Discover: 1 + r.IntN(4), SBOM: 1 + r.IntN(4), Match: 1 + r.IntN(4)}, IdleWorkers: 1, Hosts: map[string]Host{"h0": {Concurrent: 1}, "h1": {Concurrent: 3}}}
	for n := range 1 + r.IntN(5) {
		space := Namespace{Name: fmt.Sprintf("n%d", n), Weight: r.Int64N(4), Concurrent: r.IntN(3)}
		for i := range r.IntN(30) {
			item := Item{
				Namespace: space.Name, Name: fmt.Sprintf("n%d-%d", n, i), Step: Step(r.IntN(3)), Priority: int32(r.IntN(3)), Interactive: r.IntN(2) == 0,
				Host: fmt.Sprintf("h%d", r.IntN(3)), Bytes: r.Int64N(600 << 20), Images: r.IntN(50), Alone: r.IntN(5) == 0,
				Since: now.Add(-time.Duration(r.IntN(1000)) * time.Second),
			}
			if item.Step == SBOM {
				item.Content = fmt.Sprintf("sha256:%d", r.IntN(10))
			}
			space.Waiting = append(space.Waiting, item)
		}
		state.Namespaces = append(state.Namespaces, space)
	}
	return state
}

func checkBounds(t *testing.T, s State, in []Item) {
	t.Helper()
	steps, hosts, contents, alone := map[Step]int{}, map[string]int{}, map[string]int{}, 0
	for _, item := range slices.Concat(s.Flight, in) {
		steps[item.Step]++
		hosts[item.Host]++
		if item.Content != "" {
			contents[item.Content]++
		}
	}
	for _, item := range in {
		if item.Alone {
			alone++
		}
	}
	for step, n := range steps {
		if n > s.Windows[step] {
			t.Fatalf("%d items of step %d in flight, the window has %d", n, step, s.Windows[step])
		}
	}
	for host, n := range hosts {
		if bound := s.Hosts[host].Concurrent; bound > 0 && n > bound {
			t.Fatalf("%d items at %s, the bound is %d", n, host, bound)
		}
	}
	for content, n := range contents {
		if n > 1 {
			t.Fatalf("%s is in flight %d times", content, n)
		}
	}
	if alone > s.IdleWorkers {
		t.Fatalf("%d items want a worker alone, %d are idle", alone, s.IdleWorkers)
	}
}

// TestReturningNamespaceGainsNothing: a namespace that has one item at a time gets no more than one that has many.
func TestReturningNamespaceGainsNothing(t *testing.T) {
	s := &supply{random: rand.New(rand.NewPCG(1, 2)), size: func(*rand.Rand) int64 { return 15 }}
	state := State{Namespaces: []Namespace{{Name: "comer"}, {Name: "stayer"}}, Windows: map[Step]int{SBOM: 1}}
	cost := map[string]int64{}
	for i := range 1000 {
		s.fill(&state.Namespaces[1])
		if len(state.Namespaces[0].Waiting) == 0 {
			state.Namespaces[0] = namespace("comer", sbom(strconv.Itoa(i), func(i *Item) { i.Bytes = 15 << 20 }))
		}
		in, turns := Next(state, now)
		state.take(in)
		state.Turns = turns
		for _, item := range in {
			cost[item.Namespace] += item.Cost()
		}
	}
	if cost["comer"] == 0 || cost["comer"] > cost["stayer"] {
		t.Errorf("the one that comes and goes has %d, the other %d", cost["comer"], cost["stayer"])
	}
}
