// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

// taken are records that a sink took at one moment, and that the queue was told of.
type taken struct {
	at      time.Time
	through uint64
}

// again is what a sink gets once more after a crash.
type again struct {
	bytes int64
	age   time.Duration // since the sink took the first of them
}

// crashBetweenCursors delivers to a sink, cuts the power at some moment, and tells what the sink gets once more of what the queue was told of.
// A sync of the disk takes slow. The time is that of a bubble.
func crashBetweenCursors(t *testing.T, seed uint64, slow time.Duration) (more again) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, uint64(slow)))
	fs := vfs.NewCrashableMem()
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) && strings.HasSuffix(op.Path, ".log") {
			time.Sleep(slow) // of the bubble
		}
		return nil
	})}
	q := open(t, options("q", errorfs.Wrap(fs, toggle)))
	sizes := fillSizes(t, q, random, 600)
	toggle.On()

	var mu sync.Mutex
	var told, before []taken
	var image *vfs.MemFS
	var crashed time.Time
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		crashed, before = time.Now(), slices.Clone(told)
		image = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed) % 101, RNG: rand.New(rand.NewPCG(seed, 2))})
	}
	crash := time.AfterFunc(time.Duration(random.Int64N(int64(700*time.Millisecond+slow))), cut)
	for through, last := uint64(0), uint64(len(sizes)-1); through < last; {
		time.Sleep(time.Duration(random.Int64N(int64(60 * time.Millisecond)))) // of the bubble: the sink works
		now, from := taken{at: time.Now()}, through
		through = min(last, through+1+random.Uint64N(30))
		now.through = through
		settle(t, q, queue.Settlement{Sink: "hub", Tenant: "a", Through: through, Delivered: through - from, Bytes: sum(sizes[from+1 : through+1])})
		mu.Lock()
		told = append(told, now)
		mu.Unlock()
	}
	if crash.Stop() {
		cut()
	}
	toggle.Off()
	closeQueue(t, q)

	restarted := open(t, options("q", image))
	defer closeQueue(t, restarted)
	cursor := restarted.Cursor("hub", "a")
	for _, b := range before {
		if b.through > cursor {
			more.bytes = sum(sizes[cursor+1 : before[len(before)-1].through+1])
			more.age = crashed.Sub(b.at)
			break
		}
	}
	return more
}

func sum(sizes []int64) (all int64) {
	for _, s := range sizes {
		all += s
	}
	return all
}

// TestFaultSentAgain: what a sink gets once more after a crash is less than a MiB, however slow the disk is, beside what was on its way. Where the disk is
// not slow, it is what the sink got in the last 200 ms.
func TestFaultSentAgain(t *testing.T) {
	for name, slow := range map[string]time.Duration{"a fast disk": 0, "a slow disk": 50 * time.Millisecond, "a disk that stalls": time.Second} {
		t.Run(name, func(t *testing.T) {
			var most again
			for seed := range uint64(40) {
				synctest.Test(t, func(t *testing.T) {
					more := crashBetweenCursors(t, seed, slow)
					most.bytes, most.age = max(most.bytes, more.bytes), max(most.age, more.age)
				})
			}
			if most.bytes == 0 || most.bytes >= 1<<20 {
				t.Errorf("a sink gets up to %d bytes once more: more than none are expected, or the test would not see them, and less than a MiB", most.bytes)
			}
			if slow == 0 && most.age > 200*time.Millisecond {
				t.Errorf("a sink gets once more what it got %s before", most.age)
			}
			t.Logf("at most %d bytes, of the last %s", most.bytes, most.age)
		})
	}
}

// fillSizes puts n records of up to 12 KiB, and gives the size of each by its sequence.
func fillSizes(t *testing.T, q *queue.Queue, random *rand.Rand, n int) []int64 {
	t.Helper()
	sizes, s := []int64{0}, &queue.Submission{}
	for i := range n {
		line := fmt.Appendf(nil, `{"eventType":"a","message":"%s"}`, bytes.Repeat([]byte("m"), 1+random.IntN(12<<10)))
		r := &queue.Record{ID: fmt.Sprint("r", i), Time: time.Unix(1, 2), Line: line}
		if err := q.Reserve("a", r.Size()); err != nil {
			t.Fatal(err)
		}
		sizes, s.Entries = append(sizes, r.Size()), append(s.Entries, queue.Entry{Tenant: "a", Record: r})
	}
	submit(t, q, s)
	return sizes
}
