// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/scanyard/scanyard/forwarding/internal/delivery"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// sinkFunc is a far end whose calls may overlap.
type sinkFunc func(ctx context.Context, tenant string, ids []string) error

// Deliver asks the function.
func (f sinkFunc) Deliver(ctx context.Context, b sink.Batch) (sink.Outcome, error) {
	var ids []string
	for _, r := range b.Records {
		ids = append(ids, r.EventID)
	}
	return sink.Outcome{}, f(ctx, b.Stream.GetTenant(), ids)
}

// Probe takes everything.
func (sinkFunc) Probe(context.Context) error { return nil }

// Close does nothing.
func (sinkFunc) Close() error { return nil }

// serve runs workers over one queue until the test ends.
func serve(t *testing.T, q *queue.Queue, now func() time.Time, sinks map[string]sink.Sink) map[string]*delivery.Worker {
	t.Helper()
	workers := map[string]*delivery.Worker{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, len(sinks))
	for name, far := range sinks {
		workers[name] = delivery.New(delivery.Options{
			Name: name, Sink: far, Queue: q, ClusterID: "c", Now: now, Log: slog.New(slog.DiscardHandler), Observe: nobody{},
		})
		go func() { ended <- workers[name].Run(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range sinks {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return workers
}

func openQueue(t *testing.T, now func() time.Time, sinks ...string) *queue.Queue {
	t.Helper()
	q, err := queue.Open(queue.Options{
		Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: 1 << 29, OnFull: queue.Block, Sinks: sinks, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// fill puts n records of a tenant.
func fill(t *testing.T, q *queue.Queue, tenant string, n int) {
	t.Helper()
	done := make(chan error, 1)
	s := &queue.Submission{Done: func(err error) { done <- err }}
	for i := range n {
		r := &queue.Record{ID: fmt.Sprint(tenant, i), Time: time.Now(), Line: []byte(`{"eventType":"a","message":"x"}`)}
		if err := q.Reserve(tenant, r.Size()); err != nil {
			t.Fatal(err)
		}
		s.Entries = append(s.Entries, queue.Entry{Tenant: tenant, Record: r})
	}
	q.Submit(s)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// notes are what far ends remember.
type notes struct {
	sync.Mutex

	got   map[string]int       // how often each id came
	at    map[string]time.Time // when it came first
	asked int
}

func newNotes() *notes { return &notes{got: map[string]int{}, at: map[string]time.Time{}} }

func (n *notes) take(ids []string) {
	n.Lock()
	defer n.Unlock()
	for _, id := range ids {
		if n.got[id] == 0 {
			n.at[id] = time.Now()
		}
		n.got[id]++
	}
}

// lostAnswer is true for every second one who asks.
func (n *notes) lostAnswer() bool {
	n.Lock()
	defer n.Unlock()
	n.asked++
	return n.asked%2 == 1
}

func (n *notes) unique() int {
	n.Lock()
	defer n.Unlock()
	return len(n.got)
}

// last is when the last of a tenant's records came.
func (n *notes) last(tenant string) (last time.Time) {
	n.Lock()
	defer n.Unlock()
	for id, at := range n.at {
		if strings.HasPrefix(id, tenant) && at.After(last) {
			last = at
		}
	}
	return last
}

var errReset = &sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: "reset"}

// TestFaultFlapping has 50 exporters and a far end that is there for a second and away for a second.
func TestFaultFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const exporters, records = 50, 300
		start := time.Now()
		all := newNotes()
		tries := map[time.Duration]int{}
		for i := range exporters {
			name := fmt.Sprintf("t%d-", i)
			q := openQueue(t, time.Now, "hub")
			fill(t, q, name, records)
			serve(t, q, time.Now, map[string]sink.Sink{"hub": sinkFunc(func(_ context.Context, _ string, ids []string) error {
				time.Sleep(10 * time.Millisecond) // a call takes time, so that it meets the end of a second
				since := time.Since(start)
				if int(since/time.Second)%2 == 0 {
					all.Lock()
					tries[since.Truncate(10*time.Millisecond)]++
					all.Unlock()
					return errReset
				}
				all.take(ids)
				if all.lostAnswer() {
					return errReset // it took the batch, and its answer was lost
				}
				return nil
			})})
		}
		time.Sleep(30 * time.Minute)
		if got := all.unique(); got != exporters*records {
			t.Errorf("%d records came of %d", got, exporters*records)
		}
		all.Lock()
		defer all.Unlock()
		delete(tries, 10*time.Millisecond) // the first of each comes at once
		for at, n := range tries {
			if n > exporters/2 {
				t.Errorf("%d of %d exporters try again at the same time, after %s", n, exporters, at)
			}
		}
		if len(tries) == 0 {
			t.Error("nobody tried again")
		}
	})
}

// TestFaultSlowSink has a far end that needs half a second for each batch beside one that needs none.
func TestFaultSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, time.Now, "slow", "quick")
		fill(t, q, "a", 5000)
		start := time.Now()
		slow, quick := newNotes(), newNotes()
		serve(t, q, time.Now, map[string]sink.Sink{
			"slow": sinkFunc(func(_ context.Context, _ string, ids []string) error {
				time.Sleep(500 * time.Millisecond)
				slow.take(ids)
				return nil
			}),
			"quick": sinkFunc(func(_ context.Context, _ string, ids []string) error {
				quick.take(ids)
				return nil
			}),
		})
		time.Sleep(time.Minute)
		if took := quick.last("a").Sub(start); quick.unique() != 5000 || took > 0 {
			t.Errorf("the quick one has %d after %s", quick.unique(), took)
		}
		if took := slow.last("a").Sub(start); slow.unique() != 5000 || took != 5*time.Second {
			t.Errorf("the slow one has %d after %s", slow.unique(), took)
		}
	})
}

