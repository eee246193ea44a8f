// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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

// far is a far end with scripted answers.
type far struct {
	mu       sync.Mutex
	answer   func(ids []string) (sink.Outcome, error)
	probe    func() error
	got      []string
	requests int
	probes   int
}

func (f *far) Deliver(_ context.Context, b sink.Batch) (sink.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	var ids []string
	for _, r := range b.Records {
		ids = append(ids, r.EventID)
	}
	outcome, err := f.answer(ids)
	if err != nil {
		return outcome, err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(outcome.Rejected, func(r sink.Rejection) bool { return r.EventID == id }) {
			f.got = append(f.got, id)
		}
	}
	return outcome, nil
}

func (f *far) Probe(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probes++
	if f.probe == nil {
		return nil
	}
	return f.probe()
}

func (*far) Close() error { return nil }

func (f *far) set(answer func([]string) (sink.Outcome, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer, f.requests = answer, 0
}

func takeAll([]string) (sink.Outcome, error) { return sink.Outcome{}, nil }

func refuse(class sink.Class) func([]string) (sink.Outcome, error) {
	return func([]string) (sink.Outcome, error) {
		return sink.Outcome{}, &sink.Error{Class: class, Reason: sink.Unknown, Message: "no"}
	}
}

type nobody struct{}

func (nobody) Attempt(string, string)              {}
func (nobody) Records(string, string, string, int) {}
func (nobody) Delivered(string, time.Duration)     {}

// bench is a queue of n records and a worker that serves a far end in the time of a bubble.
type bench struct {
	q   *queue.Queue
	far *far
	w   *delivery.Worker
}

func start(t *testing.T, n int, answer func([]string) (sink.Outcome, error)) *bench {
	t.Helper()
	return startBounded(t, 1<<29, n, answer)
}

// startBounded has a tenant with a quota.
func startBounded(t *testing.T, quota int64, n int, answer func([]string) (sink.Outcome, error)) *bench {
	t.Helper()
	q, err := queue.Open(queue.Options{
		Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: quota, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{q: q, far: &far{answer: answer}}
	b.put(t, "r", n)
	b.w = delivery.New(delivery.Options{Name: "hub", Sink: b.far, Queue: q, ClusterID: "c", Now: time.Now, Log: slog.New(slog.DiscardHandler), Observe: nobody{}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) put(t *testing.T, prefix string, n int) {
	t.Helper()
	done := make(chan error, 1)
	s := &queue.Submission{Done: func(err error) { done <- err }}
	for i := range n {
		r := &queue.Record{ID: fmt.Sprint(prefix, i), Time: time.Now(), Line: []byte(`{"eventType":"a","message":"x"}`)}
		if err := b.q.Reserve("a", r.Size()); err != nil {
			t.Fatal(err)
		}
		s.Entries = append(s.Entries, queue.Entry{Tenant: "a", Record: r})
	}
	b.q.Submit(s)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// after lets time pass, and tells what the far end has, how often it was asked, and what is left.
func (b *bench) after(d time.Duration) (got []string, requests, probes int, left uint64) {
	time.Sleep(d) // the time of the bubble
	b.far.mu.Lock()
	defer b.far.mu.Unlock()
	return slices.Clone(b.far.got), b.far.requests, b.far.probes, b.q.Usage().Records
}

// TestClassesKeepData goes through the classes that keep the data, for ten minutes each.
func TestClassesKeepData(t *testing.T) {
	for _, class := range []sink.Class{sink.Transport, sink.Auth, sink.Incompatible, sink.Overload} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, 1200, refuse(class))
				if class == sink.Auth {
					b.far.probe = func() error { return &sink.Error{Class: sink.Auth, Reason: sink.TokenRejected} }
				}
				got, requests, probes, left := b.after(10 * time.Minute)
				if len(got) > 0 || left != 1200 || requests+probes > 200 {
					t.Errorf("got %d, asked %d times, probed %d times, left %d", len(got), requests, probes, left)
				}
				b.far.mu.Lock()
				b.far.probe = nil
				b.far.mu.Unlock()
				b.far.set(takeAll)
				got, _, _, left = b.after(30 * time.Minute)
				if len(got) != 1200 || left != 0 || b.w.State("a").Health != delivery.Healthy || got[0] != "r0" || got[1199] != "r1199" {
					t.Errorf("after the repair: got %d, left %d, %+v", len(got), left, b.w.State("a"))
				}
			})
		})
	}
}

