// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// events in the order of the columns below.
var events = []event{seenFresh, seenHeld, seenRunning, seenDelegated, undelegated, granted, begins, asks, refused, unready}

// TestEveryStateAndEvent walks through every state and everything that can happen to a Scan in it.
func TestEveryStateAndEvent(t *testing.T) {
	const same = -1
	want := map[state][]state{
		//          fresh    held  running  delegated  undelegated granted   begins    asks     refused unready
		held:      {waiting, same, running, delegated, same, same, same, same, same, same},
		waiting:   {same, held, running, delegated, same, reserved, same, same, same, same},
		parked:    {same, held, running, delegated, same, same, same, waiting, same, same},
		reserved:  {same, held, running, delegated, same, same, starting, same, same, parked},
		starting:  {same, same, running, delegated, same, same, same, same, parked, same},
		running:   {waiting, held, same, delegated, same, same, same, same, same, same},
		delegated: {same, same, same, same, held, same, same, same, same, same},
	}
	for s := held; s <= delegated; s++ {
		for i, e := range events {
			t.Run(fmt.Sprintf("%d/%d", s, e), func(t *testing.T) {
				next := want[s][i]
				if next == same {
					next = s
				}
				if got := s.on(e); got != next {
					t.Errorf("it is in state %d, want %d", got, next)
				}
			})
		}
	}
}

// TestSlotsAreReserved: a slot is taken only by a turn or by what runs, and kept until it is
// certain that nothing runs.
func TestSlotsAreReserved(t *testing.T) {
	for s := held; s <= delegated; s++ {
		for _, e := range events {
			next := s.on(e)
			if next.holds() && !s.holds() && e != granted && e != seenRunning {
				t.Errorf("event %d takes a slot in state %d", e, s)
			}
			if s == starting && !next.holds() && e != refused && e != seenDelegated {
				t.Errorf("event %d gives the slot back of a Job that may be there", e)
			}
		}
	}
}

// TestQueueListing plays anything that can happen, in any order: what is listed is what the
// states say, to look changes nothing, and no slot is free while one waits.
func TestQueueListing(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := newQueueTest(t, clusterLimit(2))
		scans := make([]*executionv1.Scan, 6)
		for i := range scans {
			scans[i] = g.create(fmt.Sprintf("a-%d", i))
		}
		for step := range 200 {
			i := r.IntN(len(scans))
			scans[i] = g.play(r, scans[i])
			g.clock.SetTime(g.clock.Now().Add(time.Second))
			g.checkListing(fmt.Sprintf("seed %d, step %d", seed, step), scans)
			if t.Failed() {
				return
			}
		}
	}
}

// play lets one of the things happen that can happen to a Scan.
func (g *queueTest) play(r *rand.Rand, s *executionv1.Scan) *executionv1.Scan {
	switch r.IntN(9) {
	case 0:
		if !g.queue.Position(s).Wait && g.queue.Reserve(s) {
			g.queue.jobSeen(scannerJob(s, false), false)
		}
	case 1:
		g.queue.Reserve(s)
	case 2:
		g.queue.Release(s.UID, NotCreated)
	case 3:
		g.queue.Release(s.UID, Unready)
	case 4:
		g.queue.Release(s.UID, Interrupted)
	case 5:
		g.queue.jobSeen(scannerJob(s, true), false)
	case 6:
		return g.change(s, func(s *executionv1.Scan) { s.Spec.Suspend = new(r.IntN(2) == 0) })
	case 7:
		states := []executionv1.ScanState{executionv1.ScanStateNew, executionv1.ScanStateScanning, executionv1.ScanStateDone}
		return g.change(s, inState(states[r.IntN(len(states))]))
	case 8:
		g.queue.gone(s.UID)
		g.queue.ScanSeen(s)
	}
	return s
}

func (g *queueTest) checkListing(at string, scans []*executionv1.Scan) {
	g.Helper()
	for _, s := range scans {
		e := g.queue.entries[s.UID]
		if e == nil {
			continue
		}
		listed, is := g.queue.listing.Get(string(s.UID))
		if is != (e.state == waiting || e.state.holds()) || is && listed.Running != e.state.holds() {
			g.Errorf("%s: %s is in state %d, listed %t, running %t", at, s.Name, e.state, is, listed.Running)
		}
		before := *e
		first := g.queue.Position(s)
		if diff := cmp.Diff(first, g.queue.Position(s)); diff != "" || fmt.Sprint(before) != fmt.Sprint(*e) {
			g.Errorf("%s: a look at %s has changed something: %s", at, s.Name, diff)
		}
		if first.Wait && e.state.holds() {
			g.Errorf("%s: %s holds a slot and waits", at, s.Name)
		}
	}
	if free := 2 - g.queue.listing.Running(); free > 0 && g.queue.listing.Waiting() > 0 {
		g.Errorf("%s: %d slots are free while %d wait", at, free, g.queue.listing.Waiting())
	}
}

// TestPositionOfWhatIsNotSeen: a Scan that the watch has not shown waits where there are limits.
func TestPositionOfWhatIsNotSeen(t *testing.T) {
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	g := newQueueTest(t, clusterLimit(1))
	if diff := cmp.Diff(life.Turn{Limited: true, Wait: true}, g.queue.Position(s)); diff != "" || g.queue.Reserve(s) {
		t.Errorf("with limits (-want +got):\n%s", diff)
	}
}