// TestFaultSilentSink has a far end that takes what it is sent and never answers.
func TestFaultSilentSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := openQueue(t, time.Now, "silent", "other")
		fill(t, q, "a", 1000)
		silent, other := newNotes(), newNotes()
		var mended sync.Once
		answers := make(chan struct{})
		workers := serve(t, q, time.Now, map[string]sink.Sink{
			"silent": sinkFunc(func(ctx context.Context, _ string, ids []string) error {
				silent.take(ids)
				select {
				case <-answers:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}),
			"other": sinkFunc(func(_ context.Context, _ string, ids []string) error {
				other.take(ids)
				return nil
			}),
		})
		time.Sleep(time.Minute)
		if s := workers["silent"].State("a"); other.unique() != 1000 || s.Health != delivery.Retrying || s.Reason != sink.Timeout {
			t.Errorf("the other one has %d, and the silent one is %+v", other.unique(), s)
		}
		mended.Do(func() { close(answers) })
		time.Sleep(10 * time.Minute)
		silent.Lock()
		defer silent.Unlock()
		if s := workers["silent"].State("a"); len(silent.got) != 1000 || silent.got["a0"] < 2 || s.Health != delivery.Healthy || q.Usage().Records != 0 {
			t.Errorf("after the repair it has %d, the first one %d times, and is %+v", len(silent.got), silent.got["a0"], s)
		}
	})
}

// TestFaultOverload has a far end that asks to be left alone, with a time and without one.
func TestFaultOverload(t *testing.T) {
	for name, asked := range map[string]time.Duration{"Pause": 40 * time.Second, "NoTime": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := openQueue(t, time.Now, "hub")
				fill(t, q, "a", 2000)
				got := newNotes()
				var mu sync.Mutex
				var calls []time.Time
				var sizes []int
				workers := serve(t, q, time.Now, map[string]sink.Sink{"hub": sinkFunc(func(_ context.Context, _ string, ids []string) error {
					mu.Lock()
					defer mu.Unlock()
					calls, sizes = append(calls, time.Now()), append(sizes, len(ids))
					if len(calls) == 1 {
						return &sink.Error{Class: sink.Overload, Reason: sink.Overloaded, Message: "later", RetryAfter: asked}
					}
					got.take(ids)
					return nil
				})})
				time.Sleep(20 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if got.unique() != 2000 || workers["hub"].State("a").Health != delivery.Healthy {
					t.Fatalf("%d came", got.unique())
				}
				silence := calls[1].Sub(calls[0])
				if asked > 0 && (silence < asked*8/10 || silence > asked*12/10) || silence <= 0 {
					t.Errorf("the far end was left alone for %s, and asked for %s", silence, asked)
				}
				if sizes[1] != sizes[0]/2 || slices.Max(sizes[1:]) <= sizes[1] {
					t.Errorf("batches of %v: half as large, then growing", sizes)
				}
			})
		})
	}
}

// TestFaultNoisyTenant floods a sink by one tenant, and asks how long another one's few records take.
func TestFaultNoisyTenant(t *testing.T) {
	quiet := func(t *testing.T, noise int) (took time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			q := openQueue(t, time.Now, "hub")
			got := newNotes()
			if noise > 0 {
				fill(t, q, "noisy", noise)
			}
			serve(t, q, time.Now, map[string]sink.Sink{"hub": sinkFunc(func(_ context.Context, _ string, ids []string) error {
				time.Sleep(time.Duration(len(ids)) * time.Millisecond)
				got.take(ids)
				return nil
			})})
			time.Sleep(2 * time.Second) // the noise is under way
			start := time.Now()
			fill(t, q, "quiet", 500)
			time.Sleep(time.Hour)
			took = got.last("quiet").Sub(start)
			if got.unique() != noise+500 {
				t.Errorf("%d came", got.unique())
			}
		})
		return took
	}
	alone := quiet(t, 0)
	if beside := quiet(t, 50000); beside > 2*alone {
		t.Errorf("beside a noisy tenant it takes %s, alone %s", beside, alone)
	}
}

// TestFaultClock moves the clock by an hour to and fro, while records come in and go out.
func TestFaultClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		shift := time.Duration(0)
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(shift)
		}
		q := openQueue(t, now, "hub")
		var order []string
		fails := 0
		serve(t, q, now, map[string]sink.Sink{"hub": sinkFunc(func(_ context.Context, _ string, ids []string) error {
			mu.Lock()
			defer mu.Unlock()
			if fails++; fails%2 == 1 {
				return errReset
			}
			order = append(order, ids...)
			return nil
		})})
		for i, by := range []time.Duration{0, time.Hour, -time.Hour, 0, -time.Hour, time.Hour} {
			mu.Lock()
			shift = by
			mu.Unlock()
			fill(t, q, fmt.Sprint("tenant", i%2, "-"), 100)
			time.Sleep(3 * time.Hour)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 600 || q.Usage().Records != 0 {
			t.Errorf("%d of 600 came", len(order))
		}
		next := map[string]int{}
		for _, id := range order {
			tenant, number, _ := strings.Cut(id, "-")
			if number != strconv.Itoa(next[tenant]%100) {
				t.Fatalf("%s came, and %d was expected", id, next[tenant]%100)
			}
			next[tenant]++
		}
	})
}
