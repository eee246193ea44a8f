// SPDX-License-Identifier: Apache-2.0

package feeder

import (
	"slices"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// put are the messages of a pass.
func (w *world) puts() []queue.Message {
	w.t.Helper()
	if err := w.pass(w.t.Context(), w.queue); err != nil {
		w.t.Fatal(err)
	}
	all := w.queue.put
	w.queue.put = nil
	return all
}

// All items in flight together ask a host no more often than it bears; workers hear of their share when it changes, and every 10 s.
func TestRequestsAreShared(t *testing.T) {
	w := newWorld(t)
	w.hello(10)
	w.Offer(offerOf(feed.SBOM, "a", "b", "c", "d", "e"))
	for _, m := range w.puts() {
		if m.RequestsPerSecond != 10 {
			t.Errorf("%s may ask %v times a second, want a fifth of 50", m.Items[0].Name, m.RequestsPerSecond)
		}
	}
	w.queue.limits = nil
	w.puts()
	if len(w.queue.limits) > 0 {
		t.Errorf("nothing has changed, and workers hear %v", w.queue.limits)
	}
	w.Ended(queue.Ended{Namespace: "shop", Name: "a", Step: queue.SBOM, Outcome: "Done", Host: "hub.example"})
	w.puts()
	want := queue.Limits{Host: "hub.example", RequestsPerSecond: 12.5}
	if len(w.queue.limits) != 1 || w.queue.limits[0] != want {
		t.Errorf("workers hear %v, want %v", w.queue.limits, want)
	}
	w.queue.limits, w.queue.taken = nil, 4
	w.clock.SetTime(begin.Add(tellAgain))
	w.hello(10)
	w.puts()
	if len(w.queue.limits) != 1 || w.queue.limits[0] != want {
		t.Errorf("after a while workers hear %v", w.queue.limits)
	}
	w.Ended(queue.Ended{Namespace: "shop", Name: "b", Step: queue.SBOM, Outcome: outcomeThrottled, RetryAfterSeconds: 60, Host: "hub.example"})
	w.queue.limits = nil
	w.puts()
	pause := queue.Limits{Host: "hub.example", Until: begin.Add(tellAgain + time.Minute)}
	if !slices.Contains(w.queue.limits, pause) {
		t.Errorf("of a pause workers hear %v", w.queue.limits)
	}
}

func TestDockerHubGetsLess(t *testing.T) {
	w := newWorld(t)
	w.hello(10)
	o := offerOf(feed.SBOM, "a", "b", "c", "d", "e", "f")
	o.Host = "registry-1.docker.io"
	w.Offer(o)
	all := w.puts()
	if len(all) != hubConcurrent || all[0].RequestsPerSecond != 2.5 {
		t.Errorf("%d items, %v requests a second each", len(all), all[0].RequestsPerSecond)
	}
}

// The bytes of 24 hours are bounded, whatever becomes of the Registry; what is in flight counts as fetched.
func TestBytesOfADay(t *testing.T) {
	for name, change := range map[string]func(*world, *Offer){
		"OfTheInstallation": func(w *world, _ *Offer) { w.bounds.Bytes = 250 },
		"OfTheNamespace":    func(w *world, o *Offer) { w.bounds.Bytes, o.Own.Bytes = 1_000_000, 250 },
		"WiderOnesDoNot":    func(w *world, o *Offer) { w.bounds.Bytes, o.Own.Bytes = 250, 1_000_000 },
		"OfTheRegistry":     func(_ *world, o *Offer) { o.Bytes = 250 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hello(10)
			o := offerOf(feed.SBOM, "a", "b", "c")
			for i := range o.Heads {
				o.Heads[i].Bytes = 100
			}
			change(w, &o)
			w.Offer(o)
			all := w.puts()
			if len(all) != 2 || all[0].BudgetBytes != 250 {
				t.Fatalf("%d items were let in: %+v", len(all), all)
			}
			for _, m := range all {
				w.Ended(queue.Ended{Namespace: "shop", Name: m.Items[0].Name, Step: queue.SBOM, Outcome: "Done", Bytes: 100})
			}
			if !w.OverQuota("j") {
				t.Error("nobody is told of the quota")
			}
			w.wants(w.look())
			w.clock.SetTime(begin.Add(23 * time.Hour))
			w.hello(10)
			w.wants(w.look())
			w.clock.SetTime(begin.Add(24 * time.Hour))
			w.hello(10)
			w.wants(w.look(), "c")
		})
	}
}

func TestNamespacesHaveBoundsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.hello(10)
	o := offerOf(feed.SBOM, "a", "b", "c")
	o.Own.Concurrent = 2
	w.Offer(o)
	w.wants(w.look(), "a", "b")
	o.Own.Concurrent = 1000
	w.bounds.Concurrent = 3
	w.Offer(o)
	w.wants(w.look(), "c")
}
