// SPDX-License-Identifier: Apache-2.0

package feeder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stand is a queue that keeps what is put.
type stand struct {
	put     []queue.Message
	windows map[string]int
	taken   int
	fails   error
	limits  []queue.Limits
}

func (s *stand) Put(_ context.Context, m queue.Message) error {
	if s.fails != nil {
		return s.fails
	}
	s.put = append(s.put, m)
	return nil
}

func (s *stand) Window(_ context.Context, step queue.Step, adapter string, window int) error {
	s.windows[consumer(step, adapter)] = window
	return nil
}

func (s *stand) Waiting(context.Context, queue.Step, string) (waiting, inFlight int, err error) {
	return 0, s.taken, nil
}

func (s *stand) Limit(l queue.Limits) error {
	s.limits = append(s.limits, l)
	return nil
}

// names are those of the items that were put since the last call.
func (s *stand) names() []string {
	var all []string
	for _, m := range s.put {
		for _, i := range m.Items {
			all = append(all, i.Name)
		}
	}
	s.put = nil
	slices.Sort(all)
	return all
}

type world struct {
	*Feeder

	t     *testing.T
	clock *clocktesting.FakePassiveClock
	queue *stand
	woken []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(begin), queue: &stand{windows: map[string]int{}}}
	w.Feeder = New(Options{
		Clock: w.clock, Bounds: Bounds{Concurrent: 100, HostConcurrent: 100, HostRequests: 50}, Log: logr.Discard(),
		Woken: func(namespace, kind, name string) { w.woken = append(w.woken, namespace+"/"+kind+"/"+name) },
	})
	return w
}

func (w *world) hello(slots int) {
	all := map[queue.Step]int{queue.Discover: slots, queue.SBOM: slots, queue.Match: slots}
	w.Worker(queue.Worker{Name: "one", Adapters: []queue.Adapter{{Name: "mini"}}, Slots: all, Free: all})
}

func (w *world) look() []string {
	w.t.Helper()
	if err := w.pass(w.t.Context(), w.queue); err != nil {
		w.t.Fatal(err)
	}
	return w.queue.names()
}

func offerOf(step feed.Step, names ...string) Offer {
	o := Offer{
		Namespace: "shop", Registry: "hub", RegistryUID: "r", Generation: 1, Job: queue.Ref{Kind: "DiscoveryJob", Name: "first", UID: "j"}, Host: "hub.example",
		Adapter: "mini", Database: "sha256:db", Deadline: begin.Add(time.Hour),
	}
	for _, name := range names {
		o.Heads = append(o.Heads, inventory.Head{Step: step, Name: name, UID: "u-" + name, Content: name})
	}
	return o
}

func (w *world) wants(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%v were let in, want %v", got, want)
	}
}

func TestNoItemsWithoutWorkers(t *testing.T) {
	w := newWorld(t)
	w.Offer(offerOf(feed.SBOM, "a"))
	w.wants(w.look())
	if w.Explain("mini") == "" {
		t.Error("nobody is told that there is no worker")
	}
	w.hello(1)
	w.wants(w.look(), "a")
	if w.Explain("mini") != "" || w.Explain("trivy") == "" {
		t.Errorf("%q, %q", w.Explain("mini"), w.Explain("trivy"))
	}
	w.clock.SetTime(begin.Add(time.Minute))
	if w.Workers() != 0 {
		t.Error("a worker that is silent counts")
	}
}

func TestWindowIsTwiceTheSlots(t *testing.T) {
	w := newWorld(t)
	w.hello(2)
	w.Offer(offerOf(feed.SBOM, "a", "b", "c", "d", "e"))
	w.wants(w.look(), "a", "b", "c", "d")
	if w.queue.windows["SBOM/mini"] != 4 || w.queue.windows["Discover/any"] != 4 || w.queue.windows["Database/mini"] != 1 {
		t.Errorf("the windows are %v", w.queue.windows)
	}
	w.wants(w.look())
	w.Ended(queue.Ended{Namespace: "shop", Name: "b", Step: queue.SBOM, Outcome: "Done"})
	if !slices.Equal(w.woken, []string{"shop/DiscoveryJob/first"}) {
		t.Errorf("woken: %v", w.woken)
	}
	w.wants(w.look(), "e")
}