func TestFaultPoison(t *testing.T) {
	bad := "r77"
	t.Run("Named", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, 500, func(ids []string) (sink.Outcome, error) {
				if slices.Contains(ids, bad) {
					return sink.Outcome{Rejected: []sink.Rejection{{EventID: bad, Reason: "Malformed", Message: "no"}}}, nil
				}
				return sink.Outcome{}, nil
			})
			got, requests, _, left := b.after(time.Minute)
			if len(got) != 499 || requests != 1 || left != 0 {
				t.Errorf("got %d in %d requests, left %d", len(got), requests, left)
			}
			onlyDeadLetter(t, b.q, bad)
		})
	})
	t.Run("NotNamed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, 500, func(ids []string) (sink.Outcome, error) {
				if slices.Contains(ids, bad) {
					return refuse(sink.Refused)(ids)
				}
				return sink.Outcome{}, nil
			})
			got, requests, _, left := b.after(time.Minute)
			if len(got) != 499 || requests-1 > 18 || left != 0 { // 2·log₂ 500, beyond the batch itself
				t.Errorf("got %d in %d requests, left %d", len(got), requests, left)
			}
			onlyDeadLetter(t, b.q, bad)
			b.far.set(takeAll)
			if n, err := b.q.Replay(queue.Selection{Sink: "hub", All: true}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if got, _, _, _ := b.after(time.Minute); got[len(got)-1] != bad {
				t.Errorf("the dead letter was not tried again: %v", got[len(got)-1])
			}
			if letters, err := b.q.DeadLetters("hub", "a", false, 10); len(letters) != 0 || err != nil {
				t.Errorf("%v, %v", letters, err)
			}
		})
	})
}

func onlyDeadLetter(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	letters, err := q.DeadLetters("hub", "a", false, 10)
	if err != nil || len(letters) != 1 || letters[0].Record.ID != id || letters[0].Attempts != 1 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
}

// TestFaultBreaker has a far end that refuses everything, each record by its name or each batch as a whole.
func TestFaultBreaker(t *testing.T) {
	for name, answer := range map[string]func([]string) (sink.Outcome, error){
		"Named": func(ids []string) (outcome sink.Outcome, err error) {
			for _, id := range ids {
				outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: id, Reason: "Malformed", Message: "no"})
			}
			return outcome, nil
		},
		"Whole": refuse(sink.Refused),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, 700, answer)
				got, requests, _, _ := b.after(10 * time.Minute)
				if s := b.w.State("a"); len(got) > 0 || s.Health != delivery.Incompatible || s.Reason != sink.RefusesEverything || requests > 80 {
					t.Errorf("got %d in %d requests, %+v", len(got), requests, s)
				}
				b.far.set(takeAll)
				got, _, _, left := b.after(10 * time.Minute)
				slices.Sort(got)
				got = slices.Compact(got)
				letters, err := b.q.DeadLetters("hub", "a", false, 10)
				if len(got) != 700 || left != 0 || len(letters) != 0 || err != nil {
					t.Errorf("after the repair: got %d, left %d, dead letters %d, %v", len(got), left, len(letters), err)
				}
			})
		})
	}
}

// TestDeadLettersHaveATenthOfTheQuota: every second record is refused, until the breaker opens.
func TestDeadLettersHaveATenthOfTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBounded(t, 40_000, 100, func(ids []string) (outcome sink.Outcome, err error) {
			for _, id := range ids {
				if strings.HasSuffix(id, "1") || strings.HasSuffix(id, "3") || strings.HasSuffix(id, "5") || strings.HasSuffix(id, "7") || strings.HasSuffix(id, "9") {
					outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: id, Reason: "Malformed", Message: "no"})
				}
			}
			return outcome, nil
		})
		b.after(time.Second)
		letters, err := b.q.DeadLetters("hub", "a", false, 1000)
		s := b.w.State("a")
		if len(letters) != 50 || err != nil || s.Health != delivery.Incompatible || s.Reason != sink.RefusesEverything || !strings.Contains(s.Message, "a tenth of what tenant a may hold") {
			t.Errorf("%d dead letters, %v, %+v", len(letters), err, s)
		}
		b.far.set(b.far.answer) // count anew
		b.put(t, "more", 200)
		if _, requests, _, left := b.after(10 * time.Minute); requests > 60 || left == 0 {
			t.Errorf("%d requests, %d records left: more than probes", requests, left)
		}
		if _, err := b.q.DropDeadLetters(queue.Selection{Sink: "hub", All: true}, false); err != nil {
			t.Error(err)
		}
		b.far.set(takeAll)
		got, _, _, left := b.after(10 * time.Minute)
		if s := b.w.State("a"); left != 0 || s.Health != delivery.Healthy || len(got) < 150 {
			t.Errorf("after the dead letters were dropped: got %d, %d left, %+v", len(got), left, s)
		}
	})
}

// TestBadRecordsDoNotBlockOthers has 25 records in a row that are at fault themselves.
func TestBadRecordsDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, 0, func(ids []string) (outcome sink.Outcome, err error) {
			for _, id := range ids {
				if strings.HasPrefix(id, "bad") {
					outcome.Rejected = append(outcome.Rejected, sink.Rejection{EventID: id, Reason: "Malformed", Message: "no"})
				}
			}
			return outcome, nil
		})
		b.put(t, "bad", 25)
		b.put(t, "good", 10)
		got, _, _, left := b.after(20 * time.Minute)
		slices.Sort(got)
		letters, err := b.q.DeadLetters("hub", "a", false, 100)
		if got = slices.Compact(got); len(got) != 10 || left != 0 || len(letters) != 25 || err != nil {
			t.Errorf("got %v, left %d, dead letters %d, %v", got, left, len(letters), err)
		}
	})
}
