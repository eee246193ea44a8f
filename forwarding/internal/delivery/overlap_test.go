// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// unordered is a far end without an order, whose answers take some time and are by chance.
type unordered struct {
	sync.Mutex

	random    *rand.Rand
	bad       string // the id that is refused with everything that comes with it
	got       map[string]int
	answered  map[string]int // that they came
	now, most int            // calls under way
}

// Unordered is true.
func (*unordered) Unordered() bool { return true }

// Deliver takes a batch, or only says so, or refuses it.
func (u *unordered) Deliver(_ context.Context, b sink.Batch) (outcome sink.Outcome, err error) {
	u.Lock()
	u.now++
	u.most = max(u.most, u.now)
	chance, wait := u.random.IntN(10), time.Duration(u.random.IntN(1000))*time.Millisecond
	u.Unlock()
	time.Sleep(wait) // of the bubble
	u.Lock()
	defer u.Unlock()
	u.now--
	if chance == 0 {
		return outcome, errReset
	}
	if slices.ContainsFunc(b.Records, func(r sink.Record) bool { return r.EventID == u.bad }) {
		return outcome, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: "no"}
	}
	for _, r := range b.Records {
		u.got[r.EventID]++
	}
	if chance == 1 {
		return outcome, errReset
	}
	for _, r := range b.Records {
		u.answered[r.EventID]++
	}
	return outcome, nil
}

// Probe takes everything.
func (*unordered) Probe(context.Context) error { return nil }

// Close does nothing.
func (*unordered) Close() error { return nil }

// TestBatchesOverlap: two batches at most are on their way to a far end without an order; none is lost, none that was answered for is sent again, and
// only the bad record is a dead letter.
func TestBatchesOverlap(t *testing.T) {
	const n = 20_000
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			q := openQueue(t, time.Now, "hub")
			fill(t, q, "a", n)
			far := &unordered{random: rand.New(rand.NewPCG(seed, 1)), got: map[string]int{}, answered: map[string]int{}, bad: "a7777"}
			serve(t, q, time.Now, map[string]sink.Sink{"hub": far})
			time.Sleep(time.Hour) // of the bubble
			far.Lock()
			defer far.Unlock()
			letters, err := q.DeadLetters("hub", "a", false, n)
			if err != nil || len(letters) != 1 || letters[0].Record.ID != far.bad {
				t.Errorf("seed %d: dead letters %v, %v", seed, letters, err)
			}
			for id, times := range far.answered {
				if times != 1 {
					t.Errorf("seed %d: %s was answered for %d times", seed, id, times)
				}
			}
			if len(far.got) != n-1 || q.Usage().Records != 0 || far.most != 2 {
				t.Errorf("seed %d: %d records came, %d are left, %d batches at a time", seed, len(far.got), q.Usage().Records, far.most)
			}
		})
	}
}