func TestMatchesGoInBatches(t *testing.T) {
	w := newWorld(t)
	w.hello(1)
	var names []string
	for i := range 120 {
		names = append(names, fmt.Sprintf("i%03d", i))
	}
	w.Offer(offerOf(feed.Match, names...))
	if err := w.pass(t.Context(), w.queue); err != nil {
		t.Fatal(err)
	}
	sizes := []int{}
	for _, m := range w.queue.put {
		sizes = append(sizes, len(m.Items))
		if m.Database != "sha256:db" || m.Step != queue.Match || m.Job.UID != "j" || m.Registry.UID != "r" {
			t.Errorf("the message is %+v", m)
		}
	}
	if !slices.Equal(sizes, []int{50, 50}) {
		t.Errorf("the batches have %v images", sizes)
	}
	w.queue.put = nil
	for _, name := range names[:50] {
		w.Ended(queue.Ended{Namespace: "shop", Name: name, Step: queue.Match, Outcome: "Done"})
	}
	if got := w.look(); len(got) != 20 {
		t.Errorf("%d images came after the first batch, want the last 20", len(got))
	}
}

func TestLostEndsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.hello(1)
	w.Offer(offerOf(feed.SBOM, "a"))
	w.wants(w.look(), "a")
	w.clock.SetTime(begin.Add(2 * settle))
	w.queue.taken = 1
	w.wants(w.look())
	w.queue.taken = 0
	w.wants(w.look(), "a")
}

func TestWithdrawnItemIsNotAdmitted(t *testing.T) {
	w := newWorld(t)
	w.hello(1)
	w.Offer(offerOf(feed.SBOM, "a"))
	w.Withdraw("j")
	w.wants(w.look())
}

func TestPauses(t *testing.T) {
	for name, tc := range map[string]struct {
		end   queue.Ended
		until time.Duration
	}{
		"TooManyRequests": {queue.Ended{Outcome: outcomeThrottled, RetryAfterSeconds: 20}, 20 * time.Second},
		"Refused":         {queue.Ended{Outcome: outcomeRefused, Reason: "Unauthorized"}, refusedPause},
		"NoSecret":        {queue.Ended{Outcome: outcomeRefused, Reason: "SecretNotFound"}, secretPause},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hello(1)
			w.Offer(offerOf(feed.SBOM, "a", "b", "c"))
			w.wants(w.look(), "a", "b")
			tc.end.Namespace, tc.end.Name, tc.end.Step, tc.end.Host = "shop", "a", queue.SBOM, "hub.example"
			w.Ended(tc.end)
			w.wants(w.look())
			registry, host := w.Held("r", "hub.example", "", 1)
			if !registry.Equal(begin.Add(tc.until)) && !host.Equal(begin.Add(tc.until)) {
				t.Errorf("held until %v, %v", registry, host)
			}
			w.clock.SetTime(begin.Add(tc.until + time.Second))
			w.hello(1)
			w.queue.taken = 1
			w.wants(w.look(), "c")
		})
	}
}

