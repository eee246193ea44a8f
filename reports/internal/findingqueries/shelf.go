// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
)

const (
	// worthKeeping is how long an answer has to take to be kept while nothing is written.
	worthKeeping = 5 * time.Millisecond
	// worthWaiting is how long an answer has to take to be given again although something was written since: others are always those of now.
	worthWaiting = 50 * time.Millisecond
	// keptTimes is for how many times as long as it took that is: whatever is asked all the time costs a fiftieth of a core, as it is renewed when
	// half of its time is over.
	keptTimes = 100
	// keptLongest bounds that.
	keptLongest = 30 * time.Second
	// sameLongest is how long an answer is given again while nothing is written: what is removed because of its age raises no counter.
	sameLongest = 10 * time.Minute
	// maxWeight is what all answers together may weigh, and mostGroups and mostRows are how many groups and rows one may have. A group weighs 1
	// and takes some 400 bytes, a row weighs rowWeight.
	maxWeight  = 20_000
	mostGroups = 5000
	mostRows   = 100
	rowWeight  = 4
)

// shelf keeps answers that took long, for those who ask the same in the same scope soon after, and has one of those who ask the same at the
// same time compute the answer. The zero shelf is empty.
type shelf struct {
	mu      sync.Mutex
	answers map[string]*kept
	order   []string // what was not asked for longest first
	weight  int      // of all answers
	flights map[string]*flight
	// warm: a Warmer renews answers.
	warm bool
}

type kept struct {
	// input is the question; nil for one that names moments, which nobody asks again an hour later.
	input  *answer.Input
	status *reportsv1.FindingQueryStatus
	at     time.Time
	took   time.Duration
	// asked is when somebody wanted the answer.
	asked time.Time
	// until is how long the answer is right, whatever the clock says, if nothing is written.
	until time.Time
}

// fresh is for how long the answer is given again, and renewed in its second half, while the counter of the database stands at revision, 0 if that
// is not known. Rows are those of now: who has changed something looks for it among them.
func (k *kept) fresh(revision int64) time.Duration {
	life := time.Duration(0)
	if k.took >= worthWaiting && k.status.Rows == nil {
		life = min(keptTimes*k.took, keptLongest)
	}
	if revision > 0 && asOf(k.status) >= revision {
		life = max(life, min(k.until.Sub(k.at), sameLongest))
	}
	return life
}

// life is for how long the answer is given, to be renewed behind who asks.
func (s *shelf) life(k *kept, revision int64) time.Duration {
	if s.warm && k.isWarm(k.at) {
		return max(k.fresh(revision), warmLongest)
	}
	return k.fresh(revision)
}

func (k *kept) weight() int { return 1 + len(k.status.Groups) + rowWeight*len(k.status.Rows) }

// asOf is the revision that an answer is of, 0 if it does not say so.
func asOf(status *reportsv1.FindingQueryStatus) int64 {
	revision, err := strconv.ParseInt(status.AsOf, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// flight is an answer that somebody computes.
type flight struct {
	done   chan struct{} // closed when status is set
	status *reportsv1.FindingQueryStatus
}

// asking is a question at a moment.
type asking struct {
	key string
	now func() time.Time
	// revision is where the counter of the database stands; 0 if that is not known.
	revision int64
}

// find returns an answer that is recent enough. Without one, and also when half of its time is over, one asker has it computed anew: that
// is the one that gets done, which has to be called then, with the answer or nil. All others get the answer before, or wait for the new one.
func (s *shelf) find(ctx context.Context, q asking) (status *reportsv1.FindingQueryStatus, done func(*reportsv1.FindingQueryStatus), err error) {
	for {
		status, wait, done := s.look(q.key, q.now(), q.revision)
		if wait == nil {
			return status, done, nil
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		// A quick answer is not kept, but has everything that was written before these asked.
		if wait.status != nil && q.revision > 0 && asOf(wait.status) >= q.revision {
			return wait.status, nil, nil
		}
	}
}

func (s *shelf) look(key string, now time.Time, revision int64) (status *reportsv1.FindingQueryStatus, wait *flight, done func(*reportsv1.FindingQueryStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inWork := s.flights[key]
	if k := s.answers[key]; k != nil {
		age, fresh, life := now.Sub(k.at), k.fresh(revision), s.life(k, revision)
		k.asked = now
		s.order = append(slices.DeleteFunc(s.order, func(other string) bool { return other == key }), key)
		if age < fresh/2 || age < life && inWork != nil {
			return k.status, nil, nil
		}
		if age < life {
			status = k.status // while the new one is made
		}
	}
	if inWork != nil {
		return nil, inWork, nil
	}
	return status, nil, s.begin(key)
}

// begin has all who ask wait for the answer that the caller computes, until done is called.
func (s *shelf) begin(key string) (done func(*reportsv1.FindingQueryStatus)) {
	if s.flights == nil {
		s.flights = map[string]*flight{}
	}
	mine := &flight{done: make(chan struct{})}
	s.flights[key] = mine
	return func(status *reportsv1.FindingQueryStatus) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, key)
		mine.status = status
		close(mine.done)
	}
}

// keep keeps an answer that took long, and forgets one that does not any more.
func (s *shelf) keep(key string, k kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.order, key)
	if before := s.answers[key]; before != nil {
		k.asked = before.asked
	}
	s.forget(key)
	if k.took < worthKeeping || len(k.status.Groups) > mostGroups || len(k.status.Rows) > mostRows {
		return
	}
	for s.weight+k.weight() > maxWeight {
		s.forget(s.order[0])
		at = max(at-1, min(at, 0))
	}
	if s.answers == nil {
		s.answers = map[string]*kept{}
	}
	if at < 0 || at > len(s.order) {
		at = len(s.order)
	}
	// What was renewed while nobody asked has still not been asked for longer than others.
	s.answers[key], s.order, s.weight = &k, slices.Insert(s.order, at, key), s.weight+k.weight()
}

func (s *shelf) forget(key string) {
	if k := s.answers[key]; k != nil {
		delete(s.answers, key)
		s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == key })
		s.weight -= k.weight()
	}
}