// TestRateLimitKeys: a limit hangs on the account. Others at the same host, and other hosts, go on; those without an account share one.
func TestRateLimitKeys(t *testing.T) {
	of := func(namespace, account, host string) Offer {
		o := offerOf(feed.SBOM, namespace+"-1", namespace+"-2")
		o.Namespace, o.Account, o.Host, o.RegistryUID, o.Job.UID = namespace, account, host, "r-"+namespace, "j-"+namespace
		return o
	}
	w := newWorld(t)
	w.hello(1)
	w.Offer(of("shop", "shop/pull", "hub.example"))
	w.wants(w.look(), "shop-1", "shop-2")
	w.Ended(queue.Ended{
		Namespace: "shop", Name: "shop-1", Step: queue.SBOM, Outcome: outcomeThrottled, Host: "hub.example", Account: "uid", RetryAfterSeconds: 60,
	})
	w.Withdraw("j-shop") // the job's next look offers what is due
	w.hello(10)
	for _, tc := range []struct {
		namespace, account, host string
		held                     bool
	}{
		{"same", "shop/pull", "hub.example", true},
		{"web", "web/pull", "hub.example", false},
		{"anyone", "", "hub.example", false},
		{"other", "shop/pull", "other.example", false},
	} {
		w.Offer(of(tc.namespace, tc.account, tc.host))
		var want []string
		if !tc.held {
			want = []string{tc.namespace + "-1", tc.namespace + "-2"}
		}
		w.wants(w.look(), want...)
		if _, until := w.Held("r-"+tc.namespace, tc.host, tc.account, 1); until.IsZero() == tc.held {
			t.Errorf("%s is held until %v", tc.namespace, until)
		}
	}
	told := slices.ContainsFunc(w.queue.limits, func(l queue.Limits) bool {
		return l.Host == "hub.example" && l.Account == "uid" && l.Until.Equal(begin.Add(time.Minute))
	})
	if !told {
		t.Errorf("workers do not hear of the pause: %+v", w.queue.limits)
	}
}

// F16: while a registry refuses, one item at a time looks whether the Secret is another one by now.
func TestOneItemProbesRefusedCredentials(t *testing.T) {
	w := newWorld(t)
	w.hello(2)
	o := offerOf(feed.SBOM, "a", "b", "c")
	w.Offer(o)
	w.wants(w.look(), "a", "b", "c")
	end := func(name, outcome, secret string) {
		reason := ""
		if outcome == outcomeRefused {
			reason = "Unauthorized"
		}
		w.Ended(queue.Ended{Namespace: "shop", Name: name, Step: queue.SBOM, Outcome: outcome, Reason: reason, Secret: secret, Host: "hub.example"})
		w.Offer(o) // the job's next look says that it waits
	}
	at := func(after time.Duration) {
		w.clock.SetTime(begin.Add(after))
		w.hello(2)
	}
	probe := func(refused string) {
		t.Helper()
		if err := w.pass(t.Context(), w.queue); err != nil {
			t.Fatal(err)
		}
		if len(w.queue.put) != 1 || w.queue.put[0].Refused != refused {
			t.Errorf("let in: %+v, want one item that knows of %q", w.queue.put, refused)
		}
		w.wants(w.look(), "a")
	}
	for _, name := range []string{"a", "b", "c"} {
		end(name, outcomeRefused, "s/1")
	}
	w.wants(w.look())
	for i := range 3 {
		at(time.Duration(i+1) * secretPause)
		probe("s/1")
		end("a", outcomeRefused, "s/1")
		if until, _ := w.Held("r", "", "", 1); !until.Equal(begin.Add(refusedPause)) {
			t.Errorf("a look at the Secret puts the next request off until %v", until)
		}
	}
	at(refusedPause)
	probe("") // the registry is asked once more
	end("a", outcomeRefused, "s/1")
	w.wants(w.look())
	at(refusedPause + secretPause)
	probe("s/1")
	end("a", "Done", "")
	w.wants(w.look(), "a", "b", "c")
}

func TestChangedRegistryIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.hello(1)
	o := offerOf(feed.SBOM, "a", "b", "c")
	w.Offer(o)
	w.wants(w.look(), "a", "b")
	w.Ended(queue.Ended{Namespace: "shop", Name: "a", Step: queue.SBOM, Outcome: outcomeRefused, Reason: "Unauthorized", Host: "hub.example"})
	w.wants(w.look())
	o.Generation, o.Heads = 2, o.Heads[2:]
	w.Offer(o)
	w.wants(w.look(), "c")
}

func TestFailedPutIsRetried(t *testing.T) {
	w := newWorld(t)
	w.hello(1)
	w.Offer(offerOf(feed.SBOM, "a"))
	w.queue.fails = errors.New("the queue is full")
	if err := w.pass(t.Context(), w.queue); err == nil {
		t.Fatal("the error is lost")
	}
	w.queue.fails = nil
	w.wants(w.look(), "a")
}
